"""Altered states of stopped, killed, finished and retried jobs: refused, or what an unaltered one leaves.

The jobs and their alterations are those of tests/pipeline/test_output_state.py; pipes and devices are added.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import types
from collections.abc import Iterator
from random import Random
from typing import Any

from attack.arena import HANG, OTHER, ROOT, ROWS, Arena, Case
from attack.kinds.folder_jobs import contents

sys.path.append(str(ROOT / "tests/pipeline"))

_ALTERATIONS = 40


class _Embed:
    """What a job of the tests runs the program with."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def __call__(
        self, *inputs: Any, out: pathlib.Path, flags: list[str], code: int | None, cwd: pathlib.Path, **_: Any
    ):
        arguments = [
            "embed",
            *inputs,
            "-m",
            self.case.arena.model,
            "-o",
            out,
            "--precision",
            "fp32",
            "--device",
            "cpu",
        ]
        codes = (0, 1, 3) if code is None else (code,)
        ending = self.case.run(*arguments, *flags, folder=cwd, codes=codes, patience=10)
        return types.SimpleNamespace(returncode=ending.code, stderr=ending.stderr.decode(errors="replace"))


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    from output_damage import alter
    from test_output_state import KINDS, Job

    folder = arena.new_folder("states")
    jobs: dict[str, list[Job]] = {}
    for _ in range(_ALTERATIONS):
        kind = random.choice(sorted(KINDS))
        with arena.case("states", kind) as case:
            if kind not in jobs:
                flags, state = KINDS[kind]
                jobs[kind] = [
                    Job(_Embed(case), folder / kind / side, 10 + 100 * i, flags, state) for i, side in enumerate("ab")
                ]
            job, other = jobs[kind]
            job.embed.case = case
            out = case.folder / "out"
            shutil.copytree(job.left, out)
            what = _special(out, random) if random.random() < 0.1 else alter(out, random, other.left)
            case.name = f"{kind}: {what}"
            case.commands = [f"rm -rf out; cp -a altered out  # {what}", f"cp -a {job.folder / 'in'} ."]
            _keep_a_copy(out, case.folder / "altered")
            # Files of another job can make its whole state, which is as good as the first one.
            became = other if contents(out, only_files=True) == contents(other.left) else job
            _judge(case, job, out, contents(became.expected))
        yield case


def _judge(case: Case, job: Any, out: pathlib.Path, right: dict[str, bytes]) -> None:
    altered = contents(out, only_files=True)
    result = job.run(out, code=None)
    if result.returncode in (0, 3):
        case.accepted += 1
        found = contents(out, only_files=True)
        wrong = sorted(name for name in found.keys() | right.keys() if found.get(name) != right.get(name))
        if wrong:
            case.problem(ROWS, f"accepted, and left another {', '.join(wrong)}")
    elif result.returncode == 1:
        case.refused += 1
        if contents(out, only_files=True) != altered:
            case.problem(ROWS, "refused, but not before something was changed")
        says = any(word in result.stderr for word in ("--overwrite", "remove it"))
        if not says and not any(problem.category == HANG for problem in case.problems):
            case.problem(OTHER, f"refused without advice: {result.stderr[-300:]}")


def _special(folder: pathlib.Path, random: Random) -> str:
    """A file replaced by something that is not a regular file."""
    file = random.choice(sorted(path for path in folder.iterdir() if path.name != ".lock"))
    how = random.choice(("a pipe", "a folder", "a link to /dev/zero", "a link to itself", "a link to nothing"))
    file.unlink()
    if how == "a pipe":
        os.mkfifo(file)
    elif how == "a folder":
        file.mkdir()
    else:
        file.symlink_to({"a link to itself": file.name, "a link to nothing": "absent"}.get(how, "/dev/zero"))
    return f"{file.name} is {how}"


def _keep_a_copy(folder: pathlib.Path, copy: pathlib.Path) -> None:
    copy.mkdir()
    for path in folder.iterdir():
        if path.is_symlink():
            (copy / path.name).symlink_to(os.readlink(path))
        elif path.is_fifo():
            os.mkfifo(copy / path.name)
        elif path.is_dir():
            (copy / path.name).mkdir()
        else:
            shutil.copyfile(path, copy / path.name)
