"""Runs all measurements that need a GPU, and writes one JSON file to send back (scripts/gpu-day).

    python3 bench/gpu_day.py --out FILE.json [--fovea build/release/bin/fovea] [--model FOLDER] [--seeds 3] [--seconds 3600] [STEP...]

Steps: check (every card against float64, and its mutants), capture (this GPU's results for the cards' small cases, with
which the emulator is compared bit for bit), kernels (every card against cuBLASLt and cuDNN, including MXFP8 products),
sanitizers, profiles, gates, bench (the encoder by batch size and precision), peers (torch, torch.compile). Without
--model, a model is made and calibrated. The file is rewritten after each step, so that results survive when the machine
is taken away. A step that fails or leaves no result is recorded as such, and the other steps still run; the exit code
is then 1."""

import argparse
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import machine
from programs import command_arguments

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
# The most valuable steps come first, because the machine may be taken away early.
STEPS = ("check", "capture", "kernels", "sanitizers", "profiles", "gates", "bench", "peers")
MODEL_STEPS = ("bench", "peers")
KEPT_LINES = 40  # last lines of a failed step's output that are kept


def run(command, seconds):
    """Runs a command. Returns its exit code, or the reason why there is none, and the last lines of its output."""
    command = [str(part) for part in command]
    print("+", " ".join(command), file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            command, cwd=ROOT, timeout=seconds, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        return f"timed out after {seconds:.0f} s", output.splitlines()[-KEPT_LINES:]
    except OSError as error:
        return str(error), []
    print(done.stdout, file=sys.stderr)
    return done.returncode, done.stdout.splitlines()[-KEPT_LINES:]


def document(path):
    """Reads JSON or JSON lines; returns None for a missing or incomplete file."""
    try:
        text = path.read_text()
        return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
    except (OSError, ValueError):
        return None


def check(options, folder):
    file = folder / "check.json"
    code, output = run([options.fovea, "kernel", "check", "--seeds", options.seeds, f"--json={file}"], options.seconds)
    return code, output, {"check": document(file)}


def capture(options, folder):
    file = folder / "captures"
    code, output = run([options.fovea, "kernel", "capture", "-o", file], options.seconds)
    packed = base64.b64encode(file.read_bytes()).decode() if file.exists() else None
    return code, output, {"captures_base64": packed}


def missing(results):
    """Returns a message that names the missing or incomplete results of a step, or ""."""
    names = [name for name, result in (results | results.get("documents", {})).items() if result is None]
    return f"left no {', '.join(names)}" if names else ""


def section(name):
    """Returns a step that runs a section of bench/run_gpu.py for its figures and documents."""

    def step(options, folder):
        file = folder / f"{name}.json"
        model = options.model if name in MODEL_STEPS else None
        arguments = command_arguments(name, json=file, fovea=options.fovea, seconds=options.seconds, model=model)
        code, output = run([sys.executable, HERE / "run_gpu.py", *arguments], options.seconds)
        figures = document(file) or {}
        figures.pop("machine", None)
        filed = sorted(path for path in file.with_suffix("").rglob("*.json*") if path.is_file())
        documents = {str(path.relative_to(file.with_suffix(""))): document(path) for path in filed}
        return code, output, (figures if figures or documents else {name: None}) | {"documents": documents}

    return step


def make_model(options):
    """Makes a model of random weights, calibrated for int8 and fp8. Returns its folder, or None and the failed
    command's output."""
    folder = ROOT / "build/bench/gpu-day-model"
    steps = {
        "config.json": ["init", *command_arguments(preset="base-patch16-224", seed=0, o=folder)],
        "calibration-fp8.safetensors": ["calibrate", folder, ROOT / "examples/photos", "--precision", "int8,fp8"],
    }
    for file_name, command in steps.items():
        if not (folder / file_name).exists():
            code, output = run([options.fovea, *command], options.seconds)
            if code:
                return None, output
    return folder, []


def save(options, day):
    new = options.out.with_name(f"{options.out.name}.new")
    new.write_text(json.dumps(day, indent=1) + "\n")
    new.replace(options.out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--fovea", type=pathlib.Path, default=ROOT / "build/release/bin/fovea")
    parser.add_argument("--model", type=pathlib.Path, help="calibrated folder of base-patch16-224")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds for check")
    parser.add_argument("--seconds", type=float, default=3600, help="time limit per step")
    parser.add_argument("steps", nargs="*", metavar="STEP", default=list(STEPS))
    options = parser.parse_args()
    if unknown := sorted(set(options.steps) - set(STEPS)):
        parser.error(f"unknown step: {', '.join(unknown)} (choose from {', '.join(STEPS)})")
    options.fovea, options.out = options.fovea.resolve(), options.out.resolve()
    steps = {"check": check, "capture": capture} | {name: section(name) for name in STEPS[2:]}
    day = {"kind": "gpu_day", "machine": machine.describe(options.fovea, "cuda"), "steps": {}}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    save(options, day)
    failed = False
    for name in options.steps:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            if name in MODEL_STEPS and options.model is None:
                options.model, output = make_model(options)
            if name in MODEL_STEPS and options.model is None:
                code, results = "cannot make a model", {}
            else:
                code, output, results = steps[name](options, pathlib.Path(folder))
                code = code or missing(results)
        failed |= bool(code)
        seconds, output = round(time.monotonic() - start, 1), output if code else []
        day["steps"][name] = {"seconds": seconds, "exit": code or 0, "said": output} | results
        save(options, day)
        print(f"{name}: {'failed: ' + str(code) if code else 'done'}", file=sys.stderr, flush=True)
    print(f"send back {os.path.relpath(options.out)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
