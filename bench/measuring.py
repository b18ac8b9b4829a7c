"""What the scripts that measure engines share: their options, rates of calls, and how near embeddings are."""

import argparse
import os
import pathlib
import shutil
import statistics
import time

import machine
import numpy
from programs import log, reason

MINIMUM_COSINE = {"fp32": 0.99999, "bf16": 0.999, "int8": 0.95}  # to transformers in fp32; below it nothing is timed
LEAST_CALLS = 3


def parser(about, device="", program="--fovea", path=machine.PROGRAM):
    """Options of a script: --json, the program with its path, and --device where the script has the choice."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", type=pathlib.Path)
    made.add_argument(program, type=lambda given: pathlib.Path(given).absolute(), default=path)
    if device:
        made.add_argument("--device", default=device, choices=["cpu", "cuda"])
    return made


def numbers(text):
    return [int(item) for item in text.split(",")]


def rate(call, count, seconds, warm_up=1):
    """Rate of calls that do `count` things each, by the median of at least three."""
    for _ in range(warm_up):
        call()
    times, started = [], time.perf_counter()
    while len(times) < LEAST_CALLS or time.perf_counter() - started < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return count / statistics.median(times)


def unit(rows):
    return rows / numpy.linalg.norm(rows, axis=-1, keepdims=True)


def cosines(found, truth):
    """Cosine of each row to the true one, in float64."""
    return (unit(found.astype(float)) * unit(truth.astype(float))).sum(1)


def least_cosine(found, truth, precision):
    """The least one. RuntimeError where it is too small for the precision, or anything is NaN."""
    least = float(cosines(found, truth).min())
    if not least >= MINIMUM_COSINE[precision]:
        raise RuntimeError(f"its embeddings are off: cosine {least}")
    return least


def left_out(rows, name, precision, why):
    """Adds a row that says why an engine has no figure."""
    log(f"skipped {name} {precision}: {why}")
    rows.append({"precision": precision, "engine": name, "skipped": why})


def attempt(engines, precision, rows, what):
    """What `what(name, engine)` returns of each engine. One that fails is left out of `engines` from then on, and a row
    says why."""
    found = {}
    for name, engine in list(engines.items()):
        try:
            found[name] = what(name, engine)
        except Exception as error:  # whatever a peer's export or compiler raises
            left_out(rows, name, precision, reason(error))
            del engines[name]
    return found


def in_turns(rounds, engines, precision, rows, what):
    """Results of `what` by engine, a list with one of each round; engines that fail are left out."""
    turns = [attempt(engines, precision, rows, what) for _ in range(rounds)]
    return {name: [turn[name] for turn in turns] for name in engines}


def tell_beside(case, subject, peers, medians):
    """Tells the rate of `subject` beside that of the best peer."""
    if subject in medians and peers:
        best = max(peers, key=medians.get)
        multiple = medians[subject] / medians[best]
        log(f"{case}: {subject} {medians[subject]:.2f} images/s, {multiple:.2f} x {best} {medians[best]:.2f}")


def uncalibrated(model, folder):
    """A folder with links to the model's files, but for its calibrations."""
    left_out = shutil.ignore_patterns("calibration-*")
    return shutil.copytree(pathlib.Path(model).resolve(), folder, copy_function=os.symlink, ignore=left_out)


def without_tf32():
    """Makes fp32 of torch what it says."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
