"""Draws pictures of high contrast: pages, codes, charts, maps and screens. Each function takes a random number
generator and a size."""

import numpy
from PIL import Image, ImageDraw, ImageFilter, ImageFont

BLACK, WHITE = (0, 0, 0), (255, 255, 255)


def functions_by_kind(*kinds):
    """Returns the functions by kind: the name of the function, with hyphens."""
    return {kind.__name__.replace("_", "-"): kind for kind in kinds}


def font(size):
    return ImageFont.load_default(size=max(7, round(size)))


def colour(random, low=0, high=256):
    return tuple(int(value) for value in random.integers(low, high, 3))


def canvas(size, background=WHITE):
    image = Image.new("RGB", size, background)
    return image, ImageDraw.Draw(image)


def words(random, count):
    """Returns words of random letters, with lengths as in English."""
    letters = numpy.array(list("eeeetttaaaooiinnsshhrrddlucmfwygpbvk"))
    random_words = ["".join(random.choice(letters, random.integers(1, 11))) for _ in range(count)]
    return " ".join(word.capitalize() if random.random() < 0.12 else word for word in random_words)


def lines_of_text(random, draw, box, size, ink):
    """Fills the box (left, top, right, bottom) with lines of words, some of them short, like the ends of paragraphs."""
    left, top, right, bottom = box
    face = font(size)
    while top + size < bottom:
        share = random.uniform(0.3, 0.9) if random.random() < 0.15 else 1.0
        text = words(random, 30)[: int(2.5 * (right - left) / size)]
        while text and left + draw.textlength(text, face) > left + share * (right - left):
            text = text.rpartition(" ")[0]
        draw.text((left, top), text, ink, face)
        top += 1.35 * size * (1.8 if share < 1 and random.random() < 0.5 else 1)


def text_page(random, size):
    image, draw = canvas(size, tuple(int(v) for v in random.integers(225, 256) + random.integers(-10, 1, 3)))
    margin = size[0] * random.uniform(0.04, 0.14)
    lines_of_text(random, draw, (margin, margin, size[0] - margin, size[1] - margin), random.uniform(7, 17), BLACK)
    return image


def text_columns(random, size):
    image, draw = canvas(size)
    count, gap, top = int(random.integers(2, 5)), size[0] * 0.025, 0.04 * size[1]
    draw.text((gap, top), words(random, 4), BLACK, font(size[1] * random.uniform(0.06, 0.12)))
    width, letters = (size[0] - gap) / count, random.uniform(7, 11)
    for column in range(count):
        left = gap + column * width
        lines_of_text(random, draw, (left, 0.22 * size[1], left + width - gap, size[1] * 0.97), letters, BLACK)
    return image


def text_large(random, size):
    background = colour(random)
    image, draw = canvas(size, background)
    ink = tuple(255 - value for value in background) if random.random() < 0.5 else WHITE
    for line in range(int(random.integers(1, 4))):
        draw.text(
            (size[0] * 0.05, size[1] * (0.08 + 0.3 * line)),
            words(random, 2),
            ink,
            font(size[1] * random.uniform(0.15, 0.28)),
        )
    return image


def text_inverted(random, size):
    image, draw = canvas(size, BLACK)
    lines_of_text(random, draw, (12, 12, size[0] - 12, size[1] - 12), random.uniform(8, 22), WHITE)
    return image


def handwriting(random, size):
    image, draw = canvas(size)
    step = random.uniform(18, 40)
    for baseline in numpy.arange(step, size[1] - 8, step):
        steps = numpy.arange(12, size[0] * random.uniform(0.6, 0.97), 1.5)
        walk = numpy.cumsum(random.normal(0, 0.5, len(steps)))
        height = step * 0.3 * numpy.sin(walk + steps * 0.5) * (random.random(len(steps)).cumsum() % 7 < 6)
        draw.line(
            [(x, baseline - y) for x, y in zip(steps, height, strict=True)], (20, 20, 60), int(random.integers(1, 4))
        )
    return image


def silhouette(random, size):
    ground, shape = (BLACK, WHITE) if random.random() < 0.3 else (WHITE, BLACK)
    image, draw = canvas(size, ground)
    for _ in range(int(random.integers(1, 4))):
        angles = numpy.linspace(0, 2 * numpy.pi, 200)
        radius = numpy.ones_like(angles)
        for wave in range(1, int(random.integers(3, 12))):
            radius += random.normal(0, 0.5 / wave) * numpy.cos(wave * angles + random.uniform(0, 6.3))
        radius *= min(size) * random.uniform(0.12, 0.35)
        x, y = (random.uniform(0.3, 0.7) * side for side in size)
        draw.polygon([(x + r * numpy.cos(a), y + r * numpy.sin(a)) for a, r in zip(angles, radius, strict=True)], shape)
    return image


