"""Finds and reads result files, with the time and place of each measurement. Damaged files are reported, and never
shown."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import runs

from report import shapes
from report.shapes import Damaged

MAX_BYTES = 4 << 20  # maximum size of a document, and of a line of a ledger
LEDGER_PREFIXES = b'{"kind": "run"', b'{"kind":"run"'


@dataclasses.dataclass
class Document:
    """One result file. A ledger is read into the keys "run", "candidates", "confirmations", "end" (if that is its last
    line) and "cost_seconds" (the sum of all lines)."""

    path: pathlib.Path
    kind: str  # such as "profile"; "bench" is a file of bench/run_gpu.py
    json: dict
    machine: dict
    provenance: str = ""  # when and where it was measured, for tables
    cause: str = ""  # planted cause of slowness, whose figures are not Fovea's own

    def part(self, name: str) -> dict:
        """Returns the description of a part of the machine, or {}."""
        return part if isinstance(part := self.machine.get(name), dict) else {}

    @property
    def device(self) -> str:
        return str(self.part("gpu").get("name") or self.part("cpu").get("model") or "an unnamed machine")

    @property
    def date(self) -> str:
        return str(self.machine.get("date") or "")

    @property
    def when(self) -> str:
        commit = self.machine.get("commit")
        return self.date + (f" at {commit}" if commit else "")

    @property
    def order(self) -> tuple:
        run = max((runs.run_key(part)[1] for part in self.path.parts), default=0)
        return self.date, run, self.path.name, str(self.path)


def parts(document: Document) -> Iterator[tuple[object, object, str]]:
    """Yields the value, shape and name of each part that is checked separately, so that a damaged part does not affect
    the others."""
    if document.kind == "bench":
        yield from (
            (document.json[name], shape, name) for name, shape in shapes.SECTIONS.items() if name in document.json
        )
    elif document.kind in shapes.KINDS:
        yield document.json, shapes.KINDS[document.kind], document.kind


def files(inputs: Iterable[pathlib.Path]) -> tuple[list[pathlib.Path], list[str]]:
    """Returns the given files and those in the given folders, each once, and a message for each folder that cannot be
    listed. Links to folders are not followed."""
    paths: dict[str, pathlib.Path] = {}
    left_out: list[str] = []

    def unlisted(error: OSError) -> None:
        left_out.append(f"{error.filename}: this folder cannot be listed: {error.strerror}")

    for entry in inputs:
        if os.path.isdir(entry):
            for folder, _, names in os.walk(entry, onerror=unlisted):
                for path in (pathlib.Path(folder, name) for name in names):
                    if path.suffix in (".json", ".jsonl"):
                        paths.setdefault(os.path.realpath(path), path)
        elif os.path.lexists(entry):
            paths.setdefault(os.path.realpath(entry), entry)
        else:
            raise Damaged(f"{entry}: no such file or folder")
    return [paths[entry] for entry in sorted(paths)], left_out


def parse_object(text: bytes, name: str) -> dict:
    try:
        value = runs.parse_result(text)
    except json.JSONDecodeError as error:
        raise Damaged(f"{name}: not JSON: {error}") from error
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{name}: {error}") from error
    if not isinstance(value, dict):
        raise Damaged(f"{name}: must be a JSON object")
    return value


def lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Yields the complete lines of a ledger with their numbers; a killed run may leave an incomplete last line. The
    size of a line is limited, that of the ledger is not."""
    number = 0
    while line := file.readline(MAX_BYTES + 1):
        number += 1
        if len(line) > MAX_BYTES:
            raise Damaged(f"{name}: line {number} is longer than {MAX_BYTES} bytes")
        if line.endswith(b"\n") and line.strip():
            yield number, line


def read_ledger(file: BinaryIO, name: str) -> dict:
    """Reads a ledger. A damaged last line is ignored, as a power failure may leave one."""
    ledger: dict = {"candidates": [], "confirmations": [], "cost_seconds": 0.0}
    bad = None
    for number, line in lines(file, name):
        if bad:
            raise bad
        try:
            entry = parse_object(line, f"{name}: line {number}")
        except Damaged as error:
            bad = error
            continue
        ledger.pop("end", None)  # the run was resumed after this end
        kind = entry.get("kind")
        if kind != "end" and shapes.is_number(cost := entry.get("cost_seconds")):
            ledger["cost_seconds"] += cost
        if kind in ("candidate", "confirmation"):
            entry.pop("files", None)  # complete sources, which are not shown
            ledger[f"{kind}s"].append(entry)
        elif kind in ("run", "end"):
            ledger[kind] = entry
    if "run" not in ledger:
        raise Damaged(f'{name}: not a ledger: it has no line of kind "run"')
    return ledger


def read(path: pathlib.Path) -> Document:
    """Reads a result file. Raises `Damaged`, with a message that begins with the file's name."""
    name = str(path)
    try:
        if not path.is_file():
            raise Damaged(f"{name}: not a regular file")
        with open(path, "rb") as file:
            is_ledger = path.suffix == ".jsonl" or file.read(len(LEDGER_PREFIXES[0])).startswith(LEDGER_PREFIXES)
            file.seek(0)
            if not is_ledger and len(text := file.read(MAX_BYTES + 1)) > MAX_BYTES:
                raise Damaged(f"{name}: larger than {MAX_BYTES} bytes")
            content = read_ledger(file, name) if is_ledger else parse_object(text, name)
    except OSError as error:
        raise Damaged(f"{name}: {error.strerror}") from error
    kind = "ledger" if is_ledger else str(content.get("kind") or "").removeprefix("fovea.kernel.")
    if kind == "judge" and "answers" not in content:
        content["answers"] = [content]
    if not kind and "machine" in content:
        kind = "bench"
    machine = (content["run"] if is_ledger else content).get("machine")
    if not kind:
        raise Damaged(f"{name}: not a result of the laboratory: it has no kind")
    return Document(path, kind, content, machine if isinstance(machine, dict) else {})


def keyed(names: str) -> Callable[[Document], tuple]:
    """Returns a function that maps a document to the values of these names and the device."""
    return lambda document: (*(document.json.get(name) or "" for name in names.split()), document.device)


def newest(documents: Iterable[Document], key: Callable[[Document], tuple]) -> list[Document]:
    """Returns the last document of each key, in the order of keys."""
    documents_by_key = {tuple(str(part) for part in key(document)): document for document in documents}
    return [document for _, document in sorted(documents_by_key.items())]
