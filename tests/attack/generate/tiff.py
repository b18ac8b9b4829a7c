"""TIFFs of one colour of any size and kind, and TIFF bombs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

from attack.generate.made import MAX_PIXELS, Made, sides
from attack.generate.streams import zlib_of

NONE, LZW, FAX4, PACKBITS, DEFLATE, ZSTD = 1, 5, 4, 32773, 8, 50000
_SHORT, _LONG = 3, 4
Tags = dict[int, list[int]]


def write(tags: Tags, data: bytes) -> bytes:
    """A little-endian TIFF of `data`, which lies at offset 8, and a directory of `tags`."""
    entries, behind = b"", b""
    start = 8 + len(data) + len(data) % 2
    past = start + 2 + 12 * len(tags) + 4
    for tag in sorted(tags):
        values = tags[tag]
        kind = _LONG if max(values) > 0xFFFF or tag in (273, 279, 324, 325) else _SHORT
        packed = struct.pack(f"<{len(values)}{'HI'[kind == _LONG]}", *values)
        if len(packed) > 4:
            where = struct.pack("<I", past + len(behind))
            behind += packed
        else:
            where = packed.ljust(4, b"\0")
        entries += struct.pack("<HHI", tag, kind, len(values)) + where
    directory = struct.pack("<H", len(tags)) + entries + bytes(4)
    return b"II*\0" + struct.pack("<I", start) + data.ljust(start - 8, b"\0") + directory + behind


def layout(
    width: int,
    height: int,
    *,
    samples: int = 1,
    bits: int = 8,
    photometric: int = 1,
    compression: int = DEFLATE,
    planes: int = 1,
    number: int = 1,
) -> Tags:
    tags = {
        256: [width],
        257: [height],
        258: [bits] * samples,
        259: [compression],
        262: [photometric],
        277: [samples],
        284: [planes],
        339: [number] * samples,
    }
    if photometric == 3:
        tags[320] = [i * 257 for i in range(256)] * 3
    if samples == 4 and photometric == 2:
        tags[338] = [2]
    return tags


def strips(tags: Tags, rows: int, data: bytes) -> bytes:
    """Strips of `rows` rows, all of which are the same bytes of the file."""
    count = -(-tags[257][0] // rows) * (tags[277][0] if tags[284][0] == 2 else 1)
    return write(tags | {273: [8] * count, 278: [rows], 279: [len(data)] * count}, data)


def tiles(tags: Tags, width: int, height: int, data: bytes) -> bytes:
    """Tiles, all of which are the same bytes of the file."""
    across, down = -(-tags[256][0] // width), -(-tags[257][0] // height)
    count = across * down * (tags[277][0] if tags[284][0] == 2 else 1)
    return write(tags | {322: [width], 323: [height], 324: [8] * count, 325: [len(data)] * count}, data)


def _packed(compression: int, size: int) -> bytes:
    """`size` zero bytes."""
    if compression == DEFLATE:
        return zlib_of([(b"\0", size)])
    if compression == PACKBITS:
        return b"\x81\0" * (size // 128 + 1)
    return bytes(size)


_LAYOUTS = {
    "gray": {},
    "gray16": {"bits": 16},
    "gray32": {"bits": 32},
    "float": {"bits": 32, "number": 3},
    "rgb": {"samples": 3, "photometric": 2},
    "rgba": {"samples": 4, "photometric": 2},
    "rgb16": {"samples": 3, "bits": 16, "photometric": 2},
    "rgba16": {"samples": 4, "bits": 16, "photometric": 2},
    "cmyk": {"samples": 4, "photometric": 5},
    "cmyk16": {"samples": 4, "bits": 16, "photometric": 5},
    "palette": {"photometric": 3},
    "bilevel": {"bits": 1},
}


def huge(random: Random, pixels: int) -> Iterator[Made]:
    """Each layout, in strips and tiles, of `pixels` black pixels, without end."""
    names = list(_LAYOUTS)
    while True:
        random.shuffle(names)
        for name in names:
            kind = _LAYOUTS[name]
            planes = random.choice((1, 2)) if kind.get("samples", 1) > 1 and kind.get("bits", 8) == 8 else 1
            compression = random.choice((DEFLATE, DEFLATE, PACKBITS))
            width, height = sides(random, pixels, 60_000)
            tags = layout(width, height, compression=compression, planes=planes, **kind)
            samples = kind.get("samples", 1) if planes == 1 else 1
            bits = samples * kind.get("bits", 8)
            how = random.choice(("one-strip", "strips", "tiles"))
            if how == "tiles":
                side = random.choice((256, 1024, 4096))
                data = tiles(tags, side, side, _packed(compression, side * (side * bits // 8)))
            else:
                rows = height if how == "one-strip" else random.choice((1, 16, 256))
                data = strips(tags, rows, _packed(compression, rows * ((width * bits + 7) // 8)))
            small = layout(3, 3, compression=NONE, **kind)
            size = 3 * ((3 * kind.get("samples", 1) * kind.get("bits", 8) + 7) // 8)
            yield Made(
                f"{width}x{height}-{name}-{compression}-{how}-{planes}.tif",
                data,
                width * height,
                2.0 + bits / 16,
                strips(small, 3, bytes(size)),
            )


def bombs(random: Random, scale: float) -> Iterator[Made]:
    """Bombs; `scale` 1 as bad as they come, less in proportion."""
    # Thin images of tall tiles: each tile has nearly as many pixels as an image may have.
    largest = MAX_PIXELS // 16 // 16 * 16
    count = max(40, round(12_500 * scale))
    data = zlib_of([(b"\0", 16 * largest)])
    yield Made("tall-tiles.tif", tiles(layout(16 * count, 1), 16, largest, data), 16 * count)
    yield Made("wide-tiles.tif", tiles(layout(1, 16 * count), largest, 16, data), 16 * count)
    planes = layout(16 * count, 1, samples=3, photometric=2, planes=2)
    yield Made("tall-tiles-planes.tif", tiles(planes, 16, largest, data), 16 * count)
    packbits = layout(16 * count, 1, compression=PACKBITS)
    yield Made(
        "tall-tiles-packbits.tif",
        tiles(packbits, 16, largest, b"\x81\0" * (16 * largest // 128 + 1)),
        16 * count,
    )
    # A tile far beyond the image, once; strips far longer than the image.
    for side in (4096, 8192):
        tags = layout(1, 1, samples=4, bits=16, photometric=2)
        yield Made(f"tile-{side}-over-a-pixel.tif", tiles(tags, side, side, zlib_of([(b"\0", side * side * 8)])))
    behind = zlib_of([(b"\0", round(random.randrange(8 << 30, 16 << 30) * scale))])
    yield Made("packed-behind-the-rows.tif", strips(layout(64, 64), 64, behind), 4096)
    rows = round(random.randrange(200_000, 2_000_000) * scale)
    yield Made("behind-every-strip.tif", strips(layout(1, rows), 1, zlib_of([(b"\0", 1 << 20)])), rows)
    yield Made("strips-of-a-row.tif", strips(layout(8, rows), 1, zlib_of([(b"\0", 8)])), rows * 8, 20.0)
    # Fax: a row that repeats the one above it is one bit.
    side = round(13_000 * scale**0.5)
    fax = layout(side, side, bits=1, compression=FAX4, photometric=0)
    yield Made("fax.tif", strips(fax, side, b"\xff" * (side // 8 + 8)), side * side, 2.0)
    fax = layout(16 * count, 1, bits=1, compression=FAX4, photometric=0)
    yield Made("tall-tiles-fax.tif", tiles(fax, 16, largest, b"\xff" * (largest // 8 + 8)), 16 * count)
    # Tags that claim more than there is.
    yield Made("many-tags.tif", write(layout(8, 8) | {40000 + i: [i] for i in range(20_000)}, b"x"))
    lie = bytearray(strips(layout(8, 8), 8, zlib_of([(b"\0", 64)])))
    at = lie.index(struct.pack("<HH", 273, _LONG)) + 4
    lie[at : at + 4] = struct.pack("<I", 0x3FFFFFFF)
    yield Made("strip-count-lies.tif", bytes(lie))
    sixteen = (1 << 24) + 1
    yield Made("too-wide.tif", strips(layout(sixteen, 10), 10, zlib_of([(b"\0", sixteen * 10)])))
