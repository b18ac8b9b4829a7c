"""Everything that a day with a GPU is for, in one run, and one JSON file to send back (scripts/gpu-day).

    python3 bench/gpu_day.py --out FILE.json [--fovea build/release/bin/fovea] [--model FOLDER] [--seeds 3] [--seconds 3600] [STEP...]

Steps: check (every card against float64, and its mutants), capture (what this GPU computes of the cards' small cases,
with which the emulator is compared bit for bit), kernels (every card beside cuBLASLt and cuDNN, MXFP8's products among
them), sanitizers, profiles, gates, bench (the encoder by batch size and precision), peers (torch, torch.compile).
Without --model one is made and calibrated. The file is written again after each step, so that what was measured stays
when the machine goes; a step that failed, or left no result, says so in it, and the others go on. Exit code 1: a step
failed."""

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
from programs import words

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
# Steps by worth, because the machine may go early.
STEPS = ("check", "capture", "kernels", "sanitizers", "profiles", "gates", "bench", "peers")
OF_MODELS = ("bench", "peers")
KEPT_LINES = 40  # of what a step that failed said


def run(command, seconds):
    """Exit code (or why there is none), and the end of what it said."""
    command = [str(part) for part in command]
    print("+", " ".join(command), file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            command, cwd=ROOT, timeout=seconds, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode(errors="replace")
        return f"no end within {seconds:.0f} s", said.splitlines()[-KEPT_LINES:]
    except OSError as error:
        return str(error), []
    print(done.stdout, file=sys.stderr)
    return done.returncode, done.stdout.splitlines()[-KEPT_LINES:]


def document(path):
    """JSON, or JSON lines; None: it is not there or not whole."""
    try:
        text = path.read_text()
        return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
    except (OSError, ValueError):
        return None


def check(options, folder):
    file = folder / "check.json"
    code, said = run([options.fovea, "kernel", "check", "--seeds", options.seeds, f"--json={file}"], options.seconds)
    return code, said, {"check": document(file)}


def capture(options, folder):
    file = folder / "captures"
    code, said = run([options.fovea, "kernel", "capture", "-o", file], options.seconds)
    packed = base64.b64encode(file.read_bytes()).decode() if file.exists() else None
    return code, said, {"captures_base64": packed}


def missing(found):
    """Which results a step did not leave, or not whole; "": none."""
    names = [name for name, result in (found | found.get("documents", {})).items() if result is None]
    return f"left no {', '.join(names)}" if names else ""


def section(name):
    """A section of bench/run_gpu.py: its figures, and the documents that it files."""

    def step(options, folder):
        file = folder / f"{name}.json"
        model = options.model if name in OF_MODELS else None
        names = words(name, json=file, fovea=options.fovea, seconds=options.seconds, model=model)
        code, said = run([sys.executable, HERE / "run_gpu.py", *names], options.seconds)
        figures = document(file) or {}
        figures.pop("machine", None)
        filed = sorted(path for path in file.with_suffix("").rglob("*.json*") if path.is_file())
        documents = {str(path.relative_to(file.with_suffix(""))): document(path) for path in filed}
        return code, said, (figures if figures or documents else {name: None}) | {"documents": documents}

    return step


def make_model(options):
    """One of random weights, calibrated for int8 and fp8; or why there is none."""
    folder = ROOT / "build/bench/gpu-day-model"
    steps = {
        "config.json": ["init", *words(preset="base-patch16-224", seed=0, o=folder)],
        "calibration-fp8.safetensors": ["calibrate", folder, ROOT / "examples/photos", "--precision", "int8,fp8"],
    }
    for made, command in steps.items():
        if not (folder / made).exists():
            code, said = run([options.fovea, *command], options.seconds)
            if code:
                return None, said
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
    parser.add_argument("--seeds", type=int, default=3, help="of check")
    parser.add_argument("--seconds", type=float, default=3600, help="limit of a step")
    parser.add_argument("steps", nargs="*", metavar="STEP", default=list(STEPS))
    options = parser.parse_args()
    if unknown := sorted(set(options.steps) - set(STEPS)):
        parser.error(f"there is no step {', '.join(unknown)}; there are {', '.join(STEPS)}")
    options.fovea, options.out = options.fovea.resolve(), options.out.resolve()
    steps = {"check": check, "capture": capture} | {name: section(name) for name in STEPS[2:]}
    day = {"kind": "gpu_day", "machine": machine.describe(options.fovea, "cuda"), "steps": {}}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    save(options, day)
    failed = False
    for name in options.steps:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            if name in OF_MODELS and options.model is None:
                options.model, said = make_model(options)
            if name in OF_MODELS and options.model is None:
                code, found = "there is no model", {}
            else:
                code, said, found = steps[name](options, pathlib.Path(folder))
                code = code or missing(found)
        failed |= bool(code)
        seconds, said = round(time.monotonic() - start, 1), said if code else []
        day["steps"][name] = {"seconds": seconds, "exit": code or 0, "said": said} | found
        save(options, day)
        print(f"{name}: {'failed: ' + str(code) if code else 'done'}", file=sys.stderr, flush=True)
    print(f"send back {os.path.relpath(options.out)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
