"""What the kinds share that stop jobs: an output folder, and what an undisturbed job leaves in it."""

from __future__ import annotations

import json
import os
import pathlib
from random import Random

from attack.arena import ROWS, Arena, Case
from attack.jobs import ROW, Input, arguments, judge_output
from attack.kinds import images

_ABSENT = b"absent.jpg"
SMALL = ("--decode-threads", "4", "--batch-size", "4", "--shard-rows", "7")


def contents(folder: pathlib.Path, only_files: bool = False) -> dict[str, bytes]:
    """Every file of an output folder but the lock; `only_files`: nor what is a link, pipe or folder."""
    files = [path for path in folder.iterdir() if path.name != ".lock"]
    if only_files:
        files = [path for path in files if path.is_file() and not path.is_symlink()]
    return {path.name: path.read_bytes() for path in files}


def without_place(found: dict[str, bytes]) -> dict[str, bytes]:
    """The files without the folder in which the job ran, which each case has for itself, and what follows from it."""
    found = dict(found)
    try:
        manifest = json.loads(found["manifest.json"])
        first, rest = found["checksums.jsonl"].split(b"\n", 1)
        job = json.loads(first)
        del manifest["working_folder"], manifest["check"], job["job"]["working_folder"], job["check"]
        del manifest["resume"]["checksums_bytes"], manifest["resume"]["checksums_sum"]
    except (KeyError, TypeError, ValueError):
        return found  # damaged: compared as they are
    found["manifest.json"] = json.dumps(manifest).encode()
    found["checksums.jsonl"] = json.dumps(job).encode() + b"\n" + rest
    return found


class FolderJob:
    """`fovea embed` of good photos and some bombs, into a folder, and what it leaves when let alone."""

    def __init__(self, arena: Arena, random: Random, bombs: int = 0, scale: float = 0.05) -> None:
        self.arena = arena
        self.folder = arena.new_folder("job")
        files = Case(arena, "", "", self.folder)
        hostile = [images.input_of(files, made) for made in images.bombs(arena, random, scale)[:bombs]]
        good = [Input(os.fsencode(path), ROW) for path in arena.photos]
        self.inputs = [*hostile, *good, Input(_ABSENT)]
        random.shuffle(self.inputs)
        self.honest = sum(item.honest for item in self.inputs)
        self.seconds = 0.0  # that it takes
        self.whole: dict[str, bytes] = {}

    def prepare(self, case: Case) -> None:
        """The inputs, in the folder of a case."""
        for item in self.inputs:
            if not item.name.startswith(b"/") and item.name != _ABSENT:
                os.link(self.folder / os.fsdecode(item.name), case.folder / os.fsdecode(item.name))

    def command(self, case: Case, *flags: str) -> list[str]:
        return arguments(case, self.inputs, "embed", "out", (*SMALL, *flags))

    def undisturbed(self, case: Case) -> bool:
        """Runs it to its end, which is what every disturbed one is compared with. Whether it came to one."""
        self.prepare(case)
        ending = case.run(*self.command(case), patience=10 + self.honest + 5 * len(self.inputs))
        self.seconds = ending.seconds
        if ending.code not in (0, 3):
            return False
        judge_output(case, self.inputs, case.folder / "out", "embed")
        self.whole = without_place(contents(case.folder / "out"))
        return True

    def finish(self, case: Case) -> None:
        """Runs it to its end after whatever happened: it must have left the bytes of the undisturbed one."""
        ending = case.run(*self.command(case), patience=10 + self.honest + 5 * len(self.inputs))
        if ending.code in (0, 3):
            self.compare(case)

    def compare(self, case: Case) -> None:
        found = without_place(contents(case.folder / "out"))
        if found != self.whole:
            names = sorted(name for name in found.keys() | self.whole.keys() if found.get(name) != self.whole.get(name))
            case.problem(ROWS, f"not what an undisturbed job leaves: {', '.join(names)}")
