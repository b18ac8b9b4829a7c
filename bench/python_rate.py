"""Compares `Encoder.embed` of the Python package with `fovea embed`: rates and values on the same JPEGs.

    python3 bench/python_rate.py --model MODEL [--images 2000] [--device cuda] [--precision bf16] [--repeats 3]
                                 [--fovea build/release/bin/fovea] [--json FILE]

`*_images_per_second` are computed from two runs of different length, so that start-up and the last batch cancel. The
shorter run has more images than the program can decode while it loads the model; the longer one is so long that the
variation of start-up, a tenth of a second, is negligible. `call` is one call of embed with --images images on a loaded
model, `reported` is the rate that the program itself prints for them, and `process` is a whole Python process that
imports, loads, embeds and saves. Each figure is the best of --repeats."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import fovea
import machine
import measuring
import numpy
from photos import make_photos
from programs import command_arguments, write_list
from system import Run

SHORT, LONG = 3, 27  # lengths of the two runs, as multiples of --images
PROGRAM = """
import sys, numpy, fovea
model, device, precision, names, output = sys.argv[1:]
numpy.save(output, fovea.load(model, device, precision).embed(open(names).read().split()))
"""


def elapsed_seconds(function):
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def measure(options, work):
    photos = [str(path) for path in make_photos(work / "photos", options.images)]
    output, program_rows = work / "python.npy", work / "fovea.npy"
    common = command_arguments(m=options.model, device=options.device, precision=options.precision)

    def input_list(times=1):
        return write_list(work / "photos.txt", photos * times)

    def command(times):
        program_rows.unlink(missing_ok=True)
        return Run(options.fovea, "embed", input_list(times), *common, "--quiet", "-o", program_rows).seconds

    def reported():
        arguments = [options.fovea, "embed", input_list(), *common, "--progress", "json"]
        done = subprocess.run([*arguments, "-o", work / "reported.npy"], check=True, stderr=subprocess.PIPE, text=True)
        return json.loads(done.stderr.splitlines()[-1])["images_per_second"]

    def process():
        names = input_list().removeprefix("@")
        arguments = [sys.executable, "-c", PROGRAM, options.model, options.device, options.precision, names, output]
        return elapsed_seconds(lambda: subprocess.run(arguments, check=True))

    def best(function, *arguments):
        return min(function(*arguments) for _ in range(options.repeats))

    encoder = fovea.load(options.model, options.device, options.precision)
    rows = encoder.embed(photos)

    def call(times):
        return elapsed_seconds(lambda: encoder.embed(photos * times))

    def rate(seconds_by_length):
        return (LONG - SHORT) * len(photos) / (best(seconds_by_length, LONG) - best(seconds_by_length, SHORT))

    ours, call_seconds = rate(call), best(call, 1)
    encoder.close()
    program = rate(command)
    return {
        "images": len(photos),
        "precision": options.precision,
        "device": encoder.device,
        "python_images_per_second": ours,
        "cli_images_per_second": program,
        "python_to_cli": ours / program,
        "call_images_per_second": len(photos) / call_seconds,
        "cli_reported_images_per_second": reported(),
        "process_seconds": best(process),
        "cli_process_seconds": best(command, 1),
        "same_values": bool(numpy.array_equal(rows, numpy.load(program_rows))),
        "same_values_as_process": bool(numpy.array_equal(rows, numpy.load(output))),
    }


def main():
    parser = measuring.parser(__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", required=True)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="fovea-bench-"))
    try:
        entry = measure(options, work)
    finally:
        shutil.rmtree(work)
    where = machine.describe(options.fovea, options.device)
    machine.write_result({"machine": where, "python": [entry]}, options.json)


if __name__ == "__main__":
    main()
