"""Damaged images by the hundred in one job. Where Pillow reads one too, the pixels are Pillow's."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from attack.arena import Arena, Case
from attack.generate.mutants import OTHERS, mutant
from attack.jobs import Input, mixed, run_job
from attack.oracle import Oracle

_JOBS, _INPUTS = 5, 200


def _depends_on_releases(name: str, data: bytes) -> bool:
    """Whether the libraries of Pillow and of Fovea may read a damaged file differently. Releases of
    libjpeg-turbo smooth progressive images that miss scans differently; damaged Zstandard streams have no
    checksum in a TIFF, and libzstd 1.5.4 and 1.5.7 make other bytes of some."""
    if name.endswith(OTHERS):
        return True
    if data[:2] == b"\xff\xd8":
        return b"\xff\xc2" in data or b"\xff\xca" in data
    return b"\x28\xb5\x2f\xfd" in data


def attack(arena: Arena, random: Random) -> Iterator[Case]:
    oracle = Oracle(arena.model)
    try:
        for _ in range(_JOBS):
            with arena.case("mutants", f"{_INPUTS} mutants") as case:
                inputs = []
                for number in range(_INPUTS):
                    name, data = mutant(Random(random.random()))  # what one original is changes no other mutant
                    path = case.write(f"{number:03}-{name}", data)
                    pixels = None if _depends_on_releases(name, data) else oracle.pixels(data)
                    inputs.append(Input(path.name.encode(), pixels=pixels))
                # A size that is damaged may ask for the largest image there is.
                run_job(case, mixed(case, inputs, every=10), patience=60)
            yield case
    finally:
        oracle.close()
