"""The Python package: Ctrl-C at random moments of bombs, and an interpreter that ends while threads embed."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from random import Random

from attack.arena import OTHER, ROOT, STOP, Arena, Case
from attack.kinds import images

_VICTIM = ROOT / "tests/attack/python_victim.py"


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    if not (arena.library.is_file() and arena.package.is_dir()):
        return
    pool = images.Pool(arena, random, 30, 6)
    for _ in range(20):
        with arena.case("python", "Ctrl-C") as case:
            _interrupted(case, random, pool)
        yield case
        for _ in range(2):
            threads = random.randrange(1, 6)
            with arena.case("python", f"ends beside {threads} threads") as case:
                files = random.sample(arena.photos, random.randrange(1, len(arena.photos)))
                process = _start(case, "daemons", arena.model, threads, f"{random.uniform(0, 0.3):.3f}", *files)
                case.end(process, patience=20, codes=(0,))
            yield case


def _start(case: Case, *arguments, note: str = ""):
    env = {
        "PYTHONPATH": str(case.arena.package),
        "FOVEA_LIBRARY": str(case.arena.library),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return case.start(*arguments, program=[sys.executable, str(_VICTIM)], env=env, note=note)


def _interrupted(case: Case, random: Random, pool: images.Pool) -> None:
    files = [item.name for item in pool.some(case, random, 20)]
    moment = random.uniform(0, case.arena.moments)
    process = _start(case, "interrupt", case.arena.model, *files, note=f"and Ctrl-C after {moment:.3f} s")
    output = case.folder / "stdout.txt"
    deadline = time.monotonic() + 60
    while b"ready" not in output.read_bytes() and not process.wait(0.02):
        if time.monotonic() > deadline:
            case.problem(OTHER, "was not ready within a minute")
            break
    if process.wait(moment):
        case.end(process, codes=(7,))
        return
    process.send(signal.SIGINT)
    before = process.clock.tick()
    ending = case.end(process, patience=STOP, codes=(7,))
    case.seconds = ending.seconds - before