def blobs(random, size):
    noise = Image.fromarray(random.integers(0, 256, (size[1], size[0]), dtype=numpy.uint8))
    smooth = numpy.asarray(noise.filter(ImageFilter.GaussianBlur(random.uniform(2, 18))), dtype=float)
    return Image.fromarray(((smooth > numpy.quantile(smooth, random.uniform(0.3, 0.7))) * 255).astype(numpy.uint8))


def grid(size):
    return numpy.meshgrid(numpy.arange(size[0], dtype=float), numpy.arange(size[1], dtype=float))


def rotated_grid(random, size):
    """Returns the coordinates of the pixels, rotated by a random angle about the centre."""
    x, y = grid(size)
    angle = random.uniform(0, numpy.pi) if random.random() < 0.6 else 0.0
    x, y = x - size[0] / 2, y - size[1] / 2
    return x * numpy.cos(angle) + y * numpy.sin(angle), y * numpy.cos(angle) - x * numpy.sin(angle)


def gray(values):
    return Image.fromarray(numpy.clip(values, 0, 255).astype(numpy.uint8))


def checkerboard(random, size):
    x, y = rotated_grid(random, size)
    side = 2 ** random.uniform(1.5, 6.5)
    return gray((numpy.floor(x / side) + numpy.floor(y / side)) % 2 * 255)


def stripes(random, size):
    wave = rotated_grid(random, size)[0] * 2 * numpy.pi / 2 ** random.uniform(1.5, 6.5)
    return gray(255 * (numpy.sin(wave) > 0) if random.random() < 0.5 else 127.5 + 127.5 * numpy.sin(wave))


def halftone(random, size):
    x, y = rotated_grid(random, size)
    pitch, tone = random.uniform(4, 14), rotated_grid(random, size)[0]
    tone = (tone - tone.min()) / (tone.max() - tone.min())
    dots = numpy.cos(2 * numpy.pi * x / pitch) + numpy.cos(2 * numpy.pi * y / pitch)
    return gray(255 * (dots > 4 * tone - 2))


def moire(random, size):
    x, y = grid(size)
    total = 0
    for _ in range(2):
        left, top = (random.uniform(0, side) for side in size)
        total = total + numpy.sin(numpy.hypot(x - left, y - top) * random.uniform(0.3, 2.6))
    return gray(127.5 + 64 * total)


def code_square(random, size):
    modules = int(random.integers(5, 14)) * 4 + 1
    cells = random.integers(0, 2, (modules, modules))
    for row, column in ((0, 0), (0, modules - 8), (modules - 8, 0)):
        cells[row : row + 8, column : column + 8] = 0
    for row, column in ((0, 0), (0, modules - 7), (modules - 7, 0)):
        cells[row : row + 7, column : column + 7] = 1
        cells[row + 1 : row + 6, column + 1 : column + 6] = 0
        cells[row + 2 : row + 5, column + 2 : column + 5] = 1
    side = min(size)
    picture = gray(255 * (1 - numpy.pad(cells, 4))).resize((side, side), Image.Resampling.NEAREST)
    return picture.rotate(random.uniform(-20, 20), fillcolor=255) if random.random() < 0.4 else picture


def code_bars(random, size):
    image, draw = canvas(size)
    x, module = size[0] * 0.08, random.uniform(1.5, 4)
    while x < size[0] * 0.92:
        bar, space = random.integers(1, 5, 2) * module
        draw.rectangle((x, size[1] * 0.15, x + bar, size[1] * 0.75), BLACK)
        x += bar + space
    draw.text((size[0] * 0.2, size[1] * 0.8), "".join(map(str, random.integers(0, 10, 13))), BLACK, font(size[1] * 0.1))
    return image


def chart_bars(random, size):
    image, draw = canvas(size)
    count = int(random.integers(4, 13))
    width = size[0] * 0.84 / count
    ink = [colour(random, 30, 230) for _ in range(int(random.integers(1, 4)))]
    for bar, height in enumerate(random.uniform(0.1, 0.8, count)):
        left = size[0] * 0.1 + bar * width
        draw.rectangle((left, size[1] * (0.9 - height), left + 0.7 * width, size[1] * 0.9), ink[bar % len(ink)])
    draw.line((size[0] * 0.09, size[1] * 0.06, size[0] * 0.09, size[1] * 0.9, size[0] * 0.96, size[1] * 0.9), BLACK, 2)
    draw.text((size[0] * 0.25, 2), words(random, 4), BLACK, font(size[1] * 0.05))
    return image


