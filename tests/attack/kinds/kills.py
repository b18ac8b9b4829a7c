"""SIGKILL, full disks and limits of file sizes: the same command resumes and leaves the same bytes."""

from __future__ import annotations

import pathlib
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from random import Random

from attack.arena import Arena, Case
from attack.kinds.folder_jobs import FolderJob
from attack.supervise import Limits


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    job = FolderJob(arena, random, bombs=3)
    with arena.case("kills", "an undisturbed job") as case:
        whole = job.undisturbed(case)
    yield case
    if not whole:
        return
    for _ in range(4):
        with arena.case("kills", "killed and resumed") as case:
            _killed(case, job, random)
        yield case
        with arena.case("kills", "files that may not grow") as case:
            _file_size(case, job, random)
        yield case
        with arena.case("kills", "a full disk") as case:
            _full_disk(case, job, random)
        yield case


def _killed(case: Case, job: FolderJob, random: Random) -> None:
    job.prepare(case)
    for _ in range(10):
        moment = random.uniform(0, max(job.seconds, 0.1))
        process = case.start(*job.command(case), note=f"and SIGKILL after {moment:.3f} s")
        if process.wait(moment):
            case.end(process)
            break
        process.send(signal.SIGKILL)
        case.end(process, codes=(-signal.SIGKILL, 0, 3))
    job.finish(case)


def _file_size(case: Case, job: FolderJob, random: Random) -> None:
    """The limit sends SIGXFSZ, whose default is to kill."""
    job.prepare(case)
    largest = max(map(len, job.whole.values()))
    for _ in range(3):
        limits = Limits({resource.RLIMIT_FSIZE: random.randrange(largest + 1000)})
        case.run(*job.command(case), limits=limits, codes=(0, 1, 3, -signal.SIGXFSZ), patience=10 + job.honest)
    job.finish(case)


def _full_disk(case: Case, job: FolderJob, random: Random) -> None:
    job.prepare(case)
    disk = case.folder / "out"
    disk.mkdir()
    size = random.randrange(4096, sum(map(len, job.whole.values())) + 50_000)
    if not _mount(disk, f"size={size}"):
        disk.rmdir()
        return  # not permitted here
    try:
        case.commands.append(f"mount -t tmpfs -o size={size} tmpfs out")
        case.run(*job.command(case), codes=(0, 1, 3), patience=10 + job.honest)
        subprocess.run(["mount", "-o", "remount,size=100m", disk], check=True)
        case.commands.append("mount -o remount,size=100m out")
        job.finish(case)
        if case.problems:
            shutil.copytree(disk, case.folder / "was-on-the-disk")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def _mount(folder: pathlib.Path, options: str) -> bool:
    return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True).returncode == 0
