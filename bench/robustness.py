#!/usr/bin/env python3
"""Checks that no data is lost when a large job is killed repeatedly, and when some of its inputs are damaged.

    bench/robustness.py [--images 20000] [--kills 20] [--model FOLDER] [--json FILE]

1. A job that is killed with SIGKILL at random moments, and resumed each time, must write the same bytes
   as an uninterrupted one.
2. With 1 % of the inputs damaged, the exit code must be 3, each damaged input must be listed once, and
   every other row must be right, which is checked by embedding the other inputs without the damaged ones.

Without --model, the `tiny` preset with random weights is used. The exit code is 0 when both checks pass.
"""

import argparse
import io
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

import machine
import numpy as np
from PIL import Image
from programs import answer, command_arguments


def write_photo(task):
    """Writes a small unique JPEG; each folder holds a thousand of them."""
    folder, number = task
    noise = np.random.default_rng(number).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    size = (32 + number % 64, 32 + number % 48)
    Image.fromarray(noise).resize(size, Image.BICUBIC).save(buffer, "JPEG")
    path = folder / f"{number // 1000:03}" / f"{number:06}.jpg"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(buffer.getvalue())


def write_photos(folder, count):
    folder.mkdir()
    with ProcessPoolExecutor() as pool:
        list(pool.map(write_photo, ((folder, number) for number in range(count)), chunksize=500))


def file_contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != ".lock"}


def read_rows(out):
    files = sorted(out.glob("embeddings-*.npy"))
    sources = []
    for file in sorted(out.glob("index-*.jsonl")):
        sources += [json.loads(line)["source"] for line in file.read_text("utf-8").splitlines()]
    return sources, np.concatenate([np.load(file) for file in files])


class Program:
    def __init__(self, binary, model):
        self.binary = binary
        self.model = model

    def command(self, inputs, out):
        return [self.binary, *command_arguments("embed", inputs, m=self.model, o=out, quiet=True, shard_rows=4096)]

    def embed(self, inputs, out):
        return subprocess.run(self.command(inputs, out), check=False).returncode


def kill_test(program, photos, work, kills):
    """Kills and resumes a job, with the kills spread over its duration, and returns the outcome."""
    uninterrupted, out = work / "whole", work / "killed"
    start = time.monotonic()
    assert program.embed(photos, uninterrupted) == 0
    seconds = time.monotonic() - start
    print(f"uninterrupted: {seconds:.1f} s", flush=True)
    rng = random.Random(1)
    progress, runs = [], 0
    while len(progress) < kills:
        process = subprocess.Popen(program.command(photos, out))
        runs += 1
        # The average wait is short enough that the job does not end before the last kill.
        time.sleep(rng.uniform(0.05, 0.4 + 1.2 * seconds / kills))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if process.returncode == 0:
            print(f"  the job ended before kill {len(progress) + 1}; starting again")
            shutil.rmtree(out)
            progress.clear()
            rng = random.Random(1 + runs)
            continue
        manifest = out / "manifest.json"
        done = json.loads(manifest.read_text())["resume"]["inputs"] if manifest.exists() else 0
        progress.append(done)
        print(f"  kill {len(progress):2}: {done} inputs done", flush=True)
    code = program.embed(photos, out)
    identical = file_contents(out) == file_contents(uninterrupted)
    print(f"after {kills} kills: exit code {code}, output {'byte-identical' if identical else 'DIFFERENT'}")
    outcome = {"kills": kills, "inputs_done": progress}
    return outcome | {"identical": identical and code == 0, "uninterrupted_seconds": seconds}


def damage_test(program, photos, work):
    files = sorted(photos.rglob("*.jpg"))
    rng = random.Random(2)
    damaged = sorted(rng.sample(files, max(1, len(files) // 100)))
    for file in damaged:
        data = file.read_bytes()
        # The file is truncated, emptied, zeroed or replaced by text.
        file.write_bytes([data[: len(data) // 3], b"", bytes(len(data)), b"text"][rng.randrange(4)])
    code = program.embed(photos, work / "damaged")
    errors = [json.loads(line)["source"] for line in (work / "damaged/errors.jsonl").read_text("utf-8").splitlines()]
    listed_once = errors == [os.fspath(file) for file in damaged]
    sources, rows = read_rows(work / "damaged")
    for file in damaged:
        file.unlink()
    again = program.embed(photos, work / "again")
    sources_again, rows_again = read_rows(work / "again")
    cosines = np.sum(rows.astype(np.float64) * rows_again, axis=1)
    # Values may differ slightly, because batches have other images without the damaged inputs.
    right = sources == sources_again and bool(cosines.min() > 0.9999)
    print(f"{len(damaged)} damaged: exit code {code}, each listed once: {listed_once}, "
          f"every other row right: {right} (minimum cosine {cosines.min():.7f})")  # fmt: skip
    return {"damaged": len(damaged), "exit_code": code, "listed_once": listed_once,
            "rows_right": right and again == 0, "least_cosine": float(cosines.min())}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=20000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, help="also write the results to this file")
    arguments = parser.parse_args()
    binary = os.environ.get("FOVEA_BIN", machine.PROGRAM)
    with tempfile.TemporaryDirectory(prefix="fovea-robustness-") as name:
        work = pathlib.Path(name)
        model = arguments.model or work / "model"
        if not arguments.model:
            answer(binary, "init", *command_arguments(preset="tiny", seed=0, o=model))
        start = time.monotonic()
        write_photos(work / "photos", arguments.images)
        print(f"{arguments.images} photos made in {time.monotonic() - start:.0f} s", flush=True)
        program = Program(binary, model)
        result = {
            "images": arguments.images,
            "kill": kill_test(program, work / "photos", work, arguments.kills),
            "damage": damage_test(program, work / "photos", work),
        }
    if arguments.json:
        machine.write_result(result, arguments.json)
    damage = result["damage"]
    right = result["kill"]["identical"] and damage["listed_once"] and damage["rows_right"]
    return 0 if right and damage["exit_code"] == 3 else 1


if __name__ == "__main__":
    sys.exit(main())
