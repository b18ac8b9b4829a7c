"""Damaged images: good ones of every kind with bits flipped, parts moved, lengths that lie, and splices."""

from __future__ import annotations

import functools
import pathlib
import struct
import sys
import zlib
from random import Random

# Over a thousand images of every supported kind, made for the tests of pixels.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "image"))

_INTERESTING = (
    0,
    1,
    2,
    7,
    8,
    16,
    127,
    128,
    255,
    256,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
)


@functools.cache
def originals(kind: str) -> list[tuple[str, bytes]]:
    """(name, bytes) of good images of one format."""
    import image_cases

    if kind == "dng":
        return _raw()
    if kind in OTHERS:
        return [(path.name, path.read_bytes()) for path in sorted(_ENCODED.glob(f"*.{kind}"))]
    cases = [(name, data) for name, data in image_cases.all_cases()[kind]() if len(data) < 120_000]
    return cases + _of_model_size(kind)


FORMATS = ("jpeg", "png", "webp", "gif", "bmp", "tiff")
# Those whose pixels are not Pillow's to the bit, or not of what Pillow takes for the image.
OTHERS = ("heic", "avif", "dng")


# HEIC and AVIF that tests/image/heif_files.py has made, with grids and 10 bits. They are kept, because each release of
# their encoders writes other bytes.
_ENCODED = pathlib.Path(__file__).resolve().parents[1] / "originals"


def _raw() -> list[tuple[str, bytes]]:
    import camera_files
    import image_cases

    made = []
    for size in ((64, 64), (33, 17), (1, 1)):
        photo = image_cases.photo(size, "coffee.png")
        jpeg = image_cases.encode(photo, "JPEG")
        made += [camera_files.dng(jpeg, size), camera_files.cr2(jpeg, size, jpeg)]
        made += [camera_files.dng(jpeg, size, 6, more=[(jpeg, *size)]), camera_files.nef(jpeg, bytes(576))]
    return [(f"{number}.dng", data) for number, data in enumerate(made)]


def _of_model_size(kind: str) -> list[tuple[str, bytes]]:
    """Images that the tiny model takes without a resize, so that every pixel is compared."""
    import image_cases

    photo = image_cases.photo((64, 64), "coffee.png")
    variants = {
        "jpeg": [{"subsampling": s, "progressive": p} for s in (0, 1, 2) for p in (False, True)],
        "png": [{"compress_level": level} for level in (0, 6)],
        "webp": [{"lossless": lossless} for lossless in (False, True)],
        "gif": [{"interlace": interlace} for interlace in (0, 1)],
        "bmp": [{}],
        "tiff": [{"compression": c} for c in ("raw", "tiff_lzw", "packbits", "tiff_adobe_deflate", "jpeg")],
    }[kind]
    return [
        (f"64x64-{i}.{kind}", image_cases.encode(photo, kind.upper(), **options)) for i, options in enumerate(variants)
    ]


def mutant(random: Random) -> tuple[str, bytes]:
    """(name, bytes) of a damaged image."""
    kind = random.choice(FORMATS + OTHERS)
    name, data = random.choice(originals(kind))
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        data = random.choice(_MUTATIONS)(random, kind, data) or data[:1]
    return f"mutant-of-{name}", _with_checksums(data) if kind == "png" and random.random() < 0.8 else data


def _place(random: Random, data: bytes) -> int:
    """Somewhere in the bytes, more often near the start."""
    return int(len(data) * random.random() ** random.choice((1, 1, 3)))


def _flip(random: Random, _: str, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        out[_place(random, data)] ^= 1 << random.randrange(8)
    return bytes(out)


def _number(random: Random, _: str, data: bytes) -> bytes:
    """A length, size or offset that lies."""
    at = _place(random, data)
    width, order = random.choice((1, 2, 2, 4, 4)), random.choice("<>")
    value = random.choice(_INTERESTING)
    if random.random() < 0.5 and at + width <= len(data):
        old = int.from_bytes(data[at : at + width], "little" if order == "<" else "big")
        value = old + random.choice((-1, 1, -8, 8, old))
    packed = struct.pack(f"{order}{' BH I'[width]}", value & (1 << 8 * width) - 1)
    return data[:at] + packed + data[at + width :]


def _cut(random: Random, _: str, data: bytes) -> bytes:
    return data[: _place(random, data)]


def _remove(random: Random, _: str, data: bytes) -> bytes:
    at = _place(random, data)
    return data[:at] + data[at + random.choice((1, 2, 4, 64, 1024)) :]


def _insert(random: Random, _: str, data: bytes) -> bytes:
    at = _place(random, data)
    return data[:at] + random.randbytes(random.choice((1, 2, 4, 64, 1024))) + data[at:]


def _duplicate(random: Random, _: str, data: bytes) -> bytes:
    at = _place(random, data)
    end = min(len(data), at + random.choice((4, 64, 1024, 65536)))
    return data[:end] + data[at:end] + data[end:]


def _splice(random: Random, kind: str, data: bytes) -> bytes:
    other = random.choice(originals(kind if random.random() < 0.8 else random.choice(FORMATS)))[1]
    return data[: _place(random, data)] + other[_place(random, other) :]


def _parts(kind: str, data: bytes) -> list[bytes]:
    """Chunks or segments, as far as they can be told apart; the last one holds the rest."""
    parts, at = [], 0
    heads = {"png": 8, "jpeg": 2, "webp": 12}
    if kind not in heads or len(data) < heads[kind]:
        return [data]
    parts.append(data[: heads[kind]])
    at = heads[kind]
    while at + 12 <= len(data):
        if kind == "png":
            size = 12 + int.from_bytes(data[at : at + 4], "big")
        elif kind == "webp":
            size = 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            size += size % 2
        elif data[at] == 0xFF and data[at + 1] != 0xDA:
            size = 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        else:
            break
        parts.append(data[at : at + size])
        at += size
    return [*parts, data[at:]]


def _rearrange(random: Random, kind: str, data: bytes) -> bytes:
    """A part twice, in another place, left out, or from another image."""
    parts = _parts(kind, data)
    if len(parts) < 4:
        return _duplicate(random, kind, data)
    at, to = random.randrange(1, len(parts)), random.randrange(1, len(parts))
    how = random.randrange(4)
    if how == 0:
        parts.insert(to, parts[at])
    elif how == 1:
        parts.insert(to, parts.pop(at))
    elif how == 2:
        parts.pop(at)
    else:
        parts.insert(to, random.choice(_parts(kind, random.choice(originals(kind))[1])))
    return b"".join(parts)


_MUTATIONS = (
    _flip,
    _flip,
    _number,
    _number,
    _number,
    _cut,
    _remove,
    _insert,
    _duplicate,
    _splice,
    _rearrange,
    _rearrange,
)


def _with_checksums(data: bytes) -> bytes:
    """A PNG's chunks with right checksums, so that what is wrong in them is looked at."""
    parts = _parts("png", data)
    if len(parts) < 3:
        return data
    fixed = [part[:-4] + struct.pack(">I", zlib.crc32(part[4:-4])) if len(part) >= 12 else part for part in parts[1:-1]]
    return b"".join([parts[0], *fixed, parts[-1]])
