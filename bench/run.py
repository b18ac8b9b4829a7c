"""Runs the benchmarks and files them as bench/results/<machine>/<date>-<commit>.json.

    build/venv/bin/python bench/run.py --machine zen4-2-cores --model MODEL [SECTION...]

Sections: encoder, image, end_to_end, cold_start, memory, robustness (default: all). A section
measured on a machine without this checkout is taken over with --take SECTION=FILE, its machine
included. Then bench/report.py makes docs/performance.md of all results.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
HERE = ROOT / "bench"
SYSTEM = ("end_to_end", "cold_start", "memory")


def script(name: str, *arguments: object) -> str:
    command = [sys.executable, HERE / name, *arguments]
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def encoder(options) -> list:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        script("peers_cpu.py", options.model, "--batch", "32", "--precision", options.precisions, "--json", file.name)
        return json.load(file)["results"]


def system(section: str, options) -> object:
    precisions = options.precisions.split(",")
    return [
        json.loads(script("system.py", "--model", options.model, "--precision", precision, section))[section]
        for precision in precisions
    ]


def robustness() -> dict:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        script("robustness.py", "--json", file.name)
        return json.load(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", required=True, help="name of the folder of results")
    parser.add_argument("--model", help="folder of base-patch16-224; every section but image and robustness needs it")
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--take", action="append", default=[], metavar="SECTION=FILE")
    parser.add_argument("sections", nargs="*")
    options = parser.parse_args()

    where = machine.describe()
    result: dict = {}
    for item in options.take:
        section, path = item.split("=", 1)
        taken = json.loads(pathlib.Path(path).read_text())
        where = taken.get("machine", where)
        result[section] = taken["results"] if section == "encoder" else taken[section]
    runs = {
        "encoder": lambda: encoder(options),
        "image": lambda: json.loads(script("image_peers.py")),
        **{section: lambda section=section: system(section, options) for section in SYSTEM},
        "robustness": robustness,
    }
    for section in options.sections or ([] if options.take else runs):
        result[section] = runs[section]()

    folder = HERE / "results" / options.machine
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{where['date']}-{where['commit']}.json"
    if path.exists():
        result = json.loads(path.read_text()) | result
    path.write_text(json.dumps({"machine": where} | {k: v for k, v in result.items() if k != "machine"}, indent=1) + "\n")
    print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