def chart_lines(random, size):
    image, draw = canvas(size)
    for share in numpy.linspace(0.1, 0.9, 6):
        draw.line((size[0] * 0.1, size[1] * share, size[0] * 0.95, size[1] * share), (210, 210, 210))
    for _ in range(int(random.integers(1, 6))):
        walk = random.normal(0, 1, 60).cumsum()
        walk = 0.15 + 0.7 * (walk - walk.min()) / (numpy.ptp(walk) + 1e-9)
        points = zip(numpy.linspace(0.1, 0.95, 60) * size[0], walk * size[1], strict=True)
        draw.line(list(points), colour(random, 0, 220), int(random.integers(1, 4)))
    return image


def chart_pie(random, size):
    image, draw = canvas(size)
    radius = min(size) * 0.42
    box = (size[0] / 2 - radius, size[1] / 2 - radius, size[0] / 2 + radius, size[1] / 2 + radius)
    ends = numpy.sort(random.uniform(0, 360, int(random.integers(3, 9))))
    for start, end in zip(ends, [*ends[1:], ends[0] + 360], strict=True):
        draw.pieslice(box, start, end, colour(random), WHITE, 2)
    return image


def table(random, size):
    image, draw = canvas(size)
    row, columns = random.uniform(14, 32), int(random.integers(3, 8))
    for number, top in enumerate(numpy.arange(8, size[1] - row, row)):
        draw.rectangle((6, top, size[0] - 6, top + row), WHITE if number else (200, 210, 230), (90, 90, 90))
        for column in range(columns):
            left = 6 + column * (size[0] - 12) / columns
            draw.line((left, top, left, top + row), (90, 90, 90))
            draw.text((left + 3, top + 2), f"{random.integers(0, 10**4) / 10:.1f}", BLACK, font(row * 0.55))
    return image


def street_map(random, size):
    image, draw = canvas(size, (240, 236, 225))
    for _ in range(int(random.integers(3, 9))):
        x, y = (random.uniform(0, side) for side in size)
        points = [(x + random.normal(0, 70), y + random.normal(0, 70)) for _ in range(6)]
        draw.polygon(points, [(170, 211, 223), (200, 230, 190), (225, 215, 230)][random.integers(3)])
    for width, count, ink in ((2, 40, WHITE), (5, 8, (250, 220, 140)), (8, 2, (230, 140, 110))):
        for _ in range(count):
            start = random.uniform(-0.2, 1.2, 2) * size
            draw.line([*start, *(start + random.normal(0, 0.6, 2) * size)], ink, width)
    for _ in range(8):
        draw.text(tuple(random.uniform(0, 0.9, 2) * size), words(random, 1), (60, 60, 60), font(11))
    return image


def screen(random, size):
    image, draw = canvas(size, colour(random, 200, 256))
    draw.rectangle((0, 0, size[0], 18), colour(random, 20, 120))
    for _ in range(int(random.integers(2, 5))):
        left, top = (random.uniform(0, 0.5) * side for side in size)
        right, bottom = left + size[0] * random.uniform(0.3, 0.6), top + size[1] * random.uniform(0.3, 0.6)
        draw.rectangle((left, top, right, bottom), WHITE, (120, 120, 120))
        draw.rectangle((left, top, right, top + 14), colour(random, 40, 200))
        lines_of_text(random, draw, (left + 6, top + 18, right - 6, bottom - 24), 9, (40, 40, 40))
        draw.rounded_rectangle((right - 60, bottom - 20, right - 6, bottom - 4), 4, colour(random, 40, 200))
    return image


def editor(random, size):
    image, draw = canvas(size, (30, 30, 36))
    letters = random.uniform(8, 14)
    inks = [(220, 220, 170), (86, 156, 214), (206, 145, 120), (181, 206, 168), (212, 212, 212)]
    for number, top in enumerate(numpy.arange(4, size[1] - letters, letters * 1.4)):
        draw.text((4, top), f"{number + 1:3}", (110, 110, 110), font(letters))
        left = 4 + letters * (2.5 + 1.5 * random.integers(0, 5))
        for word in words(random, int(random.integers(0, 7))).split():
            draw.text((left, top), word, inks[random.integers(len(inks))], font(letters))
            left += draw.textlength(word + " ", font(letters))
    return image


