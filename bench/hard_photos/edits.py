"""Edits of photographs. Each takes a random number generator and two photographs of the requested size."""

import numpy
from PIL import Image, ImageChops, ImageDraw, ImageEnhance, ImageFilter, ImageOps

from .graphics import colour, font, functions_by_kind, gray, words


def values(photo):
    return numpy.asarray(photo, dtype=float)


def rotated(random, photo, _):
    return photo.rotate(random.uniform(10, 350), Image.Resampling.BICUBIC, fillcolor=colour(random))


def cropped(random, photo, _):
    """Enlarges a small crop to the full size, which leaves it soft."""
    share = random.uniform(0.1, 0.4)
    width, height = (max(8, round(side * share)) for side in photo.size)
    left, top = int(random.integers(photo.width - width)), int(random.integers(photo.height - height))
    return photo.crop((left, top, left + width, top + height)).resize(photo.size, Image.Resampling.BICUBIC)


def blurred(random, photo, _):
    return photo.filter(ImageFilter.GaussianBlur(random.uniform(3, 14)))


def moved(random, photo, _):
    """Blurs the photo as if the camera had moved during the exposure."""
    x, y = random.normal(0, 14, 2)
    return gray(
        sum(values(ImageChops.offset(photo, round(x * t), round(y * t))) for t in numpy.linspace(0, 1, 12)) / 12
    )


def low_quality(random, photo, _):
    photo = photo.copy()
    photo.info["quality"] = int(random.integers(2, 14))
    return photo


def cast(random, photo, _):
    return gray(values(photo) * random.uniform(0.25, 1.25, 3) + random.uniform(0, 40, 3))


def monochrome(_, photo, __):
    return ImageOps.grayscale(photo)


def toned(random, photo, _):
    return ImageOps.colorize(ImageOps.grayscale(photo), colour(random, 0, 70), colour(random, 190, 256))


def inverted(_, photo, __):
    return ImageOps.invert(photo)


def bilevel(random, photo, _):
    bright = values(ImageOps.grayscale(photo))
    return gray(255 * (bright > numpy.quantile(bright, random.uniform(0.3, 0.7))))


def dithered(_, photo, __):
    return photo.convert("1").convert("L")


def posterised(random, photo, _):
    return ImageOps.posterize(photo, int(random.integers(1, 4)))


def saturated(random, photo, _):
    return ImageEnhance.Contrast(ImageEnhance.Color(photo).enhance(random.uniform(2, 5))).enhance(
        random.uniform(1.3, 2.5)
    )


def underexposed(random, photo, _):
    return gray(values(photo) * random.uniform(0.03, 0.18) + random.normal(0, 3, (photo.height, photo.width, 3)))


def overexposed(random, photo, _):
    return gray(values(photo) * random.uniform(2, 5) + random.uniform(0, 60))


def faded(random, photo, _):
    return gray(random.uniform(60, 190) + (values(photo) - 128) * random.uniform(0.05, 0.2))


def noisy(random, photo, _):
    return gray(values(photo) + random.normal(0, random.uniform(25, 70), (photo.height, photo.width, 3)))


def edges(_, photo, __):
    return ImageOps.invert(ImageOps.autocontrast(ImageOps.grayscale(photo).filter(ImageFilter.FIND_EDGES)))


def letterboxed(random, photo, _):
    return ImageOps.expand(
        photo.resize((photo.width, max(8, photo.height // 2))), (0, photo.height // 4), colour(random, 0, 30)
    )


def collage(_, photo, other):
    sheet, half = photo.copy(), (photo.width // 2, photo.height // 2)
    for number, piece in enumerate((photo, other, ImageOps.mirror(other), ImageOps.flip(photo))):
        sheet.paste(piece.resize(half), (number % 2 * half[0], number // 2 * half[1]))
    return sheet


def upside_down(_, photo, __):
    return ImageOps.flip(photo)


def captioned(random, photo, _):
    photo, face = photo.copy(), font(photo.height * 0.12)
    for top in (0.02, 0.84):
        ImageDraw.Draw(photo).text(
            (photo.width * 0.05, photo.height * top),
            words(random, 3).upper(),
            (255, 255, 255),
            face,
            stroke_width=2,
            stroke_fill=(0, 0, 0),
        )
    return photo


def pixelated(random, photo, _):
    count = int(random.integers(8, 30))
    return photo.resize((count, count), Image.Resampling.BOX).resize(photo.size, Image.Resampling.NEAREST)


def double_exposed(_, photo, other):
    return Image.blend(photo, other, 0.5)


KINDS = functions_by_kind(
    rotated, cropped, blurred, moved, low_quality, cast, monochrome, toned, inverted, bilevel, dithered, posterised,
    saturated, underexposed, overexposed, faded, noisy, edges, letterboxed, collage, upside_down, captioned,
    pixelated, double_exposed,
)  # fmt: skip
