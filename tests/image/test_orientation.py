"""The orientation tag stored in every type, in both byte orders and in every container, against the installed
Pillow."""

from __future__ import annotations

import io
import itertools
import random
import struct
from collections.abc import Iterator

import pytest
from bombs import chunk
from image_cases import photo
from test_pixels import by_pillow, compare, tool  # noqa: F401

ORIENTATION, XMP = 274, 700
WIDTH, HEIGHT = 7, 5
#: (type, its letter of struct): the numbers; bytes and text are below.
NUMBERS = {3: "H", 4: "I", 6: "b", 8: "h", 9: "i", 11: "f", 12: "d", 13: "I", 16: "Q"}
Entry = tuple[int, int, int, bytes]  # tag, type, count, payload
SPOKEN = b'<x:xmpmeta><rdf tiff:Orientation="3"/></x:xmpmeta>'


def directory(order: str, entries: list[Entry], big: bool = False, pixels: bytes = b"", start: bytes = b"") -> bytes:
    """A TIFF with these entries in this order, whose data follow the directory; the pixels lie before it."""
    word, letter = (8, "Q") if big else (4, "I")
    head = start or {"<": b"II", ">": b"MM"}[order] + struct.pack(order + "H", 43 if big else 42)
    at = (16 if big else 8) + len(pixels)
    head += struct.pack(order + "HHQ", 8, 0, at) if big else struct.pack(order + "I", at)
    body = struct.pack(order + ("Q" if big else "H"), len(entries))
    after = at + len(body) + len(entries) * (4 + 2 * word) + word
    more = b""
    for tag, kind, count, payload in entries:
        body += struct.pack(f"{order}HH{letter}", tag, kind, count)
        if len(payload) <= word:
            body += payload.ljust(word, b"\0")
        else:
            body += struct.pack(order + letter, after + len(more))
            more += payload
    return head + pixels + body + bytes(word) + more


def values(order: str) -> Iterator[tuple[str, list[Entry]]]:
    """What a file can say of its orientation."""

    def entry(kind: int, count: int, payload: bytes) -> Entry:
        return (ORIENTATION, kind, count, payload)

    for kind, letter in NUMBERS.items():
        for value in (0, 1, 2, 5, 6, 8, 9, 100):
            yield f"type {kind} of {value}", [entry(kind, 1, struct.pack(order + letter, value))]
        for count in (0, 2, 3):
            yield (
                f"type {kind}, {count} times",
                [entry(kind, count, struct.pack(f"{order}{count}{letter}", *([6] * count)))],
            )
        yield f"type {kind}, first of two", [entry(kind, 2, struct.pack(f"{order}2{letter}", 8, 1))]
        if letter in "bhi":
            yield f"type {kind} of -6", [entry(kind, 1, struct.pack(order + letter, -6))]
        if letter in "fd":
            for value in (5.5, 6.0000005, -6.0, float("nan"), float("inf")):
                yield f"type {kind} of {value}", [entry(kind, 1, struct.pack(order + letter, value))]
    for kind, letter in ((5, "I"), (10, "i")):
        for parts in ((6, 1), (12, 2), (13, 2), (6, 0), (0, 6), (0, 0), (2**31 - 1, 2**31 - 2)):
            yield f"type {kind} of {parts}", [entry(kind, 1, struct.pack(f"{order}2{letter}", *parts))]
        yield f"type {kind}, twice", [entry(kind, 2, struct.pack(f"{order}4{letter}", 8, 1, 1, 1))]
    yield "type 10 of -12/-2", [entry(10, 1, struct.pack(order + "2i", -12, -2))]
    for kind in (1, 2, 7):
        for payload in (b"\6", b"6", b"6\0", b"\6\0\0\0", b"\0\6", b"6" * 9):
            yield f"type {kind} of {payload!r}", [entry(kind, len(payload), payload)]
    for kind in (0, 14, 15, 17, 18, 99, 65535):  # passed over, so that the next one counts
        yield f"type {kind}", [entry(kind, 1, b"\6\0\0\0")]
        yield f"type {kind} before SHORT", [entry(kind, 1, b"\6\0\0\0"), entry(3, 1, struct.pack(order + "H", 8))]
    six, eight = (entry(3, 1, struct.pack(order + "H", value)) for value in (6, 8))
    yield "two entries", [six, eight]
    yield "two entries, the first without values", [entry(3, 0, b""), eight]
    yield "two entries, the first of bytes", [entry(1, 1, b"\3"), eight]
    yield "too many values", [entry(3, 2**31, b"\6\0\0\0")]
    yield "data behind the end", [entry(3, 3, struct.pack(order + "I", 2**31))]
    # What comes before it in the directory: data behind the end, longer than the file, and together so.
    lost = (270, 2, 9, struct.pack(order + "I", 2**31 - 1))
    yield "after data that are not there", [lost, six]
    yield "before data that are not there", [six, lost]
    yield "after data longer than the file", [(270, 2, 2**20, bytes(4)), six]
    yield (
        "after data longer than the file, in two values",
        [(270, 2, 2**20, bytes(4)), entry(3, 4, struct.pack(order + "4H", 6, 1, 1, 1))],
    )
    shared = [(300 + tag, 7, 60, struct.pack(order + "I", 0)) for tag in range(9)]
    yield "after data that share bytes", [*shared, entry(3, 4, struct.pack(order + "4H", 6, 1, 1, 1))]
    yield "after one tag again and again", [*([shared[0]] * 9), entry(3, 4, struct.pack(order + "4H", 6, 1, 1, 1))]
    yield "no entry", []


