"""Altered states of stopped, finished and retried jobs: refused, or what an unaltered one leaves, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from random import Random

from attack.arena import OTHER, ROWS, Arena, Case
from attack.generate.alterations import alter
from attack.kinds.folder_jobs import FolderJob, contents

_ALTERATIONS = 40


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    job = FolderJob(arena, random, 0, 1.0)
    case = Case(arena, "states", "the jobs", arena.work / "states")
    shutil.rmtree(case.folder, ignore_errors=True)
    case.folder.mkdir()
    if not job.undisturbed(case):
        case.problem(OTHER, "an undisturbed job did not end")
        yield case
        return
    kept = {"finished": case.folder / "out"}
    stopped = _stopped(case, job, random)
    if stopped is not None:
        kept["stopped"] = stopped
    for _ in range(_ALTERATIONS):
        state = random.choice(list(kept))
        flags = ["--retry-failed"] if state == "finished" and random.random() < 0.4 else []
        with arena.case("states", state) as one:
            job.prepare(one)
            shutil.copytree(kept[state], one.folder / "out")
            what = alter(one.folder / "out", random)
            one.name = f"{state}: {what}{' '.join(['', *flags])}"
            shutil.copytree(one.folder / "out", one.folder / "altered", symlinks=True, ignore=_no_pipes)
            _go_on(one, job, flags)
        yield one


def _no_pipes(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if not os.path.isfile(os.path.join(folder, name)) and not os.path.islink(os.path.join(folder, name))}


def _stopped(case: Case, job: FolderJob, random: Random):
    """The folder of a job that was stopped in its middle, between two files of embeddings."""
    out = case.folder / "stopped" / "out"
    out.parent.mkdir()
    one = Case(case.arena, "states", "", out.parent)
    job.prepare(one)
    read_end, write_end = os.pipe()
    names = [item.name for item in job.inputs]
    os.write(write_end, b"".join(name + b"\0" for name in names[: random.randrange(9, len(names) - 4)]))
    words = job.command(one)
    words[words.index("@list")] = "-"
    process = one.start(*words, stdin=read_end)
    os.close(read_end)
    process.wait(1.0)  # what the names are enough for is computed by then
    process.send(15)
    one.end(process, codes=(130,))
    os.close(write_end)
    return out if (out / "manifest.json").exists() else None


def _go_on(case: Case, job: FolderJob, flags: list[str]) -> None:
    altered = contents_of_files(case)
    ending = case.run(*job.command(case, *flags), codes=(0, 1, 3), patience=10)
    if ending.code == 1:
        case.refused += 1
        if not ending.stderr.strip():
            case.problem(OTHER, "refused without a message")
        return
    case.accepted += 1
    if ending.code in (0, 3):
        found = contents(case.folder / "out")
        wrong = {name for name in found.keys() | job.whole.keys() if found.get(name) != job.whole.get(name)}
        # A file that no job makes is nobody's.
        wrong = {name for name in wrong if name in job.whole or not _is_strange(name, altered, found)}
        if _same_json(found.get("manifest.json"), job.whole["manifest.json"]):
            wrong.discard("manifest.json")
        if flags:
            wrong -= {"manifest.json", "errors.jsonl", "checksums.jsonl"}
        if wrong:
            case.problem(ROWS, f"accepted, and left another {', '.join(sorted(wrong))}")


def contents_of_files(case: Case) -> dict[str, bytes]:
    out = case.folder / "out"
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file() and os.path.realpath(path).startswith(str(out))}


def _same_json(one: bytes | None, other: bytes) -> bool:
    """Whether they say the same, a line given twice notwithstanding."""
    try:
        return one is not None and json.loads(one) == json.loads(other)
    except ValueError:
        return False


def _is_strange(name: str, altered: dict[str, bytes], found: dict[str, bytes]) -> bool:
    """Whether the alteration made a file of this name, which is still as it was."""
    return name in altered and altered[name] == found.get(name)
