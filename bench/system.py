"""Measures `fovea embed` as a process: end-to-end rate, cold start and peak memory.

Prints one JSON object. Rates come from two runs of different length, so that start-up cancels."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import machine
from photos import SAMPLES, make_photos
from programs import answer, command_arguments, write_list


class Run:
    """One run of the program: wall time in seconds and peak resident memory in MiB."""

    def __init__(self, *arguments: object):
        started = time.perf_counter()
        process = subprocess.Popen([str(a) for a in arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        self.seconds = time.perf_counter() - started
        self.peak_mib = usage.ru_maxrss / 1024
        if status != 0:
            sys.exit(f"{arguments}: exit status {os.waitstatus_to_exitcode(status)}\n{errors.decode()}")


def rate(short_count: int, long_count: int, run, pairs: int = 2) -> float:
    """Returns images per second from the difference between a long and a short run, the best of several pairs."""
    timed = ((run(short_count).seconds, run(long_count).seconds) for _ in range(pairs))
    return max((long_count - short_count) / (long - short) for short, long in timed)


def end_to_end(fovea: str, model: str, precision: str, count: int, work: pathlib.Path) -> dict:
    """Measures `embed`, and its two stages alone: computing (--synthetic) and decoding (preprocess)."""
    photos = work / "photos"
    make_photos(photos, count)
    quarter = work / "few"
    quarter.mkdir()
    for path in sorted(photos.iterdir())[: count // 4]:
        os.link(path, quarter / path.name)
    out = work / "out"
    common = ["-m", model, "--precision", precision, "--quiet", "--overwrite", "-o", out]

    def folder(n: int) -> pathlib.Path:
        return photos if n == count else quarter

    compute = rate(count // 4, count, lambda n: Run(fovea, "embed", "--synthetic", n, *common))
    end_to_end = rate(count // 4, count, lambda n: Run(fovea, "embed", folder(n), *common))
    pixels = work / "pixels.npy"
    decode_only = ["-m", model, "--quiet", "-o", pixels]
    repeated = list(photos.iterdir()) * 8  # decoding is fast, so more of it gives a steadier figure

    def decode_run(n: int) -> Run:
        return Run(fovea, "preprocess", write_list(work / "many.txt", repeated[:n]), *decode_only)

    decode = rate(len(repeated) // 4, len(repeated), decode_run)
    slower = min(compute, decode)
    return {
        "images": count,
        "precision": precision,
        "compute_only": compute,
        "decode_only": decode,
        "end_to_end": end_to_end,
        "share_of_slower_stage": end_to_end / slower,
    }


def cold_start(fovea: str, model: str, precision: str, work: pathlib.Path) -> dict:
    """Measures a process that embeds one image, with the weights in the page cache, and its time beyond one image's
    compute."""
    photo = SAMPLES / "cat.jpg"
    common = command_arguments(m=model, precision=precision)
    command = [fovea, "embed", photo, *common, "--quiet", "--overwrite", "-o", work / "one"]
    runs = [Run(*command).seconds for _ in range(6)][1:]  # the first run loads the weights into the page cache
    report = json.loads(answer(fovea, "bench", *common, "--batch-size", 1, "--json"))
    compute = report["figures"][0]["median_seconds"]
    median = statistics.median(runs)
    return {
        "precision": precision,
        "process_seconds": median,
        "one_image_seconds": compute,
        "beyond_compute_seconds": median - compute,
    }


def memory(fovea: str, model: str, precision: str, counts: list[int], work: pathlib.Path) -> dict:
    """Measures the peak resident memory of `embed --synthetic N --batch-size 32` for each N."""
    arguments = command_arguments(
        m=model, precision=precision, batch_size=32, quiet=True, overwrite=True, o=work / "memory"
    )
    peaks = {str(count): Run(fovea, "embed", "--synthetic", count, *arguments).peak_mib for count in counts}
    return {"model": pathlib.Path(model).name, "precision": precision, "peak_mib": peaks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fovea", default=machine.PROGRAM)
    parser.add_argument("--model", required=True, help="folder of base-patch16-224")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--images", type=int, default=160, help="number of photos of the end-to-end run")
    parser.add_argument("--memory", default="100,1000", help="comma-separated numbers of synthetic images")
    parser.add_argument("sections", nargs="*", default=["end_to_end", "cold_start", "memory"])
    options = parser.parse_args()

    work = pathlib.Path(tempfile.mkdtemp(prefix="fovea-bench-"))
    arguments = (options.fovea, options.model, options.precision)
    sections = {
        "end_to_end": lambda: end_to_end(*arguments, options.images, work),
        "cold_start": lambda: cold_start(*arguments, work),
        "memory": lambda: memory(*arguments, [int(n) for n in options.memory.split(",")], work),
    }
    try:
        print(json.dumps({name: sections[name]() for name in options.sections}, indent=2))
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
