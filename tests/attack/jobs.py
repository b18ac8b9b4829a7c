"""Jobs of hostile inputs with good photos among them, and the judge of their rows."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib

import numpy as np

from attack.arena import OTHER, PATIENCE, ROWS, Case
from attack.supervise import Ending, Limits

ROW, ERROR, EITHER = "a row", "an error", "either"


@dataclasses.dataclass
class Input:
    """A line of the job's list. `many`: it stands for inputs whose number is its own affair; those known are
    `inside`. `pixels`: of its row, should it have one. `honest`: seconds that its pixels may take."""

    name: bytes
    expected: str = EITHER
    many: bool = False
    pixels: np.ndarray | None = None
    honest: float = 0.0
    inside: list[Input] = dataclasses.field(default_factory=list)

    @property
    def source(self) -> str:
        """As docs/output.md says that names are written."""
        return self.name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


@dataclasses.dataclass
class Rows:
    """What a job left: of each row its source and bytes, of each failed input its source and reason."""

    sources: list[str]
    rows: list[bytes]
    errors: list[tuple[str, str]]


def honest_seconds(pixels: int, passes: float = 1.0) -> float:
    """What decoding and resizing may take: thrice what the slowest layouts were measured to."""
    return 15e-9 * pixels * passes


def mixed(case: Case, inputs: list[Input], every: int = 1) -> list[Input]:
    """The inputs with a good photo before each `every` of them and one at the end, as far as they last."""
    photos = [case.arena.photos[i] for i in range(len(case.arena.photos))]
    good = iter([Input(os.fsencode(path), ROW) for path in photos])
    out: list[Input] = []
    for number, hostile in enumerate(inputs):
        if number % every == 0 and (photo := next(good, None)):
            out.append(photo)
        out.append(hostile)
    return out + [photo for photo in [next(good, None)] if photo]


def arguments(case: Case, inputs: list[Input], command: str, out: str, flags: tuple[str, ...]) -> list[str]:
    case.write("all-inputs", b"".join(item.name + b"\0" for item in inputs))
    precisely = case.arena.precisely if command == "embed" else ()
    return [command, "-0", "@all-inputs", "-m", str(case.arena.model), "-o", out, *precisely, *flags]


def run_job(
    case: Case,
    inputs: list[Input],
    *,
    command: str = "preprocess",
    flags: tuple[str, ...] = ("--decode-threads", "8"),
    patience: float = PATIENCE,
    limits: Limits | None = None,
    codes: tuple[int, ...] = (0, 3),
) -> Ending:
    """Runs the job and judges how it ended and which rows it left."""
    honest = sum(item.honest for item in inputs)
    ending = case.run(
        *arguments(case, inputs, command, "out.npy", flags),
        patience=patience + honest,
        limits=limits,
        codes=codes,
    )
    if ending.code in (0, 3) and not ending.hung:
        judge_output(case, inputs, case.folder / "out.npy", command)
    return ending


def judge_output(case: Case, inputs: list[Input], out: pathlib.Path, command: str) -> Rows | None:
    try:
        found = read_rows(out)
    except (OSError, ValueError, KeyError) as error:
        case.problem(ROWS, f"{out.name} cannot be read: {error!r}")
        return None
    judge_rows(case, inputs, found, command)
    return found


def read_rows(out: pathlib.Path) -> Rows:
    """Of `-o x.npy`, or of a folder."""
    if out.suffix == ".npy":
        arrays, errors = [(out, out.with_suffix(".index.jsonl"))], out.with_suffix(".errors.jsonl")
    else:
        names = sorted(out.glob("embeddings-*.npy"))
        arrays = [
            (name, name.with_name(name.name.replace("embeddings", "index")).with_suffix(".jsonl")) for name in names
        ]
        errors = out / "errors.jsonl"
    sources, rows = [], []
    for array, index in arrays:
        values = np.load(array)
        lines = [json.loads(line) for line in index.read_text("utf-8").splitlines()]
        if [line["row"] for line in lines] != list(range(len(values))):
            raise ValueError(
                f"{array.name} has {len(values)} rows, {index.name} has {len(lines)} lines or misnumbers them"
            )
        sources += [line["source"] for line in lines]
        rows += [value.tobytes() for value in values]
    failed = [json.loads(line) for line in errors.read_text("utf-8").splitlines()]
    return Rows(sources, rows, [(line["source"], line["error"]) for line in failed])


def judge_rows(case: Case, inputs: list[Input], found: Rows, command: str) -> None:
    """Each input is a row or an error, once and in its place; each good photo has its right row."""
    many = any(item.many for item in inputs)
    inputs = [one for item in inputs for one in (item.inside if item.many else [item])]
    position = {item.source: at for at, item in enumerate(inputs)}
    failed = [source for source, _ in found.errors]
    for what, sources in (("index", found.sources), ("errors", failed)):
        known = [position[source] for source in sources if source in position]
        if known != sorted(known):
            case.problem(ROWS, f"the {what} is not in the order of the inputs")
        strange = [source for source in sources if source not in position]
        if strange and not many:
            case.problem(ROWS, f"the {what} names {strange[0][:200]!r}, which is not among the inputs")
    counts: dict[str, int] = {}
    for source in (*found.sources, *failed):
        counts[source] = counts.get(source, 0) + 1
    for source in position:
        if counts.get(source, 0) != 1:
            case.problem(ROWS, f"{source[-200:]!r} is {counts.get(source, 0)} times a row or an error")
    reasons = dict(found.errors)
    rows = dict(zip(found.sources, found.rows))
    good = {os.fspath(path): at for at, path in enumerate(case.arena.photos)}
    right = case.arena.pixels if command == "preprocess" else case.arena.embeddings
    for item in inputs:
        source = item.source
        if item.expected == ROW and source in reasons:
            case.problem(ROWS, f"{source[-200:]!r} has no row but the error {reasons[source][:200]!r}")
        if item.expected == ERROR and source in rows:
            case.problem(ROWS, f"{source[-200:]!r} has a row, expected an error")
        if source in good and source in rows and rows[source] != right[good[source]].tobytes():
            case.problem(ROWS, f"{source[-200:]!r} has another row than in a job of good photos")
        if (
            item.pixels is not None
            and command == "preprocess"
            and source in rows
            and rows[source] != item.pixels.tobytes()
        ):
            ours = np.frombuffer(rows[source], np.uint8)
            differ = int((ours != item.pixels.reshape(-1)).sum())
            case.problem(ROWS, f"{source[-200:]!r}: {differ} of {len(ours)} bytes are not Pillow's")
    case.accepted += sum(source not in good for source in found.sources)
    case.refused += len(failed)
    for source, reason in found.errors:
        if not reason.strip() or "internal" in reason:
            case.problem(OTHER, f"{source[-200:]!r} failed without a reason: {reason[:200]!r}")
