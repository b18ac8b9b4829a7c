"""TIFFs that other writers than Pillow make, and damaged ones, against the installed Pillow: YCbCr of every
subsampling, and deflate blocks that hold more than their rows. What both read, they read alike."""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from bombs import layout, tiff
from PIL import Image
from test_pixels import by_pillow, tool  # noqa: F401

SUBSAMPLINGS = [(1, 1), (2, 1), (2, 2), (4, 2), (4, 1), (1, 2), (4, 4), (1, 4), (2, 4)]
LZW, JPEG, DEFLATE, PACKBITS = 5, 7, 8, 32773


def lzw(data: bytes) -> bytes:
    bits: list[str] = []
    table: dict[bytes, int] = {}
    width, free, current = 9, 4095, b""
    for byte in (data[at : at + 1] for at in range(len(data))):
        if free >= 4094:
            bits.append(format(256, f"0{width}b"))
            table = {bytes([value]): value for value in range(256)}
            width, free = 9, 258
        if current + byte in table:
            current += byte
            continue
        bits.append(format(table[current], f"0{width}b"))
        table[current + byte] = free
        free += 1
        if free in (512, 1024, 2048):
            width += 1
        current = byte
    # The decoder has one entry fewer than the encoder.
    bits.append(format(table[current], f"0{width}b"))
    if free + 1 in (512, 1024, 2048):
        width += 1
    bits.append(format(257, f"0{width}b"))
    text = "".join(bits)
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")


def packbits(data: bytes) -> bytes:
    return b"".join(bytes([len(data[at : at + 128]) - 1]) + data[at : at + 128] for at in range(0, len(data), 128))


CODECS = {LZW: lzw, DEFLATE: zlib.compress, PACKBITS: packbits}