def blocks() -> Iterator[tuple[str, bytes]]:
    """EXIF, as containers hold it."""
    for order in "<>":
        for name, entries in values(order):
            yield f"{name} {order}", directory(order, entries)
    six = [(ORIENTATION, 3, 1, b"\6\0\6\0")]
    for start in (b"MM*\0", b"II\0*", b"MM\0+", b"II+\0", b"II*\1", b"IIII"):
        yield f"beginning with {start!r}", directory("<" if start[:2] == b"II" else ">", six, start=start)
    whole = directory("<", six)
    for prefix in (b"Exif\0\0", b"Exif\0\0" * 2):
        yield f"{len(prefix)} bytes before it", prefix + whole
    for cut in (*range(len(whole) + 1), len(whole) - 5):
        yield f"cut at {cut}", whole[:cut]
    choose = random.Random(3)
    for seed in range(150):  # every byte may lie
        broken = bytearray(directory(choose.choice("<>"), [(270, 2, 9, b"nine text"), *six, (282, 5, 1, bytes(8))]))
        for _ in range(choose.randint(1, 3)):
            broken[choose.randrange(4, len(broken))] = choose.choice((0, 1, 2, 3, 6, 8, 255, choose.randrange(256)))
        yield f"damaged {seed}", bytes(broken)


PICTURE = photo((WIDTH * 4, HEIGHT * 4), "coffee.png")


def saved(kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    PICTURE.save(buffer, kind, **options)
    return buffer.getvalue()


def segment(content: bytes) -> bytes:
    return b"\xff\xe1" + struct.pack(">H", len(content) + 2) + content


def in_jpeg(exif: bytes, xmp: bytes, **options) -> bytes:
    whole = saved("JPEG", quality=95, **options)
    more = segment(b"http://ns.adobe.com/xap/1.0/\0" + xmp) if xmp else b""
    return whole[:2] + segment(b"Exif\0\0" + exif) + more + whole[2:]


def in_mpo(exif: bytes, xmp: bytes) -> bytes:
    whole = saved("MPO", save_all=True, append_images=[PICTURE])
    more = segment(b"http://ns.adobe.com/xap/1.0/\0" + xmp) if xmp else b""
    return whole[:2] + segment(b"Exif\0\0" + exif) + more + whole[2:]


def in_png(exif: bytes, xmp: bytes) -> bytes:
    whole = saved("PNG")
    more = chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp) if xmp else b""
    return whole[:33] + chunk(b"eXIf", exif) + more + whole[33:]


