"""Honest images at the limit of pixels, in every format and layout: the right row, in time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

from attack.arena import Arena, Case
from attack.jobs import mixed, run_job
from attack.kinds import images


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    for made in itertools.islice(images.huge(arena, random), 60):
        with arena.case("huge", made.name) as case:
            run_job(case, mixed(case, [images.input_of(case, made)]))
        yield case
