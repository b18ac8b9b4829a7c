"""What the kinds share that attack with images."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import numpy as np
from PIL import Image

from attack.arena import Case
from attack.generate import flat, jpeg, png, tiff
from attack.generate.made import MAX_PIXELS, Made
from attack.jobs import Input, honest_seconds

FORMATS = (png, tiff, jpeg, flat)


def bombs(random: Random, scale: float) -> list[Made]:
    """Bombs of all formats, in random order."""
    made = [bomb for form in FORMATS for bomb in form.bombs(random, scale)]
    random.shuffle(made)
    return made


def huge(random: Random, scale: float) -> Iterator[Made]:
    """Honest images at the limit of pixels, or `scale` of it; the formats take turns, without end."""
    pixels = round((MAX_PIXELS - random.randrange(1000)) * scale)
    kinds = [form.huge(random, pixels) for form in FORMATS]
    while True:
        random.shuffle(kinds)
        for makers in kinds:
            yield next(makers)


def flat_pixels(case: Case, data: bytes) -> np.ndarray:
    """What the model takes of an image of one colour, of which `data` is a small one."""
    import io

    with Image.open(io.BytesIO(data)) as image:
        rgb = np.asarray(image.convert("RGB"))
    assert (rgb == rgb[0, 0]).all(), "the generator promises one colour"
    return np.broadcast_to(rgb[0, 0], (*case.arena.side, 3))


def input_of(case: Case, made: Made) -> Input:
    """The image as a file of the case."""
    case.write(made.name, made.data)
    pixels = flat_pixels(case, made.small) if made.small is not None else None
    return Input(os.fsencode(made.name), pixels=pixels, honest=honest_seconds(made.pixels, made.passes))
