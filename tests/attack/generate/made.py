"""Made: an image that a generator made, with what it honestly costs and which pixels it has."""

from __future__ import annotations

import dataclasses
import math
import random as random_module

MAX_PIXELS = 178_956_970  # docs/images.md: more are refused, as by Pillow


@dataclasses.dataclass
class Made:
    """`data` under a `name`. Its honest `pixels` are read `passes` times. `small` is an image of
    few pixels and of the same one colour, where all pixels of this one have the same colour."""

    name: str
    data: bytes
    pixels: int = 1
    passes: float = 1.0
    small: bytes | None = None


def sides(random: random_module.Random, pixels: int, longest: int, step: int = 1) -> tuple[int, int]:
    """(width, height) of an image of at most `pixels`, nearly that many, neither over `longest`."""
    shortest = -(-pixels // longest)
    side = round(math.exp(random.uniform(math.log(shortest), math.log(pixels / shortest))))
    width = min(max(side, shortest), longest) // step * step or step
    return width, min(max(pixels // width, 1), longest)