def ycbcr(choose: random.Random) -> tuple[str, bytes]:
    """An undamaged file of few pixels, of noise."""
    width, height = choose.randint(1, 40), choose.randint(1, 40)
    across, down = choose.choice(SUBSAMPLINGS)
    compression = choose.choice([LZW, DEFLATE, DEFLATE, PACKBITS, JPEG])
    tiled = choose.random() < 0.4
    planar = across == down == 1 and choose.random() < 0.3
    columns, rows = width, choose.choice([1, 2, 3, 4, 5, 7, 8, 16, height, 1000])
    tags = layout(width, height, 8, 3, 6, compression, rows, planar=[2 if planar else 1])
    if tiled:
        columns, rows = choose.choice([16, 32]), choose.choice([16, 32])
        tags |= {322: (4, [columns]), 323: (4, [rows])}
    if choose.random() < 0.9:  # else it is 2x2
        tags[530] = (3, [across, down])
    if choose.random() < 0.4:
        tags[529] = (
            5,
            choose.choice([[(299, 1000), (587, 1000), (114, 1000)], [(2126, 10000), (7152, 10000), (722, 10000)]]),
        )
    if choose.random() < 0.4:
        full = [(0, 1), (255, 1), (128, 1), (255, 1), (128, 1), (255, 1)]
        video = [(16, 1), (235, 1), (128, 1), (240, 1), (128, 1), (240, 1)]
        tags[532] = (
            5,
            choose.choice([full, video, [(choose.randrange(300), choose.choice([0, 1, 2])) for _ in range(6)]]),
        )
    if choose.random() < 0.2:
        tags[317] = (3, [choose.choice([1, 2])])
    if choose.random() < 0.5:
        tags[274] = (3, [choose.choice([1, 3, 6, 8])])
    noise = np.random.default_rng(choose.randrange(1 << 30))
    blocks = []
    for y in range(0, height, rows):
        for _ in range(-(-width // columns)):
            here = rows if tiled else min(rows, height - y)
            if compression == JPEG:
                pixels = noise.integers(0, 256, (-(-here // 8), -(-columns // 8), 3), dtype=np.uint8)
                buffer = io.BytesIO()
                sampling = {(2, 1): "4:2:2", (2, 2): "4:2:0"}.get((across, down), "4:4:4")
                Image.fromarray(pixels).resize((columns, here)).save(buffer, "JPEG", subsampling=sampling)
                blocks.append(buffer.getvalue())
            else:
                size = -(-columns // across) * -(-here // down) * (across * down + 2)
                blocks.append(CODECS[compression](noise.bytes(size)))
    name = f"{width}x{height} subsampled {across}x{down}, compression {compression}, blocks {columns}x{rows}"
    return name, tiff(tags, blocks * (3 if planar else 1), big=choose.random() < 0.5)


def undamaged() -> Iterator[tuple[str, bytes]]:
    for seed in range(800):
        yield ycbcr(random.Random(seed))


def damaged() -> Iterator[tuple[str, bytes]]:
    """A few bytes are others, most of them in the directory."""
    for seed in range(1000, 1800):
        choose = random.Random(seed)
        name, whole = ycbcr(choose)
        data = bytearray(whole)
        start = int.from_bytes(data[4:8], "big" if data[:1] == b"M" else "little")
        for _ in range(choose.choice([1, 1, 1, 2, 3])):
            at = choose.randrange(start, len(data)) if choose.random() < 0.7 else choose.randrange(len(data))
            data[at] = choose.choice([choose.randrange(256), data[at] ^ 1 << choose.randrange(8), 0, 1, 2, 4, 255])
        yield f"{name}, seed {seed}", bytes(data)


def overlong() -> Iterator[tuple[str, bytes]]:
    """RGB in deflate, each strip or tile with rows to spare."""
    noise = np.random.default_rng(1)
    for spare in (0, 1, 5):
        for predictor in (1, 2):
            for level in (0, 1, 9):
                for bits in (8, 16):
                    for kind in ("noise", "flat", "slope"):
                        for tiled in (False, True):
                            columns, rows = (16, 16) if tiled else (40, 8)
                            count = 9 if tiled else 5
                            tags = layout(40, 33, bits, 3, 2, DEFLATE, 8, predictor=[predictor])
                            if tiled:
                                tags |= {322: (4, [16]), 323: (4, [16])}
                            blocks = []
                            for index in range(count):
                                here = rows if tiled else min(8, 33 - index * 8)
                                size = (here + spare) * columns * 3 * bits // 8
                                pixels = {
                                    "noise": noise.bytes(size),
                                    "flat": bytes(size),
                                    "slope": bytes(at // 7 % 256 for at in range(size)),
                                }[kind]
                                blocks.append(zlib.compress(pixels, level))
                            name = f"{spare} spare rows of {bits}-bit {kind}, level {level}, predictor {predictor}"
                            yield f"{name}, {'tiles' if tiled else 'strips'}", tiff(tags, blocks)


def damaged_deflate() -> Iterator[tuple[str, bytes]]:
    """Strips with wrong bits near their end. In that of seed 1142 a match goes on behind the last row, after
    libdeflate has copied a whole word where only a part of it belongs."""
    for seed in range(2000):
        choose = random.Random(seed)
        width, height = choose.randint(20, 60), choose.randint(10, 30)
        noise = np.random.default_rng(seed).integers(0, 256, (height // 5 + 1, width // 5 + 1, 3), dtype=np.uint8)
        rows = np.asarray(Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)).astype(int)
        predictor = choose.choice([1, 2])
        if predictor == 2:
            rows = np.diff(rows, axis=1, prepend=0)
        strip = bytearray(zlib.compress(rows.astype(np.uint8).tobytes(), choose.choice([1, 6, 9])))
        for _ in range(choose.randint(1, 3)):
            strip[choose.randrange(len(strip) // 2, len(strip))] ^= 1 << choose.randrange(8)
        tags = layout(width, height, 8, 3, 2, DEFLATE, height, predictor=[predictor])
        yield f"seed {seed}, predictor {predictor}", tiff(tags, [strip])


# Of the files that Pillow reads, the share that is read here too, at least. Where libtiff meets an error in
# YCbCr, Pillow continues with black; subsampling by 4x4 in tiles is refused by name.
@pytest.mark.parametrize("cases, share", [(undamaged, 0.7), (damaged, 0.5), (damaged_deflate, 0.9), (overlong, 1.0)])
def test_what_both_read_they_read_alike(tool, cases, share):
    wrong = []
    read = readable = 0
    for name, data in cases():
        expected = by_pillow(data)
        tool.file.write_bytes(data)
        got = tool.ask(0, 0, 2)
        if isinstance(expected, Exception):
            if not isinstance(got, str) and cases not in (damaged, damaged_deflate):
                wrong.append(f"{name}: read, where Pillow says {expected!r}")
            continue
        readable += 1
        if not isinstance(got, str):
            read += 1
            if got != (expected.size, expected.tobytes()):
                wrong.append(f"{name}: other pixels")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:20])
    assert read >= share * readable > 100, f"{read} of {readable} are read"


@pytest.mark.parametrize("entries", [0, 767, 769])
@pytest.mark.parametrize("big_endian", [False, True])
def test_a_palette_of_another_size_is_refused(tool, entries, big_endian):
    """libtiff takes the indices for gray."""
    tags = layout(5, 4, 8, 1, 3, 1) | ({320: (3, range(entries))} if entries else {})
    tool.file.write_bytes(tiff(tags, [bytes(range(20))], big_endian))
    assert "the palette is missing, or does not have a colour for each value of 8 bits" in tool.ask(0, 0, 2)
