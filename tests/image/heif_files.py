"""HEIF files made by hand around images that pillow-heif has coded: grids, and boxes that lie."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, field

import pillow_heif
from PIL import Image

pillow_heif.register_heif_opener()


def heic(image: Image.Image, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "HEIF", **{"quality": 90, **options})
    return buffer.getvalue()


def deep_heic(image: Image.Image, bits: int, **options) -> bytes:
    """With 10 or 12 bits per sample."""
    pillow_heif.options.SAVE_HDR_TO_12_BIT = bits == 12
    samples = b"".join(struct.pack("<H", value * 257) for value in image.tobytes())
    buffer = io.BytesIO()
    pillow_heif.from_bytes(mode="RGB;16", size=image.size, data=samples).save(buffer, **{"quality": 90, **options})
    return buffer.getvalue()


def avif(image: Image.Image, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "AVIF", **{"quality": 90, "speed": 10, **options})
    return buffer.getvalue()


def boxes(data: bytes) -> list[tuple[bytes, bytes]]:
    """(type, content) of boxes in sequence."""
    found, at = [], 0
    while at + 8 <= len(data):
        size = struct.unpack_from(">I", data, at)[0] or len(data) - at
        found.append((data[at + 4 : at + 8], data[at + 8 : at + size]))
        at += size
    return found


def box(name: bytes, *content: bytes) -> bytes:
    data = b"".join(content)
    return struct.pack(">I", 8 + len(data)) + name + data


def full(name: bytes, *content: bytes) -> bytes:
    return box(name, bytes(4), *content)


def coded(image: Image.Image) -> tuple[bytes, bytes]:
    """(the content of hvcC, the data) of an image in HEVC."""
    top = dict(boxes(heic(image, chroma=444)))
    meta = dict(boxes(top[b"meta"][4:]))
    properties = dict(boxes(dict(boxes(meta[b"iprp"]))[b"ipco"]))
    return properties[b"hvcC"], top[b"mdat"]


@dataclass
class Item:
    """What a file describes; without data it has no place either."""

    kind: bytes
    data: bytes = b""
    properties: list[int] = field(default_factory=list)  # the numbers of some, from 1 on
    in_idat: bool = False


def described(*content: bytes) -> bytes:
    """A file of a description that these boxes make up."""
    return box(b"ftyp", b"heic", bytes(4), b"mif1heic") + full(b"meta", *content)


def info(number: int, kind: bytes) -> bytes:
    return box(b"infe", b"\2\0\0\0", struct.pack(">HH", number, 0), kind, b"\0")


def heif(
    items: dict[int, Item], properties: list[bytes], references: list[tuple[bytes, int, list[int]]],
    extra: bytes = b"",
) -> bytes:  # fmt: skip
    """A file of these items, the first of which is the primary one, with `extra` boxes in its description."""
    outside = b"".join(item.data for item in items.values() if not item.in_idat)

    def description(place: int) -> bytes:
        places, idat = b"", b""
        for number, item in items.items():
            at = len(idat) if item.in_idat else place
            places += struct.pack(">HHHH", number, item.in_idat, 0, bool(item.data))
            if item.data:
                places += struct.pack(">II", at, len(item.data))
            if item.in_idat:
                idat += item.data
            else:
                place += len(item.data)
        return described(
            full(b"hdlr", bytes(4), b"pict", bytes(13)),
            full(b"pitm", struct.pack(">H", next(iter(items)))),
            full(b"iinf", struct.pack(">H", len(items)), *(info(n, item.kind) for n, item in items.items())),
            full(
                b"iref",
                *(box(kind, struct.pack(f">HH{len(to)}H", number, len(to), *to)) for kind, number, to in references),
            ),
            box(
                b"iprp",
                box(b"ipco", *properties),
                full(
                    b"ipma",
                    struct.pack(">I", len(items)),
                    *(
                        struct.pack(">HB", number, len(item.properties)) + bytes(item.properties)
                        for number, item in items.items()
                    ),
                ),
            ),
            box(b"iloc", b"\1\0\0\0", b"\x44\0", struct.pack(">H", len(items)), places),
            box(b"idat", idat),
            extra,
        )

    return description(len(description(0)) + 8) + box(b"mdat", outside)


def grid(
    tile: Image.Image, columns: int, rows: int, references: int | None = None, kind: bytes = b"grid",
    hvcc: bytes | None = None, size: tuple[int, int] | None = None, extra: bytes = b"", alpha: bytes | None = None,
) -> bytes:  # fmt: skip
    """Tiles of one image: item 2, which item 1 puts together, as often as `references` says.

    With `alpha` item 3 is alpha of item 2, of the same data and with this hvcC.
    """
    found, data = coded(tile)
    width, height = size or (tile.width * columns, tile.height * rows)
    count = columns * rows if references is None else references
    layout = struct.pack(">BBBBHH", 0, 0, rows - 1, columns - 1, width, height)
    items = {1: Item(kind, layout, [1], in_idat=True), 2: Item(b"hvc1", data, [2, 0x83])}
    properties = [
        *(full(b"ispe", struct.pack(">II", *sides)) for sides in ((width, height), tile.size)),
        box(b"hvcC", found if hvcc is None else hvcc),
    ]
    uses = [(b"dimg", 1, [2] * count)]
    if alpha is not None:
        items[3] = Item(b"hvc1", data, [2, 0x84, 0x85])
        properties += [box(b"hvcC", alpha), full(b"auxC", b"urn:mpeg:hevc:2015:auxid:1\0")]
        uses.append((b"auxl", 3, [2]))
    return heif(items, properties, uses, extra)


class Bits:
    """Written one after another, the most significant first."""

    def __init__(self) -> None:
        self.text = ""

    def put(self, value: int, count: int) -> None:
        self.text += f"{value:0{count}b}"

    def golomb(self, value: int) -> None:
        digits = f"{value + 1:b}"
        self.text += "0" * (len(digits) - 1) + digits

    def bytes(self) -> bytes:
        text = self.text + "1"
        text += "0" * (-len(text) % 8)
        return int(text, 2).to_bytes(len(text) // 8, "big")


def parameter_set(width: int, height: int) -> bytes:
    """The start of a sequence parameter set of HEVC, as one NAL unit."""
    bits = Bits()
    bits.put(0, 4 + 3 + 1)
    bits.put((1 << 95) | (1 << 40), 96)  # no bytes that need to be kept apart
    for value in (0, 1, width, height, 0, 0, 0):
        bits.golomb(value)
    plain = b"\x42\x01" + bits.bytes()
    kept = bytearray()
    for byte in plain:
        if kept[-2:] == b"\0\0" and byte <= 3:
            kept.append(3)
        kept.append(byte)
    return bytes(kept)


def hvcc_with(hvcc: bytes, unit: bytes) -> bytes:
    """The same configuration with one more array, of this unit."""
    return hvcc[:22] + bytes([hvcc[22] + 1]) + b"\x21\0\1" + struct.pack(">H", len(unit)) + unit + hvcc[23:]
