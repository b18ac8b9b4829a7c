"""Makes pictures of low contrast, with few bright points, or without clear shapes: skies, fog, noise and textures. Each
function takes a random number generator and a size."""

import numpy
from PIL import ImageFilter

from .graphics import colour, functions_by_kind, gray, grid


def clouds(random, size, slope):
    """Returns noise [height, width] in 0..1 whose spectrum falls off as the frequency to the power `slope`."""
    frequency = numpy.hypot(numpy.fft.fftfreq(size[1])[:, None], numpy.fft.fftfreq(size[0])[None])
    frequency[0, 0] = 1
    values = numpy.fft.ifft2(numpy.fft.fft2(random.normal(size=(size[1], size[0]))) / frequency**slope).real
    return (values - values.min()) / numpy.ptp(values)


def tinted(values, low, high):
    """Maps values in 0..1 to colours between `low` and `high`."""
    low, high = numpy.array(low, dtype=float), numpy.array(high, dtype=float)
    return gray(low + values[..., None] * (high - low))


def glow(image, radius):
    """Adds a halo around bright areas of an image."""
    halo = numpy.asarray(image.filter(ImageFilter.GaussianBlur(radius)), dtype=float)
    return gray(numpy.asarray(image, dtype=float) + 1.5 * halo)


def noise_white(random, size):
    return gray(random.integers(0, 256, (size[1], size[0], 3) if random.random() < 0.5 else (size[1], size[0])))


def noise_pink(random, size):
    return gray(255 * numpy.stack([clouds(random, size, random.uniform(0.8, 1.6)) for _ in range(3)], axis=-1))


def cloudy_sky(random, size):
    return tinted(clouds(random, size, 1.7), colour(random, 60, 160), colour(random, 200, 256))


def stars(random, size):
    picture = numpy.full((size[1], size[0], 3), random.uniform(0, 12))
    for _ in range(int(random.integers(60, 900))):
        x, y = int(random.integers(size[0])), int(random.integers(size[1]))
        picture[y, x] = random.uniform(60, 256) * random.uniform(0.7, 1, 3)
    return glow(gray(picture), random.uniform(0.6, 1.6))


def night_city(random, size):
    picture = numpy.zeros((size[1], size[0], 3)) + numpy.array([6, 8, 18])
    left = 0
    while left < size[0]:
        width, top = int(random.integers(20, 70)), int(size[1] * random.uniform(0.2, 0.8))
        picture[top:, left : left + width] = random.uniform(10, 30)
        for y in range(top + 4, size[1] - 4, 9):
            for x in range(left + 4, min(left + width, size[0]) - 4, 8):
                if random.random() < 0.3:
                    picture[y : y + 4, x : x + 3] = numpy.array([255, 220, 150]) * random.uniform(0.4, 1)
        left += width
    return glow(gray(picture), 3)


def moonlit(random, size):
    x, y = grid(size)
    centre, radius = random.uniform(0.2, 0.8, 2) * size, min(size) * random.uniform(0.03, 0.15)
    disc = 255 / (1 + numpy.exp(numpy.hypot(x - centre[0], y - centre[1]) - radius))
    return gray(disc + 20 * clouds(random, size, 1.6))


def fog(random, size):
    level, depth = random.uniform(120, 225), random.uniform(4, 30)
    ridge = grid(size)[1] / size[1]
    return tinted(
        0.6 * clouds(random, size, 1.8) + 0.4 * ridge, [level] * 3, numpy.array([level, level, level + 6]) - depth
    )


def landscape(random, size):
    x, y = grid(size)
    picture = tinted(y / size[1], colour(random, 90, 200), colour(random, 180, 256))
    picture, ridges = numpy.asarray(picture, dtype=float), int(random.integers(2, 6))
    for ridge in range(ridges):
        walk = clouds(random, (size[0], 1), 1.5)[0] * size[1] * 0.4
        under = y > size[1] * (0.3 + 0.6 * ridge / ridges) + walk - size[1] * 0.2
        picture[under] = numpy.array(colour(random, 20, 140)) * (1 - ridge / (2 * ridges))
    return gray(picture + random.normal(0, 5, picture.shape))


