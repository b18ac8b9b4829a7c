"""SIGINT and SIGTERM at random moments of jobs full of bombs: the job ends in time and can be resumed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from random import Random

from attack.arena import STOP, Arena, Case
from attack.jobs import Input, arguments, mixed
from attack.kinds import images
from attack.kinds.folder_jobs import FolderJob

_STARTING = 0.5  # seconds in which the program may not listen to signals yet, but is killed by them
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    pool = images.Pool(arena, random, 40, 10)
    for _ in range(20):
        yield _full_of_bombs(arena, random, pool)
    yield from _goes_on(arena, random)
    yield from _waiting(arena, random)


def _stop(case: Case, process, random: Random, moment: float) -> int:
    """Sends a signal at a moment; returns the code of the end that must follow."""
    which = random.choice(_SIGNALS)
    if process.wait(moment):
        return case.end(process, codes=(0, 3)).code
    process.send(which)
    codes = (130, 0, 3, -which) if moment < _STARTING else (130, 0, 3)
    before = process.clock.tick()
    ending = case.end(process, patience=STOP, codes=codes)
    case.seconds = ending.seconds - before  # from the signal to the end
    return ending.code


def _full_of_bombs(arena: Arena, random: Random, pool: images.Pool) -> Case:
    """Every worker has a bomb or a huge image."""
    command = random.choice(("embed", "preprocess"))
    moment = random.uniform(0, arena.moments)
    with arena.case("signals", f"{command} after {moment:.2f} s") as case:
        inputs = mixed(case, pool.some(case, random, 30), every=6)
        out = "out" if command == "embed" and random.random() < 0.7 else "out.npy"
        words = arguments(case, inputs, command, out, ("--decode-threads", random.choice(("1", "2", "8"))))
        process = case.start(*words, note=f"and a signal after {moment:.3f} s")
        _stop(case, process, random, moment)
    return case


def _goes_on(arena: Arena, random: Random) -> Iterator[Case]:
    """Stopped again and again, then let go on: the bytes are those of a job that was not stopped."""
    job = FolderJob(arena, random, bombs=6)
    with arena.case("signals", "an undisturbed job") as case:
        whole = job.undisturbed(case)
    yield case
    for _ in range(3 if whole else 0):
        with arena.case("signals", "stopped and resumed") as case:
            job.prepare(case)
            for _ in range(12):
                moment = random.uniform(0, max(job.seconds, 0.2))
                process = case.start(*job.command(case), note=f"and a signal after {moment:.3f} s")
                if _stop(case, process, random, moment) in (0, 3) or case.problems:
                    break
            job.finish(case)
        yield case


def _waiting(arena: Arena, random: Random) -> Iterator[Case]:
    """A job that waits for more names on a pipe."""
    with arena.case("signals", "waiting for its list") as case:
        read_end, write_end = os.pipe()
        names = b"".join(os.fsencode(path) + b"\n" for path in arena.photos[: random.randrange(20)])
        os.write(write_end, names + b"half a name")
        flags = ("--batch-size", random.choice(("1", "8")))
        words = arguments(case, [Input(b"-")], "embed", "out", flags)
        words[1:3] = ["-"]
        process = case.start(*words, stdin=read_end, note="with names on a pipe that stays open, and a signal")
        os.close(read_end)
        _stop(case, process, random, random.uniform(0, arena.moments))
        os.close(write_end)
    yield case
