"""JPEG in TIFF, as GDAL, libvips, tifffile and ImageMagick write it, against the installed Pillow: every subsampling,
in strips and tiles, with tables of their own and shared ones, interleaved and in separate planes."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pytest
from bombs import layout, tiff
from image_cases import photo
from PIL import Image
from test_pixels import by_pillow, compare, tool  # noqa: F401

JPEG, RGB, YCBCR, CMYK, GRAY = 7, 2, 6, 5, 1
SAMPLINGS = {"4:4:4": (1, 1), "4:2:2": (2, 1), "4:2:0": (2, 2), "4:4:0": (1, 2), "4:1:1": (4, 1)}
SIZES = [(100, 72), (97, 61), (33, 17), (16, 16), (1, 1), (3, 40), (130, 5)]


def coded(pixels: np.ndarray, sampling: str, **options) -> bytes:
    """One JPEG."""
    across, down = SAMPLINGS[sampling]
    buffer = io.BytesIO()
    if sampling in ("4:4:4", "4:2:2", "4:2:0"):
        Image.fromarray(pixels).save(buffer, "JPEG", quality=90, subsampling=sampling, **options)
        return buffer.getvalue()
    return subsampled(pixels, across, down)


def subsampled(pixels: np.ndarray, across: int, down: int) -> bytes:
    """A baseline JPEG whose colours are at 1/across and 1/down, of flat blocks: each is one coefficient."""
    height, width = pixels.shape[:2]
    ycc = np.asarray(Image.fromarray(pixels).convert("YCbCr")).astype(int)
    columns, rows = -(-width // (8 * across)), -(-height // (8 * down))
    padded = np.pad(ycc, ((0, rows * 8 * down - height), (0, columns * 8 * across - width), (0, 0)), mode="edge")
    bits: list[str] = []
    last = [0, 0, 0]

    def block(component: int, values: np.ndarray) -> None:
        value = round(float(values.mean())) - 128  # a coefficient of 8 times the mean, in steps of 8
        difference, last[component] = value - last[component], value
        size = abs(difference).bit_length()
        bits.append(format(size, "04b"))
        if size:
            bits.append(format(difference if difference > 0 else difference + (1 << size) - 1, f"0{size}b"))
        bits.append("0")  # no other coefficient

    for row in range(rows):
        for column in range(columns):
            part = padded[row * 8 * down :, column * 8 * across :]
            for y in range(down):
                for x in range(across):
                    block(0, part[y * 8 : y * 8 + 8, x * 8 : x * 8 + 8, 0])
            for component in (1, 2):
                block(component, part[: 8 * down, : 8 * across, component])
    text = "".join(bits)
    text += "1" * (-len(text) % 8)
    data = int(text, 2).to_bytes(len(text) // 8, "big").replace(b"\xff", b"\xff\0")
    table = b"\xff\xdb\0\x43\0" + bytes([8] * 64)
    direct = b"\xff\xc4" + (19 + 12).to_bytes(2, "big") + b"\0" + bytes([0, 0, 0, 12] + [0] * 12) + bytes(range(12))
    other = b"\xff\xc4" + (19 + 1).to_bytes(2, "big") + b"\x10" + bytes([1] + [0] * 15) + b"\0"
    frame = b"\xff\xc0\0\x11\x08" + height.to_bytes(2, "big") + width.to_bytes(2, "big") + b"\3"
    frame += bytes([1, across << 4 | down, 0, 2, 0x11, 0, 3, 0x11, 0])
    scan = b"\xff\xda\0\x0c\3" + bytes([1, 0, 2, 0, 3, 0, 0, 63, 0])
    return b"\xff\xd8" + table + direct + other + frame + scan + data + b"\xff\xd9"


def parts(image: np.ndarray, rows: int, columns: int, tiled: bool) -> Iterator[np.ndarray]:
    height, width = image.shape[:2]
    for y in range(0, height, rows):
        for x in range(0, width, columns):
            part = image[y : y + rows, x : x + columns]
            if tiled:
                more = ((0, rows - part.shape[0]), (0, columns - part.shape[1]), *([(0, 0)] * (image.ndim - 2)))
                part = np.pad(part, more, mode="edge")
            yield np.ascontiguousarray(part)


def shared_tables(streams: list[bytes]) -> tuple[bytes, list[bytes]]:
    """The tables of all streams, which are the same, and the streams without them."""

    def segments(stream: bytes) -> Iterator[tuple[int, int]]:
        at = 2
        while stream[at + 1] != 0xDA:
            size = int.from_bytes(stream[at + 2 : at + 4], "big") + 2
            yield at, at + size
            at += size

    first = streams[0]
    tables = b"".join(first[a:b] for a, b in segments(first) if first[a + 1] in (0xDB, 0xC4))
    without = []
    for stream in streams:
        kept = [(a, b) for a, b in segments(stream) if stream[a + 1] not in (0xDB, 0xC4)]
        end = max(b for _, b in segments(stream))
        without.append(stream[:2] + b"".join(stream[a:b] for a, b in kept) + stream[end:])
    return b"\xff\xd8" + tables + b"\xff\xd9", without


def files() -> Iterator[tuple[str, bytes]]:
    for size in SIZES:
        image = np.asarray(photo(size, "coffee.png"))
        width, height = size
        for sampling, factors in SAMPLINGS.items():
            for kind, rows, columns in (
                ("one strip", height, width), ("strips of 16", 16, width), ("strips of 32", 32, width),
                ("tiles of 32", 32, 32), ("tiles of 16x48", 48, 16),
            ):  # fmt: skip
                tiled = kind.startswith("tiles")
                streams = [coded(part, sampling) for part in parts(image, rows, columns, tiled)]
                tags = layout(width, height, 8, 3, YCBCR, JPEG, rows)
                tags |= {322: (4, [columns]), 323: (4, [rows])} if tiled else {}
                name = f"{width}x{height} {sampling} in {kind}"
                for big in (False, True):
                    yield f"{name}, big-endian {big}", tiff(tags | {530: (3, factors)}, streams, big)
                yield f"{name}, without the tag of its subsampling", tiff(tags, streams)
                yield f"{name}, of another subsampling by the tag", tiff(tags | {530: (3, [1, 1])}, streams)
                yield f"{name}, turned", tiff(tags | {530: (3, factors), 274: (3, [6])}, streams)
                tables, bare = shared_tables(streams)
                yield f"{name}, shared tables", tiff(tags | {530: (3, factors), 347: (7, tables)}, bare)
                # Photometric RGB: what the streams hold is taken as it is.
                yield f"{name}, called RGB", tiff(tags | {262: (3, [RGB])}, streams)


def others() -> Iterator[tuple[str, bytes]]:
    for size in SIZES:
        image = np.asarray(photo(size, "coffee.png"))
        width, height = size
        for rows, columns, tiled in ((height, width, False), (16, width, False), (32, 32, True)):
            place = {322: (4, [columns]), 323: (4, [rows])} if tiled else {}
            where = "tiles" if tiled else f"strips of {rows}"
            for progressive in (False, True):
                rgb = [
                    coded(part, "4:4:4", keep_rgb=True, progressive=progressive)
                    for part in parts(image, rows, columns, tiled)
                ]
                yield f"RGB in {where}", tiff(layout(width, height, 8, 3, RGB, JPEG, rows) | place, rgb)
            gray = np.asarray(Image.fromarray(image).convert("L"))
            one = [coded(part, "4:4:4") for part in parts(gray, rows, columns, tiled)]
            yield f"gray in {where}", tiff(layout(width, height, 8, 1, GRAY, JPEG, rows) | place, one)
            cmyk = np.asarray(Image.fromarray(image).convert("CMYK"))
            four = []
            for part in parts(cmyk, rows, columns, tiled):
                buffer = io.BytesIO()
                Image.fromarray(part, "CMYK").save(buffer, "JPEG", quality=90)
                four.append(buffer.getvalue())
            yield f"CMYK in {where}", tiff(layout(width, height, 8, 4, CMYK, JPEG, rows) | place, four)
            planes = [
                coded(part, "4:4:4")
                for channel in range(3)
                for part in parts(image[..., channel], rows, columns, tiled)
            ]
            for photometric in (RGB, YCBCR):
                tags = layout(width, height, 8, 3, photometric, JPEG, rows, planar=[2]) | place
                yield f"planes of {photometric} in {where}", tiff(tags | {530: (3, [1, 1])}, planes)
                yield f"planes of {photometric} in {where}, subsampled by the tag", tiff(tags, planes)


@pytest.mark.parametrize("cases, share", [(files, 0.7), (others, 0.6)])
def test_jpeg_in_tiff_as_pillow_reads_it(tool, cases, share):
    wrong = []
    count = readable = 0
    for name, data in cases():
        count += 1
        readable += not isinstance(by_pillow(data), Exception)
        wrong.append(compare(tool, name, data, []))
    wrong = list(filter(None, wrong))
    assert not wrong, f"{len(wrong)} of {count} differ:\n" + "\n".join(wrong[:20])
    assert readable >= share * count > 100, f"Pillow reads {readable} of {count}"