def in_raw_profile(exif: bytes, xmp: bytes) -> bytes:
    whole = saved("PNG")
    text = f"\nexif\n{len(exif) + 6:8}\n{(b'Exif' + bytes(2) + exif).hex()}\n".encode()
    more = chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp) if xmp else b""
    return whole[:33] + chunk(b"tEXt", b"Raw profile type exif\0" + text) + more + whole[33:]


def in_webp(exif: bytes, xmp: bytes) -> bytes:
    return saved("WEBP", lossless=True, exif=exif, xmp=xmp)


CONTAINERS = {
    "jpeg": in_jpeg,
    "jpeg with a resolution": lambda exif, xmp: in_jpeg(exif, xmp, dpi=(72, 72)),
    "mpo": in_mpo,
    "png": in_png,
    "png's profile as text": in_raw_profile,
    "webp": in_webp,
}


def judge(tool, cases: Iterator[tuple[str, bytes]]) -> int:
    """Compares all; returns how many of them Pillow turned. Pillow raises on some unreadable metadata."""
    wrong, turned = [], 0
    for name, data in cases:
        expected = by_pillow(data)
        if isinstance(expected, Exception):
            continue
        turned += expected.size == (PICTURE.height, PICTURE.width)
        wrong.append(compare(tool, name, data, []))
    assert not any(wrong), "\n".join(filter(None, wrong))
    return turned


@pytest.mark.parametrize("xmp", [b"", SPOKEN], ids=["alone", "with XMP"])
@pytest.mark.parametrize("container", list(CONTAINERS))
def test_every_type_of_the_tag_as_pillow_reads_it(tool, container, xmp):
    turned = judge(tool, ((name, CONTAINERS[container](exif, xmp)) for name, exif in blocks()))
    assert turned > 150


def pages() -> Iterator[tuple[str, bytes]]:
    pixels = PICTURE.tobytes()
    for order, big, xmp in itertools.product("<>", (False, True), (None, 1, 7)):
        if big and order == ">":  # Pillow does not read it
            continue

        def number(tag: int, value: int, kind: int = 4) -> Entry:
            return (tag, kind, 1, struct.pack(order + {3: "H", 4: "I"}[kind], value))

        for name, entries in values(order):
            if "not there" in name or "longer" in name or "share" in name or "again" in name:
                continue  # then the rest of the directory is lost, too
            layout = [
                number(256, PICTURE.width), number(257, PICTURE.height), (258, 3, 3, struct.pack(order + "3H", 8, 8, 8)),
                number(259, 1, 3), number(262, 2, 3), number(273, 16 if big else 8), *entries, number(277, 3, 3),
                number(278, PICTURE.height), number(279, len(pixels)), number(284, 1, 3),
            ]  # fmt: skip
            if xmp:
                layout.append((XMP, xmp, len(SPOKEN), SPOKEN))
            yield f"{name} {order} big {big} XMP {xmp}", directory(order, layout, big, pixels)


def test_every_type_of_the_tag_in_tiff(tool):
    assert judge(tool, pages()) > 100


def test_avif_is_turned_by_its_properties_alone(tool):
    """Pillow writes its EXIF's orientation as a property."""
    compared = 0
    for name, entries in values("<"):
        try:
            data = saved("AVIF", exif=b"Exif\0\0" + directory("<", entries))
        except (TypeError, OverflowError):  # what Pillow does not write
            continue
        expected = by_pillow(data)
        if isinstance(expected, Exception):
            continue
        tool.file.write_bytes(data)
        got = tool.ask(0, 0, 2)
        assert not isinstance(got, str), f"{name}: {got}"
        assert got[0] == expected.size, name
        compared += 1
    assert compared > 50
