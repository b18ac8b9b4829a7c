"""HEIF files made by hand around images that pillow-heif has coded: grids, and boxes that lie."""

from __future__ import annotations

import io
import struct

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
    pillow_heif.from_bytes(mode="RGB;16", size=image.size, data=samples).save(
        buffer, **{"quality": 90, **options}
    )
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


def grid(
    tile: Image.Image, columns: int, rows: int, references: int | None = None, kind: bytes = b"grid",
    hvcc: bytes | None = None, size: tuple[int, int] | None = None,
) -> bytes:  # fmt: skip
    """Tiles of one image: item 2, which item 1 puts together, as often as `references` says."""
    found, data = coded(tile)
    hvcc = found if hvcc is None else hvcc
    width, height = size or (tile.width * columns, tile.height * rows)
    count = columns * rows if references is None else references
    payload = struct.pack(">BBBBHH", 0, 0, rows - 1, columns - 1, width, height)

    def info(number: int, name: bytes) -> bytes:
        return box(b"infe", b"\2\0\0\0", struct.pack(">HH", number, 0), name, b"\0")

    def ispe(*sides: int) -> bytes:
        return full(b"ispe", struct.pack(">II", *sides))

    def meta(place: int) -> bytes:
        location = struct.pack(">HHHHII", 1, 1, 0, 1, 0, len(payload))  # in idat
        location += struct.pack(">HHHHII", 2, 0, 0, 1, place, len(data))
        return full(
            b"meta",
            full(b"hdlr", bytes(4), b"pict", bytes(13)),
            full(b"pitm", struct.pack(">H", 1)),
            full(b"iinf", struct.pack(">H", 2), info(1, kind), info(2, b"hvc1")),
            full(b"iref", box(b"dimg", struct.pack(">HH", 1, count), struct.pack(">H", 2) * count)),
            box(
                b"iprp",
                box(b"ipco", ispe(width, height), ispe(*tile.size), box(b"hvcC", hvcc)),
                full(b"ipma", struct.pack(">I", 2), bytes([0, 1, 1, 1]), bytes([0, 2, 2, 2, 0x83])),
            ),
            box(b"iloc", b"\1\0\0\0", b"\x44\0", struct.pack(">H", 2), location),
            box(b"idat", payload),
        )

    head = box(b"ftyp", b"heic", bytes(4), b"mif1heic")
    return head + meta(len(head) + len(meta(0)) + 8) + box(b"mdat", data)


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
