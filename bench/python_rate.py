"""`Encoder.embed` of the Python package beside `fovea embed`: rate and values on the same JPEGs.

    python3 bench/python_rate.py --model MODEL [--images 2000] [--device cuda] [--precision bf16] [--repeats 3]
                                 [--fovea build/release/bin/fovea] [--json FILE]

Rates of long runs come from two runs of different length, so that start-up and the last batch cancel. `call` is one
call of embed on a loaded model, `process` a whole program that imports, loads, embeds and saves. Best of --repeats each."""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy

import fovea
import machine
from gpu_system import listed, make_photos
from system import ROOT, Run

LONG = 4  # times as many images in a long run
PROGRAM = """
import sys, numpy, fovea
model, device, precision, names, output = sys.argv[1:]
numpy.save(output, fovea.load(model, device, precision).embed(open(names).read().split()))
"""


def seconds_of(function):
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def measure(options, work):
    photos = [str(path) for path in make_photos(work / "photos", options.images)]
    many = photos * LONG
    output, theirs = work / "python.npy", work / "fovea.npy"

    def command(paths):
        theirs.unlink(missing_ok=True)
        return Run(options.fovea, "embed", listed(work, paths), "-m", options.model, "--device", options.device,
                   "--precision", options.precision, "--quiet", "-o", theirs).seconds  # fmt: skip

    def best(function):
        return min(function() for _ in range(options.repeats))

    def process():
        names = listed(work, photos).removeprefix("@")
        arguments = [sys.executable, "-c", PROGRAM, options.model, options.device, options.precision, names, output]
        return seconds_of(lambda: subprocess.run(arguments, check=True))

    encoder = fovea.load(options.model, options.device, options.precision)
    encoder.embed(photos)
    embed = {len(paths): best(lambda p=paths: seconds_of(lambda: encoder.embed(p))) for paths in (photos, many)}
    rows = encoder.embed(photos)
    encoder.close()
    cli = {len(paths): best(lambda p=paths: command(p)) for paths in (many, photos)}
    whole = best(process)

    def rate(seconds):
        return (len(many) - len(photos)) / (seconds[len(many)] - seconds[len(photos)])

    return {
        "images": len(photos),
        "precision": options.precision,
        "device": encoder.device,
        "python_images_per_second": rate(embed),
        "cli_images_per_second": rate(cli),
        "python_to_cli": rate(embed) / rate(cli),
        "call_seconds": embed[len(photos)],
        "process_seconds": whole,
        "cli_process_seconds": cli[len(photos)],
        "same_values": bool(numpy.array_equal(rows, numpy.load(theirs))),
        "same_values_as_process": bool(numpy.array_equal(rows, numpy.load(output))),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/bin/fovea"))
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="fovea-bench-"))
    try:
        entry = measure(options, work)
    finally:
        shutil.rmtree(work)
    text = json.dumps({"machine": machine.describe(), "python": [entry]}, indent=1)
    if options.json:
        options.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
