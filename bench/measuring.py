"""Functions shared by the scripts that measure engines: options, rates of calls, and comparisons of embeddings."""

import argparse
import os
import pathlib
import shutil
import statistics
import time

import machine
import numpy
from programs import log, reason

MINIMUM_COSINE = {"fp32": 0.99999, "bf16": 0.999, "int8": 0.95}  # to transformers in fp32; engines below are not timed
MIN_CALLS = 3


def parser(description, device="", program="--fovea", path=machine.PROGRAM):
    """Returns a parser with the common options: --json, the path of the program, and --device where `device` gives its
    default."""
    argument_parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    argument_parser.add_argument("--json", type=pathlib.Path)
    argument_parser.add_argument(program, type=lambda given: pathlib.Path(given).absolute(), default=path)
    if device:
        argument_parser.add_argument("--device", default=device, choices=["cpu", "cuda"])
    return argument_parser


def numbers(text):
    return [int(item) for item in text.split(",")]


def rate(call, count, seconds, warm_up=1):
    """Returns the items per second of a call that processes `count` items, from the median of at least three calls."""
    for _ in range(warm_up):
        call()
    times, started = [], time.perf_counter()
    while len(times) < MIN_CALLS or time.perf_counter() - started < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return count / statistics.median(times)


def unit(rows):
    return rows / numpy.linalg.norm(rows, axis=-1, keepdims=True)


def cosines(rows, truth):
    """Returns the cosine of each row to the true row, computed in float64."""
    return (unit(rows.astype(float)) * unit(truth.astype(float))).sum(1)


def checked_cosine(rows, truth, precision):
    """Returns the minimum cosine. Raises RuntimeError where it is too small for the precision, or NaN."""
    minimum = float(cosines(rows, truth).min())
    if not minimum >= MINIMUM_COSINE[precision]:
        raise RuntimeError(f"embeddings differ from the reference: minimum cosine {minimum}")
    return minimum


def add_skipped_row(rows, name, precision, why):
    """Adds a row with the reason why an engine has no figure."""
    log(f"skipped {name} {precision}: {why}")
    rows.append({"precision": precision, "engine": name, "skipped": why})


def attempt(engines, precision, rows, function):
    """Returns the results of `function(name, engine)` by engine. An engine that fails is removed from `engines`, and a row
    records the reason."""
    results = {}
    for name, engine in list(engines.items()):
        try:
            results[name] = function(name, engine)
        except Exception as error:  # exporters and compilers raise exceptions of any type
            add_skipped_row(rows, name, precision, reason(error))
            del engines[name]
    return results


def interleaved_results(rounds, engines, precision, rows, function):
    """Returns the results of `function` by engine, one per round. Every round runs all engines; those that fail are left
    out."""
    turns = [attempt(engines, precision, rows, function) for _ in range(rounds)]
    return {name: [turn[name] for turn in turns] for name in engines}


def log_against_best_peer(case, subject, peers, medians):
    """Logs the rate of `subject` and that of the best peer."""
    if subject in medians and peers:
        best = max(peers, key=medians.get)
        multiple = medians[subject] / medians[best]
        log(f"{case}: {subject} {medians[subject]:.2f} images/s, {multiple:.2f} x {best} {medians[best]:.2f}")


def link_uncalibrated(model, folder):
    """Makes a folder with links to all files of the model but its calibrations, and returns the folder."""
    left_out = shutil.ignore_patterns("calibration-*")
    return shutil.copytree(pathlib.Path(model).resolve(), folder, copy_function=os.symlink, ignore=left_out)


def disable_tf32():
    """Makes torch compute fp32 products in fp32 rather than in TF32."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
