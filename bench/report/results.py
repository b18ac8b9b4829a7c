"""Files of results: which there are, what each says, when and where it was measured. What is damaged is told, and
never shown."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import runs

from report import shapes
from report.shapes import Damaged

MOST_BYTES = 4 << 20  # of a document, and of a line of a ledger
LEDGER_BEGINS = b'{"kind": "run"', b'{"kind":"run"'


@dataclasses.dataclass
class Document:
    """One file. A ledger's lines are its "run", "candidates", "confirmations", "end" when that is the last, and
    "cost_seconds" of all."""

    path: pathlib.Path
    kind: str  # "profile"; "bench" is a file of bench/run_gpu.py
    json: dict
    machine: dict
    told: str = ""  # when and where it was measured, for tables
    cause: str = ""  # what was made wrong on purpose: no figure of ours

    def part(self, name: str) -> dict:
        """What is told of a part of the machine."""
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
        run = max((runs.run_of(part)[1] for part in self.path.parts), default=0)
        return self.date, run, self.path.name, str(self.path)


def parts(document: Document) -> Iterator[tuple[object, object, str]]:
    """What is checked by itself, because a part that is damaged takes no other along: the value, its shape, its name."""
    if document.kind == "bench":
        yield from (
            (document.json[name], shape, name) for name, shape in shapes.SECTIONS.items() if name in document.json
        )
    elif document.kind in shapes.KINDS:
        yield document.json, shapes.KINDS[document.kind], document.kind


def files(inputs: Iterable[pathlib.Path]) -> tuple[list[pathlib.Path], list[str]]:
    """The files that are named or lie in these folders, each once however it is named, and what cannot be listed.
    Folders behind links are left out."""
    found: dict[str, pathlib.Path] = {}
    left_out: list[str] = []

    def unlisted(error: OSError) -> None:
        left_out.append(f"{error.filename}: this folder cannot be listed: {error.strerror}")

    for place in inputs:
        if os.path.isdir(place):
            for folder, _, names in os.walk(place, onerror=unlisted):
                for path in (pathlib.Path(folder, name) for name in names):
                    if path.suffix in (".json", ".jsonl"):
                        found.setdefault(os.path.realpath(path), path)
        elif os.path.lexists(place):
            found.setdefault(os.path.realpath(place), place)
        else:
            raise Damaged(f"{place}: there is no such file or folder of results")
    return [found[place] for place in sorted(found)], left_out


def parsed(text: bytes, what: str) -> dict:
    try:
        value = runs.parsed(text)
    except json.JSONDecodeError as error:
        raise Damaged(f"{what}: not JSON: {error}") from error
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{what}: {error}") from error
    if not isinstance(value, dict):
        raise Damaged(f"{what}: it holds no object")
    return value


def lines(file: BinaryIO, what: str) -> Iterator[tuple[int, bytes]]:
    """Lines that have an end: what follows the last one is what a killed run leaves. A ledger may be large; only a
    line has to be small."""
    number = 0
    while line := file.readline(MOST_BYTES + 1):
        number += 1
        if len(line) > MOST_BYTES:
            raise Damaged(f"{what}: line {number} has more than {MOST_BYTES} bytes")
        if line.endswith(b"\n") and line.strip():
            yield number, line


def read_ledger(file: BinaryIO, what: str) -> dict:
    """A last line may be bad: a machine that lost its power leaves anything."""
    ledger: dict = {"candidates": [], "confirmations": [], "cost_seconds": 0.0}
    bad = None
    for number, line in lines(file, what):
        if bad:
            raise bad
        try:
            entry = parsed(line, f"{what}: line {number}")
        except Damaged as error:
            bad = error
            continue
        ledger.pop("end", None)  # a run that went on has not ended
        kind = entry.get("kind")
        if kind != "end" and shapes.is_number(cost := entry.get("cost_seconds")):
            ledger["cost_seconds"] += cost
        if kind in ("candidate", "confirmation"):
            entry.pop("files", None)  # whole sources
            ledger[f"{kind}s"].append(entry)
        elif kind in ("run", "end"):
            ledger[kind] = entry
    if "run" not in ledger:
        raise Damaged(f'{what}: it is no ledger: no line of it is of the kind "run"')
    return ledger


def read(path: pathlib.Path) -> Document:
    """Raises `Damaged`, with the file's name first."""
    what = str(path)
    try:
        if not path.is_file():
            raise Damaged(f"{what}: it is no file")
        with open(path, "rb") as file:
            is_ledger = path.suffix == ".jsonl" or file.read(len(LEDGER_BEGINS[0])).startswith(LEDGER_BEGINS)
            file.seek(0)
            if not is_ledger and len(text := file.read(MOST_BYTES + 1)) > MOST_BYTES:
                raise Damaged(f"{what}: it has more than {MOST_BYTES} bytes")
            content = read_ledger(file, what) if is_ledger else parsed(text, what)
    except OSError as error:
        raise Damaged(f"{what}: {error.strerror}") from error
    kind = "ledger" if is_ledger else str(content.get("kind") or "").removeprefix("fovea.kernel.")
    if kind == "judge" and "answers" not in content:
        content["answers"] = [content]
    if not kind and "machine" in content:
        kind = "bench"
    machine = (content["run"] if is_ledger else content).get("machine")
    if not kind:
        raise Damaged(f"{what}: it is no result of the laboratory")
    return Document(path, kind, content, machine if isinstance(machine, dict) else {})


def keyed(names: str) -> Callable[[Document], tuple]:
    """A key of the values of these names, and the device."""
    return lambda document: (*(document.json.get(name) or "" for name in names.split()), document.device)


def newest(documents: Iterable[Document], key: Callable[[Document], tuple]) -> list[Document]:
    """The last one of each key, in the order of keys."""
    found = {tuple(str(part) for part in key(document)): document for document in documents}
    return [document for _, document in sorted(found.items())]