def line_drawing(random, size):
    image, draw = canvas(size)
    pen = int(random.integers(1, 4))
    for _ in range(int(random.integers(6, 26))):
        x, y = (random.uniform(0, side) for side in size)
        w, h = random.uniform(10, min(size) * 0.4, 2)
        shape = random.integers(4)
        if shape == 0:
            draw.ellipse((x, y, x + w, y + h), outline=BLACK, width=pen)
        elif shape == 1:
            draw.rectangle((x, y, x + w, y + h), outline=BLACK, width=pen)
        elif shape == 2:
            draw.line([(x + random.normal(0, w), y + random.normal(0, h)) for _ in range(5)], BLACK, pen)
        else:
            for offset in numpy.arange(0, h, 5):
                draw.line((x, y + offset, x + w, y + offset - 20), BLACK)
    return image


def blueprint(random, size):
    picture = 255 - numpy.asarray(line_drawing(random, size), dtype=float)
    return Image.fromarray(numpy.clip(picture * 0.8 + numpy.array([20, 50, 120]), 0, 255).astype(numpy.uint8))


def sheet_music(random, size):
    image, draw = canvas(size)
    space = random.uniform(4, 8)
    for top in numpy.arange(20, size[1] - 6 * space, 9 * space):
        for line in range(5):
            draw.line((10, top + line * space, size[0] - 10, top + line * space), BLACK)
        for x in numpy.arange(24, size[0] - 20, random.uniform(12, 26)):
            y = top + space * random.integers(0, 10) / 2
            draw.ellipse((x, y - space * 0.45, x + space * 1.3, y + space * 0.45), BLACK)
            draw.line((x + space * 1.3, y, x + space * 1.3, y - 3.2 * space), BLACK)
    return image


def maze(random, size):
    cell = int(random.integers(6, 22))
    rows, columns = size[1] // cell, size[0] // cell
    image, draw = canvas((columns * cell, rows * cell))
    for row in range(rows):
        for column in range(columns):
            x, y = column * cell, row * cell
            draw.line((x, y, x + cell, y) if random.random() < 0.5 else (x, y, x, y + cell), BLACK, max(1, cell // 5))
    return image


def icon(random, size):
    image, draw = canvas(size, colour(random))
    x, y, radius = size[0] / 2, size[1] / 2, min(size) * random.uniform(0.25, 0.4)
    for _ in range(int(random.integers(1, 4))):
        corners = int(random.integers(3, 9))
        if random.random() < 0.4:
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), colour(random))
        else:
            draw.regular_polygon((x, y, radius), corners, random.uniform(0, 360), colour(random))
        radius *= 0.6
    return image


def flag(random, size):
    image, draw = canvas(size, colour(random))
    bands = int(random.integers(2, 5))
    upright = random.random() < 0.5
    for band in range(bands):
        low, high = band / bands, (band + 1) / bands
        box = (size[0] * low, 0, size[0] * high, size[1]) if upright else (0, size[1] * low, size[0], size[1] * high)
        draw.rectangle(box, colour(random))
    return image


def pixel_art(random, size):
    half = random.integers(0, 2, (int(random.integers(6, 17)), int(random.integers(3, 9))))
    cells = numpy.concatenate([half, half[:, ::-1]], axis=1)
    palette = numpy.array([colour(random), colour(random)], dtype=numpy.uint8)
    return Image.fromarray(palette[cells]).resize(size, Image.Resampling.NEAREST)


def gradient(random, size):
    x, y = rotated_grid(random, size)
    along = numpy.hypot(x, y) if random.random() < 0.4 else x
    along = ((along - along.min()) / numpy.ptp(along))[..., None]
    ends = numpy.array([colour(random), colour(random)], dtype=float)
    return gray(ends[0] + along * (ends[1] - ends[0]))


def flat(random, size):
    return canvas(
        size, [BLACK, WHITE, (128, 128, 128)][random.integers(3)] if random.random() < 0.3 else colour(random)
    )[0]


KINDS = functions_by_kind(
    text_page, text_columns, text_large, text_inverted, handwriting, silhouette, blobs, checkerboard, stripes,
    halftone, moire, code_square, code_bars, chart_bars, chart_lines, chart_pie, table,
) | {"map": street_map} | functions_by_kind(
    screen, editor, line_drawing, blueprint, sheet_music, maze, icon, flag, pixel_art, gradient, flat,
)  # fmt: skip
