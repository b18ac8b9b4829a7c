"""Small files that ask for much: each alone among good photos, in a job of eight workers."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from attack.arena import Arena, Case
from attack.jobs import mixed, run_job
from attack.kinds import images


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    for made in images.bombs(arena, random):
        with arena.case("bombs", made.name) as case:
            command = random.choice(("preprocess", "embed"))
            run_job(case, mixed(case, [images.input_of(case, made)]), command=command)
        yield case
