"""Runs the benchmarks and stores the results as bench/results/<machine>/<date>-<commit>.json.

    build/venv/bin/python bench/run.py --machine zen4-2-cores --model MODEL [SECTION...]

Sections: encoder, cpu_times, image, end_to_end, cold_start, memory, robustness (default: all). A section
measured on a machine without this checkout is added with --take SECTION=FILE, which also takes the machine
from the file. Then python3 bench/report generates docs/performance.md from all results.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import machine
import runs
from machine import PROGRAM
from programs import answer

ROOT = pathlib.Path(__file__).resolve().parent.parent
HERE = ROOT / "bench"
SYSTEM = ("end_to_end", "cold_start")


def script(name: str, *arguments: object) -> str:
    command = [sys.executable, HERE / name, *arguments]
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def encoder_results(name: str, key: str, options) -> list | dict:
    """Runs a script that compares the encoder with its peers, and returns what it stores under `key`. Calibrates the
    model for int8 first, if needed."""
    if "int8" in options.precisions:
        info = json.loads(answer(PROGRAM, "info", options.model, "--json"))
        if not any(path.endswith("/calibration-int8.safetensors") for path in info["calibrations"]):
            answer(PROGRAM, "calibrate", options.model, ROOT / "examples/photos", "--precision", "int8")
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        script(name, options.model, "--precision", options.precisions, "--json", file.name)
        return json.load(file)[key]


def system(section: str, options) -> list:
    return [
        json.loads(script("system.py", "--model", options.model, "--precision", precision, section))[section]
        for precision in options.precisions.split(",")
    ]


def memory(options) -> list:
    """Measures peak memory by number of images: of a tiny model, which allows many images, and of the given model."""
    with tempfile.TemporaryDirectory() as folder:
        tiny = pathlib.Path(folder) / "tiny"
        answer(PROGRAM, "init", "--preset", "tiny", "-o", tiny)
        runs = [(tiny, "1000,100000"), (options.model, "128")]
        return [
            json.loads(script("system.py", "--model", model, "--memory", counts, "memory"))["memory"]
            for model, counts in runs
        ]


def robustness() -> dict:
    """Runs the robustness test. Its result is stored even when the test fails, and the page then shows the failure."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([sys.executable, HERE / "robustness.py", "--json", file.name], check=False, stdout=sys.stderr)
        return json.load(file)


def file_result(name: str, where: dict, sections: dict) -> None:
    """Adds sections to the file of this machine, date and commit."""
    if not sections:
        return
    folder = HERE / "results" / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{where['date']}-{where['commit']}.json"
    filed = runs.read_result(path) or {"machine": where}
    path.write_text(json.dumps(filed | sections, indent=1) + "\n")
    print(f"{path.relative_to(ROOT)}: {', '.join(sections)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", required=True, help="name of the folder for the results")
    parser.add_argument("--model", help="folder of base-patch16-224; every section but image and robustness needs it")
    parser.add_argument("--precisions", default="fp32,bf16,int8")
    parser.add_argument("--take", action="append", default=[], metavar="SECTION=FILE")
    parser.add_argument("sections", nargs="*")
    options = parser.parse_args()

    where = machine.describe()
    result: dict = {}
    for item in options.take:
        section, path = item.split("=", 1)
        content = json.loads(pathlib.Path(path).read_text())
        where = content.get("machine", where)
        result[section] = content["results"] if section == "encoder" else content[section]
    runs = {
        "encoder": lambda: encoder_results("peers_cpu.py", "results", options),
        "cpu_times": lambda: encoder_results("cpu_times.py", "cpu_times", options),
        "image": lambda: json.loads(script("image_peers.py")),
        **{section: lambda section=section: system(section, options) for section in SYSTEM},
        "memory": lambda: memory(options),
        "robustness": robustness,
    }
    file_result(options.machine, where, result)
    for section in options.sections or ([] if options.take else runs):
        # Each section is stored at once, so that a failing one does not affect the others.
        file_result(options.machine, where, {section: runs[section]()})


if __name__ == "__main__":
    main()
