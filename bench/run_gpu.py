"""Runs the GPU's benchmarks, all in one run on one GPU, and stores them as one JSON file.

    python3 bench/run_gpu.py --model MODEL --models MODEL,... --json bench/results/nvidia-h200/DATE-RUN-COMMIT.json
                             [--fovea build/release/bin/fovea] [--quick] [SECTION...]

RUN counts the runs of a day: the newest figures of a section are those of the last file by name.
Sections: kernels (every card, beside cuBLASLt and cuDNN), bench (the encoder by batch size and precision), peers
(torch), accuracy (--models, --photos), system (JPEGs to embeddings), operators (the Python package that this interpreter imports:
acceptance, attention beside torch's, the Encoder's rate). What a section gave is saved before the next starts.
--quick: torch's products only where kernels have no peer, its encoder at two sizes; no DataLoader; fewer repetitions."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import machine

HERE = pathlib.Path(__file__).resolve().parent


def saved(options, *command):
    """The JSON that a program of Python's writes with --json; empty when it did not get that far."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, *command, "--json", file.name]
        try:
            failure = subprocess.run(
                [str(part) for part in command], stdout=sys.stderr, check=False, timeout=options.seconds
            ).returncode
        except subprocess.TimeoutExpired:
            failure = f"no end within {options.seconds:.0f} s"
        if failure:
            print(f"{' '.join(map(str, command[1:3]))} failed ({failure}); keeping what it saved", file=sys.stderr)
            options.failed = True
        return json.loads(pathlib.Path(file.name).read_text() or "{}")


def kernels(options):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [options.fovea, "kernel", "bench", "--peers", "--json", file.name]
        done = subprocess.run(command, stdout=sys.stderr, check=False, timeout=options.seconds)
        options.failed |= done.returncode != 0  # of a kernel that was wrong there is no figure; the others stay
        return {"kernels": json.loads(pathlib.Path(file.name).read_text())["kernels"]}


def bench(options):
    figures = []
    for precision in ("bf16", "int8", "fp8"):
        command = [options.fovea, "bench", "-m", options.model, "--device", "cuda", "--precision", precision,
                   "--batch-size", "1,8,32,256,1024", "--seconds", "1.5", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=options.seconds)
        print(done.stdout, done.stderr, file=sys.stderr)
        if done.returncode == 0:
            figures += json.loads(done.stdout)["figures"]
        else:
            options.failed = True
    return {"gpu_bench": figures}


def peers(options):
    quick = ["--shapes", "patch_embed", "--batch", "1,1024"] if options.quick else []
    result = saved(options, HERE / "peers.py", "--model", options.model, *quick)
    return {f"torch_{section}": found for section, found in result.items() if section != "machine"}


def accuracy(options):
    photos = ["--photos", options.photos] if options.photos else []
    models = options.models.split(",")
    return {"accuracy": saved(options, HERE / "gpu_accuracy.py", *models, *photos, "--fovea", options.fovea)["accuracy"]}


def system(options):
    thorough = [] if options.quick else ["--dataloader"]
    result = saved(options, HERE / "gpu_system.py", "--model", options.model, "--fovea", options.fovea, *thorough)
    result.pop("machine", None)
    return result


def operators(options):
    accepted = saved(options, "-m", "fovea.accept")
    attention = saved(options, "-m", "fovea.bench_attention")
    quick = ["--repeats", "2"] if options.quick else []
    rate = saved(options, HERE / "python_rate.py", "--model", options.model, "--fovea", options.fovea, *quick)
    found = {"operators_accepted": accepted, "operators_attention": attention, "python": rate.get("python")}
    return {section: figures for section, figures in found.items() if figures}


SECTIONS = {"kernels": kernels, "bench": bench, "peers": peers, "accuracy": accuracy, "system": system,
            "operators": operators}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="calibrated folder of base-patch16-224")
    parser.add_argument("--models", default="", help="folders, or PRESET@SEED, for the accuracy table")
    parser.add_argument("--photos", help="folder of the photos for it (bench/gpu_accuracy.py --write); made where there is none")
    parser.add_argument("--fovea", default=str(HERE.parent / "build/release/bin/fovea"))
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=1800, help="limit of one section's programs")
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    options = parser.parse_args()
    options.models = options.models or options.model
    filed = json.loads(options.json.read_text()) if options.json.exists() else {}
    filed["machine"] = machine.describe() | {"gpu": machine.gpu()}
    options.failed = False
    for section in options.sections:
        try:
            filed |= SECTIONS[section](options)
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            print(f"{section}: {error}", file=sys.stderr)
            options.failed = True
        options.json.write_text(json.dumps(filed, indent=1) + "\n")
    return int(options.failed)


if __name__ == "__main__":
    sys.exit(main())
