"""Bombs and huge images of mixed kinds in one job: eight workers stay within their memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

from attack.arena import Arena, Case
from attack.jobs import Input, mixed, run_job
from attack.kinds import images

_INPUTS = 64


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    with arena.case("memory", f"{_INPUTS} images") as case:
        made = [*itertools.islice(images.huge(arena, random), _INPUTS // 2), *images.bombs(arena, random)]
        inputs = [images.input_of(case, one) for one in made[:_INPUTS]]
        random.shuffle(inputs)
        run_job(case, mixed(case, inputs, every=4), command=random.choice(("preprocess", "embed")))
    yield case
    # One image many times, so that all workers want the same at once.
    for one in (next(images.huge(arena, random)), random.choice(images.bombs(arena, random))):
        with arena.case("memory", f"16 times {one.name}") as case:
            file = images.input_of(case, one)
            inputs = [Input(b"./" * i + file.name, pixels=file.pixels, honest=file.honest) for i in range(16)]
            run_job(case, mixed(case, inputs, every=4))
        yield case
