"""Layouts of TIFF that few programs write, against the installed Pillow: 12-bit gray, planes beyond the colours, and
the JPEG compression of TIFF 6.0 (6), which came before today's (7)."""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from bombs import layout, tiff
from image_cases import photo
from PIL import Image
from test_pixels import by_pillow, compare, tool  # noqa: F401

DEFLATE, OLD_JPEG, NONE = 8, 6, 1


def twelve_bits() -> Iterator[tuple[str, bytes]]:
    noise = np.random.default_rng(4)
    for width, height in ((1, 1), (2, 3), (7, 5), (64, 33)):
        for most in (255, 300, 4095):
            values = noise.integers(0, most + 1, (height, width))
            rows = []
            for row in values:
                bits = "".join(format(value, "012b") for value in row)
                bits += "0" * (-len(bits) % 8)
                rows.append(int(bits, 2).to_bytes(len(bits) // 8, "big"))
            for compression in (NONE, DEFLATE):
                strips = [b"".join(rows[at : at + 16]) for at in range(0, height, 16)]
                blocks = strips if compression == NONE else [zlib.compress(strip) for strip in strips]
                for photometric in (0, 1):
                    for big in (False, True):
                        tags = layout(width, height, 12, 1, photometric, compression, 16)
                        yield f"{width}x{height} to {most}, {compression} {photometric} {big}", tiff(tags, blocks, big)


def planes_beyond() -> Iterator[tuple[str, bytes]]:
    noise = np.random.default_rng(5)
    for photometric, colours in ((1, 1), (2, 3), (5, 4)):
        for extras in ([0], [0, 0], *([[1], [2], [0, 2]] if photometric == 2 else [])):
            for bits in (8, 16):
                count = colours + len(extras)
                planes = [noise.bytes(24 * 18 * bits // 8) for _ in range(count)]
                tags = layout(24, 18, bits, count, photometric, DEFLATE, planar=[2], extra=extras)
                yield (
                    f"{count} planes of {bits} bits, {photometric} and {extras}",
                    tiff(tags, map(zlib.compress, planes)),
                )


def old_jpeg(width: int, height: int, sampling: str, **more) -> bytes:
    """A whole JPEG stream, to which the tags of its place lead."""
    buffer = io.BytesIO()
    photo((width, height), "coffee.png").save(buffer, "JPEG", quality=90, subsampling=sampling)
    stream = buffer.getvalue()
    factors = {"4:4:4": [1, 1], "4:2:2": [2, 1], "4:2:0": [2, 2]}[sampling]
    tags = layout(width, height, 8, 3, 6, OLD_JPEG) | {513: (4, [8]), 514: (4, [len(stream)]), 530: (3, factors)}
    return tiff(tags | more.get("tags", {}), [stream])


def old_jpegs() -> Iterator[tuple[str, bytes]]:
    for size in ((100, 72), (97, 61), (33, 17), (16, 16), (130, 5)):
        for sampling in ("4:4:4", "4:2:2", "4:2:0"):
            for orientation in (1, 6):
                yield f"{size} {sampling} {orientation}", old_jpeg(*size, sampling, tags={274: (3, [orientation])})


@pytest.mark.parametrize("cases, least", [(twelve_bits, 20), (planes_beyond, 12), (old_jpegs, 20)])
def test_as_pillow_reads_it(tool, cases, least):
    wrong = []
    readable = 0
    for name, data in cases():
        expected = by_pillow(data)
        readable += not isinstance(expected, Exception)
        if cases is planes_beyond and isinstance(expected, Exception):
            continue
        wrong.append(compare(tool, name, data, []))
    assert not any(wrong), "\n".join(filter(None, wrong))
    assert readable >= least, readable


def test_damaged_old_jpeg_is_read_as_pillow_reads_it_or_refused(tool):
    whole = [old_jpeg(64, 48, sampling) for sampling in ("4:4:4", "4:2:0")]
    read = 0
    for seed in range(600):
        choose = random.Random(seed)
        data = bytearray(choose.choice(whole))
        for _ in range(choose.randint(1, 4)):
            data[choose.randrange(len(data))] = choose.choice((0, 1, 255, choose.randrange(256)))
        expected = by_pillow(bytes(data))
        tool.file.write_bytes(data)
        got = tool.ask(0, 0, 2)
        if not isinstance(got, str) and isinstance(expected, Image.Image):
            assert got == (expected.size, expected.tobytes()), seed
            read += 1
    assert read > 100