def ripples(random, size):
    x, y = grid(size)
    values = sum(
        numpy.sin((x * numpy.cos(a) + y * numpy.sin(a)) * f + 4 * clouds(random, size, 2))
        for a, f in zip(random.uniform(0, 3.2, 4), random.uniform(0.05, 0.5, 4), strict=True)
    )
    return tinted((values + 4) / 8, colour(random, 0, 90), colour(random, 140, 256))


def weave(random, size):
    x, y = grid(size)
    pitch = random.uniform(3, 14)
    over = (numpy.floor(x / pitch) + numpy.floor(y / pitch)) % 2
    thread = numpy.where(over, numpy.sin(x * numpy.pi / pitch) ** 2, numpy.sin(y * numpy.pi / pitch) ** 2)
    return tinted(0.8 * thread + 0.2 * clouds(random, size, 0.8), colour(random, 0, 120), colour(random, 100, 256))


def mosaic(random, size):
    x, y = grid(size)
    count = int(random.integers(15, 160))
    seeds = random.uniform(0, 1, (count, 2)) * size
    nearest = numpy.full(x.shape, numpy.inf)
    cell = numpy.zeros(x.shape, dtype=int)
    for number, (left, top) in enumerate(seeds):
        distance = (x - left) ** 2 + (y - top) ** 2
        cell[distance < nearest] = number
        nearest = numpy.minimum(nearest, distance)
    return gray(random.integers(0, 256, (count, 3))[cell])


def scan(random, size):
    """Draws soft ellipses in a dark field, as in a tomographic scan of a body."""
    x, y = (axis / side - 0.5 for axis, side in zip(grid(size), size, strict=True))
    picture = 200 / (1 + numpy.exp((numpy.hypot(x / 0.4, y / 0.45) - 1) * 40))
    for _ in range(int(random.integers(3, 9))):
        left, top = random.uniform(-0.25, 0.25, 2)
        inside = 1 / (
            1
            + numpy.exp(
                (numpy.hypot((x - left) / random.uniform(0.04, 0.2), (y - top) / random.uniform(0.04, 0.2)) - 1) * 20
            )
        )
        picture += inside * random.uniform(-120, 80)
    return gray(picture * (0.9 + 0.2 * clouds(random, size, 0.7)))


def spectrogram(random, size):
    x, y = (axis / side for axis, side in zip(grid(size), size, strict=True))
    values = 0.25 * clouds(random, size, 0.5)
    for overtone in range(1, int(random.integers(3, 9))):
        line = 1 - overtone * 0.1 * (1 + 0.3 * numpy.sin(x * random.uniform(3, 20)))
        values += numpy.exp(-(((y - line) * size[1] / 4) ** 2)) * (numpy.sin(x * random.uniform(10, 60)) > -0.3)
    values = numpy.clip(values, 0, 1)
    return gray(255 * numpy.stack([values**0.7, values**2, 0.5 * numpy.sin(values * numpy.pi)], axis=-1))


def bokeh(random, size):
    x, y = grid(size)
    picture = numpy.zeros((*x.shape, 3)) + numpy.array(colour(random, 0, 50))
    for _ in range(int(random.integers(15, 50))):
        centre, radius = random.uniform(0, 1, 2) * size, random.uniform(6, 40)
        picture[numpy.hypot(x - centre[0], y - centre[1]) < radius] += numpy.array(colour(random, 20, 140))
    return gray(picture).filter(ImageFilter.GaussianBlur(2))


def one_pixel_wide(random, size):
    """Draws lines one pixel wide on a plain background, so that most patches are identical."""
    ground, ink = sorted(random.choice([0, 128, 255], 2, replace=False), reverse=bool(random.random() < 0.5))
    picture = numpy.full((size[1], size[0]), ground)
    picture[random.integers(0, size[1], int(random.integers(1, 6)))] = ink
    picture[:, random.integers(0, size[0], int(random.integers(1, 6)))] = ink
    return gray(picture)


KINDS = functions_by_kind(
    noise_white, noise_pink, cloudy_sky, stars, night_city, moonlit, fog, landscape, ripples, weave, mosaic, scan,
    spectrogram, bokeh, one_pixel_wide,
)  # fmt: skip
