"""The committed results of a machine, from the oldest to the newest."""

import json
import pathlib
import re


def run_of(name: str) -> tuple[str, int]:
    """Date and number of a run, DATE-RUN-COMMIT: as text, the tenth run of a day would come before its second."""
    found = re.match(r"(\d{4}-\d\d-\d\d)(?:-(\d{1,4})-)?", name)
    return (found[1], int(found[2] or 0)) if found else ("", 0)


def parsed(text: str | bytes):
    """A document of results. ValueError for a number that nothing measures: what is made of it would be infinite."""

    def measured(digits: str) -> float:
        value = float(digits)
        if not (value == 0 or 1e-30 <= abs(value) <= 1e30):
            raise ValueError(f"{digits[:40]} is nothing that is measured")
        return value

    def whole(digits: str) -> int:
        measured(digits)
        return int(digits)

    return json.loads(text, parse_float=measured, parse_int=whole, parse_constant=measured)


def filed(path: pathlib.Path | None) -> dict:
    """The document of an earlier run; empty where there is none, and of a file that was made for one that has yet to be
    measured."""
    return json.loads(text) if path and path.exists() and (text := path.read_text()) else {}


def in_order(paths) -> list[pathlib.Path]:
    """Results from the oldest to the newest."""
    return sorted(paths, key=lambda path: (run_of(path.name), path))


def newest(folder: pathlib.Path) -> dict[str, tuple]:
    """The newest result of each section of a machine, and the machine as it was then. The encoder's on a GPU has the
    peers of its own run."""
    found: dict[str, tuple] = {}
    for path in in_order(folder.glob("*.json")):
        result = parsed(path.read_text())
        peers = result.pop("torch_encoder", [])
        if "gpu_bench" in result:
            result["gpu_bench"] = {"ours": result["gpu_bench"], "peers": peers}
        found |= {name: (value, result["machine"]) for name, value in result.items()}
    return found
