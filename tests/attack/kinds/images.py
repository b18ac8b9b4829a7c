"""What the kinds share that attack with images."""

from __future__ import annotations

import io
import itertools
import os
import shutil
from collections.abc import Iterator
from random import Random

import numpy as np
from PIL import Image

from attack.arena import Arena, Case
from attack.generate import flat, jpeg, png, tiff
from attack.generate.made import MAX_PIXELS, Made
from attack.jobs import Input, honest_seconds

FORMATS = (png, tiff, jpeg, flat)


def bombs(arena: Arena, random: Random, scale: float = 1.0) -> list[Made]:
    """Bombs of all formats, in random order."""
    made = [bomb for form in FORMATS for bomb in form.bombs(random, arena.bomb_scale * scale)]
    random.shuffle(made)
    return made


def huge(arena: Arena, random: Random) -> Iterator[Made]:
    """Honest images at the limit of pixels; the formats take turns, without end."""
    pixels = round((MAX_PIXELS - random.randrange(1000)) * arena.huge_scale)
    kinds = [form.huge(random, pixels) for form in FORMATS]
    while True:
        random.shuffle(kinds)
        for makers in kinds:
            yield next(makers)


def flat_pixels(case: Case, data: bytes) -> np.ndarray:
    """What the model takes of an image of one colour, of which `data` is a small one."""
    with Image.open(io.BytesIO(data)) as image:
        rgb = np.asarray(image.convert("RGB"))
    assert (rgb == rgb[0, 0]).all(), "the generator promises one colour"
    return np.broadcast_to(rgb[0, 0], (*case.arena.side, 3))


def input_of(case: Case, made: Made) -> Input:
    """The image as a file of the case."""
    case.write(made.name, made.data)
    pixels = flat_pixels(case, made.small) if made.small is not None else None
    return Input(os.fsencode(made.name), pixels=pixels, honest=honest_seconds(made.pixels, made.passes))


class Pool:
    """Bombs and huge images as files, made once for many cases."""

    def __init__(self, arena: Arena, random: Random, bomb_count: int, huge_count: int) -> None:
        self.folder = arena.work / "pool"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        made = bombs(arena, random)[:bomb_count] + list(itertools.islice(huge(arena, random), huge_count))
        self.inputs = [input_of(Case(arena, "", "", self.folder), one) for one in made]

    def some(self, case: Case, random: Random, count: int) -> list[Input]:
        """Some of them in random order, in the folder of the case."""
        inputs = random.sample(self.inputs, min(count, len(self.inputs)))
        for item in inputs:
            os.link(self.folder / os.fsdecode(item.name), case.folder / os.fsdecode(item.name))
        return inputs
