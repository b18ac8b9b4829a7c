"""Reads the committed results of a machine, oldest first."""

import json
import pathlib
import re


def run_key(name: str) -> tuple[str, int]:
    """Returns the date and the number of a run from a file name DATE-RUN-COMMIT. The number is an integer, because as
    text the tenth run of a day would sort before the second."""
    match = re.match(r"(\d{4}-\d\d-\d\d)(?:-(\d{1,4})-)?", name)
    return (match[1], int(match[2] or 0)) if match else ("", 0)


def parse_result(text: str | bytes):
    """Parses a result document. Raises ValueError for numbers that no measurement gives, which cause infinities."""

    def measured(digits: str) -> float:
        value = float(digits)
        if not (value == 0 or 1e-30 <= abs(value) <= 1e30):
            raise ValueError(f"{digits[:40]} is not a plausible measurement")
        return value

    def parse_integer(digits: str) -> int:
        measured(digits)
        return int(digits)

    return json.loads(text, parse_float=measured, parse_int=parse_integer, parse_constant=measured)


def read_result(path: pathlib.Path | None) -> dict:
    """Returns the result of an earlier run, or {} for a missing or empty file."""
    return json.loads(text) if path and path.exists() and (text := path.read_text()) else {}


def oldest_first(paths) -> list[pathlib.Path]:
    """Sorts result files from the oldest to the newest."""
    return sorted(paths, key=lambda path: (run_key(path.name), path))


def newest(folder: pathlib.Path) -> dict[str, tuple]:
    """Returns the newest result of each section of a machine, with the description of the machine at that time. The
    encoder's result on a GPU includes the peers of the same run."""
    sections: dict[str, tuple] = {}
    for path in oldest_first(folder.glob("*.json")):
        result = parse_result(path.read_text())
        peers = result.pop("torch_encoder", [])
        if "gpu_bench" in result:
            result["gpu_bench"] = {"ours": result["gpu_bench"], "peers": peers}
        sections |= {name: (value, result["machine"]) for name, value in result.items()}
    return sections
