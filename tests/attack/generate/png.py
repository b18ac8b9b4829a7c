"""PNGs of one colour of any size and kind, and PNG bombs."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from random import Random

from attack.generate.made import MAX_PIXELS, Made, sides
from attack.generate.streams import Runs, zlib_of

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
_CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGBA: 4}
# Start and step of each pass of an interlaced image: x, y, dx, dy.
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def rows_of(width: int, height: int, color: int, depth: int, sample: bytes, interlaced: bool) -> Runs:
    """The unpacked rows of an image whose pixels all have the bytes `sample`."""

    def row(pixels: int) -> bytes:
        if depth < 8:
            return b"\0" + sample * ((pixels * depth + 7) // 8)
        return b"\0" + sample * pixels

    if not interlaced:
        return [(row(width), height)]
    sizes = ((len(range(x, width, dx)), len(range(y, height, dy))) for x, y, dx, dy in _PASSES)
    return [(row(columns), rows) for columns, rows in sizes if columns and rows]


def png(
    width: int,
    height: int,
    color: int = RGB,
    depth: int = 8,
    sample: bytes | None = None,
    *,
    interlaced: bool = False,
    before: bytes = b"",
    after: bytes = b"",
    idat: bytes | None = None,
) -> bytes:
    """A PNG; `before` and `after` are chunks around its pixels."""
    if sample is None:
        sample = bytes(max(1, _CHANNELS[color] * depth // 8))
    if idat is None:
        idat = zlib_of(rows_of(width, height, color, depth, sample, interlaced))
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)
    palette = chunk(b"PLTE", bytes(range(256)) * 3) if color == PALETTE and depth == 8 else b""
    if color == PALETTE and depth < 8:
        palette = chunk(b"PLTE", bytes(range(3 * 2**depth)))
    return SIGNATURE + b"".join(
        (chunk(b"IHDR", header), palette, before, chunk(b"IDAT", idat), after, chunk(b"IEND", b""))
    )


def huge(random: Random, pixels: int) -> Iterator[Made]:
    """Each layout, of `pixels` pixels of one colour, without end."""
    layouts = [(color, depth) for color in _CHANNELS for depth in (1, 2, 4, 8, 16)]
    layouts = [(c, d) for c, d in layouts if (d >= 8 or c in (GRAY, PALETTE)) and (c, d) != (PALETTE, 16)]
    while True:
        random.shuffle(layouts)
        for color, depth in layouts:
            interlaced = random.random() < 0.4
            width, height = sides(random, pixels, 1 << 20)
            value = 0 if depth < 8 else random.randrange(256)
            sample = bytes([value]) * max(1, _CHANNELS[color] * depth // 8)
            yield Made(
                f"{width}x{height}-color{color}-{depth}{'-interlaced' * interlaced}.png",
                png(width, height, color, depth, sample, interlaced=interlaced),
                width * height,
                3.0 if interlaced else 1.0 + (depth == 16),
                png(3, 3, color, depth, sample),
            )


def _text_chunk(kind: str, packed: bytes) -> bytes:
    if kind == "zTXt":
        return chunk(b"zTXt", b"k\0\0" + packed)
    if kind == "iTXt":
        return chunk(b"iTXt", b"k\0\1\0\0\0" + packed)
    return chunk(b"iCCP", b"k\0\0" + packed)


def text_bomb(kind: str, count: int, size: int, after: bool) -> bytes:
    """`count` chunks that unpack to `size` bytes each, before the pixels or after them."""
    chunks = _text_chunk(kind, zlib_of([(b"a", size)])) * count
    return png(1, 1, before=b"" if after else chunks, after=chunks if after else b"")


def bombs(random: Random, scale: float) -> Iterator[Made]:
    """Bombs; `scale` 1 as bad as they come, less in proportion."""
    for kind in ("zTXt", "iTXt"):
        for after in (False, True):
            size = random.randrange(7_000_000, 7_999_000)
            count = max(2, round(random.randrange(500, 990) * scale))
            name = f"{count}-{kind}{'-after' * after}.png"
            yield Made(name, text_bomb(kind, count, size, after))
    size = round(random.randrange(1 << 30, 4 << 30) * scale)
    yield Made("icc-profile.png", text_bomb("iCCP", 1, size, False))
    yield Made("one-text.png", text_bomb("zTXt", 1, size, False))
    yield Made("one-text-after.png", text_bomb("iTXt", 1, size, True))
    small = round(random.randrange(200_000, 2_000_000) * scale)
    yield Made("small-texts.png", png(1, 1, before=chunk(b"tEXt", b"k\0v") * small))
    yield Made("unknown-chunks.png", png(1, 1, before=chunk(b"raNd", b"12345678") * small))
    yield Made("pixels-in-empty-chunks.png", _cut_idat(zlib_of([(b"\0abc", 1)]), small))
    yield Made(
        "suggested-palettes.png",
        png(1, 1, before=chunk(b"sPLT", b"n\0\x08" + bytes(6 * 256)) * (small // 50)),
    )
    yield Made("plain-texts.png", png(1, 1, before=chunk(b"tEXt", b"k\0" + b"a" * 4_000_000) * round(16 * scale + 1)))
    # What is packed behind the last row: 1 pixel, then gibibytes.
    behind = zlib_of([(b"\0abc", 1), (b"\0", round(random.randrange(8 << 30, 16 << 30) * scale))])
    yield Made("packed-behind-the-rows.png", png(1, 1, idat=behind))
    # Sides past what a resize takes, which is known from the header.
    for width, height in (((1 << 24) + 1, 10), (10, (1 << 24) + 1), (MAX_PIXELS, 1), (1, MAX_PIXELS)):
        if width * height <= MAX_PIXELS * max(scale, 0.2):
            yield Made(f"{width}x{height}.png", png(width, height))
    frames = round(random.randrange(20_000, 100_000) * scale)
    frame = chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 1, 1, 0, 0, 1, 1, 0, 0))
    yield Made("frames.png", png(1, 1, before=chunk(b"acTL", struct.pack(">II", frames, 0)), after=frame * frames))


def _cut_idat(stream: bytes, empty: int) -> bytes:
    whole = png(1, 1, idat=stream)
    at = whole.index(b"IDAT") - 4
    return whole[:at] + chunk(b"IDAT", b"") * empty + whole[at:]
