"""Cameras' raw images made by hand: a sensor's samples, and previews beside them."""

from __future__ import annotations

import struct

SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1, 10: 8}
FORMATS = {1: "B", 2: "B", 3: "H", 4: "I", 7: "B"}


class Directory:
    """A directory of a TIFF. Values are numbers, bytes, other directories, or blocks of data."""

    def __init__(self, entries: dict[int, tuple[int, object]]):
        self.entries = entries


class Data(bytes):
    """Bytes of which the file holds the place."""


def tiff(directories: list[Directory], order: str = "<", head: bytes = b"") -> bytes:
    """A file of these directories, one after another, with `head` between the header and them."""
    magic = b"II*\0" if order == "<" else b"MM\0*"
    out = bytearray(magic + struct.pack(order + "I", 8 + len(head)) + head)

    def pad() -> None:
        out.extend(b"\0" * (len(out) % 2))

    def write(directory: Directory) -> tuple[int, int]:
        """Where it begins, and where the place of the next one is."""
        pad()
        start, count = len(out), len(directory.entries)
        out.extend(struct.pack(order + "H", count) + bytes(12 * count + 4))
        for index, (tag, (kind, value)) in enumerate(sorted(directory.entries.items())):
            if isinstance(value, Directory):
                value = [write(value)[0]]
            elif isinstance(value, list) and value and isinstance(value[0], Directory):
                value = [write(child)[0] for child in value]
            elif isinstance(value, Data):
                pad()
                place = len(out)
                out.extend(value)
                value = [place]
            elif not isinstance(value, (bytes, list)):
                value = [value]
            packed = (
                bytes(value) if isinstance(value, bytes) else struct.pack(f"{order}{len(value)}{FORMATS[kind]}", *value)
            )
            number = len(packed) // SIZES[kind]
            if len(packed) > 4:
                pad()
                place = len(out)
                out.extend(packed)
                packed = struct.pack(order + "I", place)
            at = start + 2 + 12 * index
            out[at : at + 12] = struct.pack(order + "HHI", tag, kind, number) + packed.ljust(4, b"\0")
        return start, start + 2 + 12 * count

    link = 4
    for directory in directories:
        start, next_link = write(directory)
        out[link : link + 4] = struct.pack(order + "I", start)
        link = next_link
    return bytes(out)


def sensor(width: int, height: int) -> Directory:
    """The samples of a sensor, 16 bits each, uncompressed."""
    samples = bytes(range(256)) * (width * height * 2 // 256 + 1)
    return Directory({
        254: (4, 0), 256: (4, width), 257: (4, height), 258: (3, 16), 259: (3, 1), 262: (3, 32803),
        273: (4, Data(samples[: width * height * 2])), 277: (3, 1), 278: (4, height),
        279: (4, width * height * 2), 33421: (3, [2, 2]), 33422: (1, bytes([0, 1, 1, 2])),
    })  # fmt: skip


def jpeg_preview(jpeg: bytes, width: int, height: int) -> dict:
    return {
        254: (4, 1), 256: (4, width), 257: (4, height), 258: (3, [8, 8, 8]), 259: (3, 7), 262: (3, 6),
        273: (4, Data(jpeg)), 277: (3, 3), 278: (4, height), 279: (4, len(jpeg)),
    }  # fmt: skip


def dng(jpeg: bytes, size: tuple[int, int], orientation: int = 1, order: str = "<", more: list = ()) -> bytes:
    """Its preview in the first directory, the sensor's samples in one below it."""
    children = [sensor(64, 48), *(Directory(jpeg_preview(*preview)) for preview in more)]
    return tiff([Directory(jpeg_preview(jpeg, *size) | {
        271: (2, b"Fovea\0"), 272: (2, b"Test\0"), 274: (3, orientation), 330: (4, children),
        50706: (1, bytes([1, 4, 0, 0])), 50708: (2, b"Fovea Test\0"),
    })], order)  # fmt: skip


def dng_of_bitmap(rgb: bytes, size: tuple[int, int], orientation: int = 1) -> bytes:
    """With a preview that is not compressed."""
    width, height = size
    return tiff([Directory({
        254: (4, 1), 256: (4, width), 257: (4, height), 258: (3, [8, 8, 8]), 259: (3, 1), 262: (3, 2),
        273: (4, Data(rgb)), 277: (3, 3), 278: (4, height), 279: (4, len(rgb)),
        271: (2, b"Fovea\0"), 272: (2, b"Test\0"), 274: (3, orientation), 330: (4, [sensor(64, 48)]),
        50706: (1, bytes([1, 4, 0, 0])),
    })])  # fmt: skip


def nef(jpeg: bytes, thumbnail: bytes, orientation: int = 1) -> bytes:
    """As Nikon's: a small bitmap in the first directory, which is all that a reader of TIFFs finds."""
    return tiff([Directory({
        254: (4, 1), 256: (4, 16), 257: (4, 12), 258: (3, [8, 8, 8]), 259: (3, 1), 262: (3, 2),
        271: (2, b"NIKON CORPORATION\0"), 272: (2, b"NIKON D90\0"), 274: (3, orientation),
        273: (4, Data(thumbnail)), 277: (3, 3), 278: (4, 12), 279: (4, len(thumbnail)),
        330: (4, [Directory({254: (4, 1), 259: (3, 6), 513: (4, Data(jpeg)), 514: (4, len(jpeg))}),
                  sensor(64, 48)]),
    })], ">")  # fmt: skip


def lossless_jpeg(width: int, height: int) -> bytes:
    """The headers of one, of two samples of 14 bits for a pair of pixels; and no samples."""

    def segment(marker: int, data: bytes) -> bytes:
        return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data

    codes = bytes([0, 0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]) + bytes(range(12))
    frame = struct.pack(">BHHB", 14, height, width // 2, 2) + bytes([1, 17, 0, 2, 17, 0])
    scan = bytes([2, 1, 0, 2, 0, 1, 0, 0])
    return b"\xff\xd8" + segment(0xC4, codes) + segment(0xC3, frame) + segment(0xDA, scan) + bytes(64) + b"\xff\xd9"


def cr2(jpeg: bytes, size: tuple[int, int], small: bytes, orientation: int = 1) -> bytes:
    """As Canon's: the preview, a thumbnail, and the sensor's samples."""
    raw = lossless_jpeg(3944, 2622)
    first = Directory({
        256: (3, size[0]), 257: (3, size[1]), 258: (3, [8, 8, 8]), 259: (3, 6), 271: (2, b"Canon\0"),
        272: (2, b"Canon EOS 40D\0"), 273: (4, Data(jpeg)), 274: (3, orientation), 279: (4, len(jpeg)),
    })  # fmt: skip
    thumbnail = Directory({513: (4, Data(small)), 514: (4, len(small))})
    samples = Directory({259: (3, 6), 273: (4, Data(raw)), 279: (4, len(raw))})
    return tiff([first, thumbnail, samples], head=b"CR\2\0" + bytes(4))
