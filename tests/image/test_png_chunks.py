"""Which PNGs are read, against the installed Pillow: text, profiles, metadata and frames around the pixels."""

from __future__ import annotations

import itertools
import random
import struct
import zlib
from collections.abc import Iterator

import pytest
from bombs import MIB, chunk, png, zeros
from test_pixels import by_pillow, tool  # noqa: F401

Case = tuple[str, bytes]
END = chunk(b"IEND")


def around(name: str, chunks: bytes) -> Iterator[Case]:
    yield f"{name}, before the pixels", png(before=chunks)
    yield f"{name}, after them", png(after=chunks + END)
    yield f"{name}, after them without an end", png(after=chunks)


def text_sizes() -> Iterator[Case]:
    """At the limit of a chunk, in streams that end well and badly."""
    for size in (0, 1, MIB - 1, MIB, MIB + 1, MIB + 300, 2 * MIB):
        whole = zeros(size)
        streams = {
            "whole": whole,
            "cut": whole[:-4],
            "junk after it": whole + b"junk",
            "wrong sum": whole[:-4] + b"abcd",
            "stored": zlib.compress(bytes(size), 0),
            "random": zlib.compress(random.Random(size).randbytes(size)),
            "invalid UTF-8": zlib.compress(b"\xff" * size),
            "two bytes a character": zlib.compress("é".encode() * (size // 2)),
        }
        for kind, stream in streams.items():
            for name, data in {
                "zTXt": b"k\0\0" + stream,
                "zTXt without a keyword": b"\0\0" + stream,
                "iTXt": b"k\0\1\0en\0t\0" + stream,
                "iTXt of a method unknown": b"k\0\1\7en\0t\0" + stream,
                "iCCP": b"k\0\0" + stream,
            }.items():
                yield from around(f"{name} {size} {kind}", chunk(name[:4].encode(), data))
        yield from around(f"tEXt {size}", chunk(b"tEXt", b"k\0" + bytes(size)))
        yield from around(f"iTXt {size} plain", chunk(b"iTXt", b"k\0\0\0\0\0" + bytes(size)))


def text_totals() -> Iterator[Case]:
    one = zeros(MIB, 9)
    for count in (64, 65):
        for name, data in {
            "zTXt": b"k\0\0" + one,
            "zTXt without a keyword": b"\0\0" + one,
            "iTXt": b"k\0\1\0\0\0" + one,
            "iTXt of two bytes a character": b"k\0\1\0\0\0" + zlib.compress("é".encode() * (MIB // 2), 9),
            "iCCP": b"k\0\0" + one,
            "tEXt": b"k\0" + bytes(MIB),
        }.items():
            yield from around(f"{count} {name}", chunk(name[:4].encode(), data) * count)


def most_text() -> Iterator[Case]:
    full = chunk(b"tEXt", b"k\0" + bytes(MIB)) * 63 + chunk(b"tEXt", b"k\0" + bytes(MIB - 1))
    yield from around("64 MiB of text", full + chunk(b"tEXt", b"k\0a"))
    yield from around("64 MiB of text and a byte", full + chunk(b"tEXt", b"k\0aa"))


def shapes() -> Iterator[Case]:
    """Chunks of every length and wrong sums, in images of every colour type, and cut short at the end."""
    names = (b"tEXt zTXt iTXt iCCP gAMA cHRM sRGB pHYs tRNS acTL fcTL fdAT tIME bKGD sBIT hIST sPLT prVt IHDR").split()
    for name in names:
        for length, fill in itertools.product((0, 1, 2, 4, 6, 8, 9, 12, 13, 26, 32, 40), (b"\0", b"\1", b"a")):
            yield from around(f"{name} {length} {fill}", chunk(name, fill * length))
        yield from around(f"{name} with a wrong sum", chunk(name, bytes(40), checksum=1))
        for color, length in itertools.product((0, 2, 3, 4, 6), (0, 1, 2, 5, 6)):
            if name != b"IHDR":
                yield f"{name} {length} colour {color}", png(color=color, before=chunk(name, bytes(length)))
        whole = chunk(name, bytes(40))
        for cut in (1, 4, 7, 8, 12, 47, 48, 51):
            yield f"{name} cut at {cut}", png(after=whole[:cut])
    for method in range(0, 256, 15):
        data = b"k\0" + bytes([method]) + zeros(5)
        yield from around(f"method {method}", chunk(b"zTXt", data) + chunk(b"iCCP", data))


def metadata() -> Iterator[Case]:
    """Every kind of orientation, in every order."""

    def tags(value: int) -> bytes:
        return b"II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0" + bytes([value, 0, 0, 0]) + bytes(4)

    def raw(value: int) -> bytes:
        return b"\nexif\n   8\n" + (b"Exif\0\0" + tags(value)).hex().encode() + b"\n"

    def xmp(value: int) -> bytes:
        return b'<x tiff:Orientation="%d"/>' % value

    key, raw_key = b"XML:com.adobe.xmp\0", b"Raw profile type exif\0"
    parts = [
        chunk(b"eXIf", tags(6)), chunk(b"eXIf", tags(8)), chunk(b"eXIf"), chunk(b"tEXt", b"exif\0" + tags(3)),
        chunk(b"tEXt", raw_key + raw(5)), chunk(b"zTXt", raw_key + b"\0" + zlib.compress(raw(7))),
        chunk(b"iTXt", raw_key + b"\0\0\0\0" + raw(2)), chunk(b"iTXt", key + b"\0\0\0\0" + xmp(6)),
        chunk(b"iTXt", key + b"\1\0\0\0" + zlib.compress(xmp(4))), chunk(b"tEXt", key + xmp(3)),
        chunk(b"iTXt", key + b"\0\0\0\0\xff" + xmp(8)), chunk(b"iTXt", key + b"\0\0\xff\0\0" + xmp(5)),
        chunk(b"iTXt", key + b"\0\0\0\0"), chunk(b"zTXt", key + b"\0" + zlib.compress(xmp(2))),
    ]  # fmt: skip
    random_ = random.Random(1)
    for index in range(600):
        some = random_.sample(parts, random_.randint(1, 4))
        split = random_.randint(0, len(some))
        yield f"metadata {index}", png(before=b"".join(some[:split]), after=b"".join(some[split:]) + END)


def frames() -> Iterator[Case]:
    def count(frames: int) -> bytes:
        return chunk(b"acTL", struct.pack(">II", frames, 0))

    def control(number: int, width: int = 2, height: int = 3) -> bytes:
        return chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, width, height, 0, 0, 1, 1, 0, 0))

    def data(number: int) -> bytes:
        return chunk(b"fdAT", struct.pack(">I", number) + b"xx")

    parts = [
        count(0), count(1), count(2), count(0x80000000), count(0x80000001), control(0), control(1), control(2),
        control(0, 3), data(0), data(1), data(2), data(3), chunk(b"fdAT", b"\0\0"), chunk(b"tEXt", b"a"),
        chunk(b"zTXt", b"k\0\0" + zeros(2 * MIB)),
    ]  # fmt: skip
    random_ = random.Random(2)
    for index in range(1000):
        some = random_.choices(parts, k=random_.randint(1, 5))
        split = random_.randint(0, len(some))
        yield f"frames {index}", png(before=b"".join(some[:split]), after=b"".join(some[split:]) + END)


@pytest.mark.parametrize(
    "cases", [text_sizes, pytest.param(text_totals, marks=pytest.mark.nightly), most_text, shapes, metadata, frames]
)
def test_what_pillow_reads_is_read_and_nothing_else(tool, cases):
    wrong = []
    for name, data in cases():
        expected = by_pillow(data)
        tool.file.write_bytes(data)
        got = tool.ask(0, 0, 2)
        if isinstance(expected, Exception):
            if not isinstance(got, str):
                wrong.append(f"{name}: read, where Pillow says {expected!r}")
        elif isinstance(got, str):
            wrong.append(f"{name}: {got}")
        elif got != (expected.size, expected.tobytes()):
            wrong.append(f"{name}: other pixels, or turned another way")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:20])
