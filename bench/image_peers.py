"""Measures image rates of Fovea and Pillow on the same bytes and core, in alternating rounds of one run.

    python3 bench/image_peers.py [--bench build/release/bin/image_bench] [--rounds 5]

Prints a JSON list of {"images", "operation", "engine", "images_per_second"}: medians over the
rounds. Both engines' pixels are compared first; tests/image/test_pixels.py compares far more.
"""

import argparse
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import machine
from photos import SAMPLES
from PIL import Image, ImageOps
from programs import answer

SIDE, FILTER = 224, Image.Resampling.BILINEAR


def sources(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Writes a photograph at the size of a web image and at that of a camera, with noise like that of a sensor."""
    import numpy

    photo = Image.open(SAMPLES / "cat.jpg").convert("RGB")
    random = numpy.random.default_rng(0)
    paths = {}
    for name, size, grain in (("500x375 JPEG", (500, 375), 6), ("12-megapixel JPEG", (4000, 3000), 5)):
        pixels = numpy.asarray(photo.resize(size, Image.Resampling.LANCZOS), dtype=float)
        pixels = pixels + random.normal(0, grain, pixels.shape)
        path = folder / f"{size[0]}.jpg"
        Image.fromarray(pixels.clip(0, 255).astype("uint8")).save(path, quality=90)
        paths[name] = path
    return paths


def load(data: bytes) -> Image.Image:
    return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")


def rate(seconds: float, work) -> float:
    work()
    started, count = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - started) < seconds or count < 3:
        work()
        count += 1
    return count / elapsed


def pillow(data: bytes, seconds: float) -> dict[str, float]:
    image = load(data)
    return {
        "decode": rate(seconds, lambda: load(data)),
        "resize": rate(seconds, lambda: image.resize((SIDE, SIDE), FILTER)),
        "decode + resize": rate(seconds, lambda: load(data).resize((SIDE, SIDE), FILTER)),
    }


def fovea(program: str, path: pathlib.Path, seconds: float) -> dict[str, float]:
    rates = json.loads(answer(program, seconds, SIDE, SIDE, int(FILTER), path))
    return {name: rates[name] for name in rates if name != "simd"}


def check(tool: pathlib.Path, path: pathlib.Path) -> None:
    """Exits when pixels differ, because the rate of a wrong result is meaningless."""
    question = f"{SIDE} {SIDE} {int(FILTER)} {path}\n"
    answer = subprocess.check_output([tool], input=question.encode())
    pixels = answer[answer.index(b"\n") + 1 :]
    if pixels != load(path.read_bytes()).resize((SIDE, SIDE), FILTER).tobytes():
        sys.exit(f"{path}: pixels differ from Pillow's")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", default=machine.PROGRAM.with_name("image_bench"))
    parser.add_argument("--tool", default=machine.PROGRAM.parents[1] / "tests/pixels_tool")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4, help="per operation, engine and round")
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # inherited by image_bench

    entries = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path in sources(pathlib.Path(folder)).items():
            check(pathlib.Path(options.tool), path)
            data = path.read_bytes()
            rounds: dict[str, list[dict[str, float]]] = {"fovea": [], "pillow": []}
            for _ in range(options.rounds):
                rounds["fovea"].append(fovea(options.bench, path, options.seconds))
                rounds["pillow"].append(pillow(data, options.seconds))
            kilobytes = len(data) // 1000
            for operation in rounds["fovea"][0]:
                for engine, results in rounds.items():
                    median = statistics.median(result[operation] for result in results)
                    row = {"images": f"{name}, {kilobytes} KB", "operation": operation, "engine": engine}
                    entries.append(row | {"images_per_second": round(median, 2)})
    json.dump(entries, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
