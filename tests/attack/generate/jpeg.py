"""JPEGs of one colour of any size, written by hand in a bit or two a block, and JPEG bombs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

from attack.generate.made import Made, sides

_LEVEL = 10  # category of the one difference of each component that is not zero
SOF_BASELINE, SOF_PROGRESSIVE, SOF_ARITHMETIC, SOF_ARITHMETIC_PROGRESSIVE = 0xC0, 0xC2, 0xC9, 0xCA


def segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def _huffman(table: int, symbols: list[int]) -> bytes:
    """Symbol number i has the code of i ones and a zero."""
    counts = bytes(1 if i < len(symbols) else 0 for i in range(16))
    return segment(0xC4, bytes([table]) + counts + bytes(symbols))


_RUNS = [0x00, 0xE0, 0x70, 0x40, 0x30, 0x20, 0x10]  # end of block, and of runs of 2**(symbol >> 4)
_TABLES = _huffman(0x00, [0, _LEVEL]) + _huffman(0x10, _RUNS)


def _entropy(bits: str) -> bytes:
    """`bits` padded with ones, and 0xff followed by 0x00 as JPEG wants it."""
    bits += "1" * (-len(bits) % 8)
    return int(bits or "0", 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")


def _zeros(first: str, more: int) -> bytes:
    """Entropy-coded data that begins with `first`, followed by `more` zero bits."""
    room = -len(first) % 8
    return _entropy(first + "0" * min(room, more)) + bytes(-(-max(0, more - room) // 8))


def _frame(sof: int, width: int, height: int, components: int, sampling: int) -> bytes:
    parts = b"".join(bytes([i + 1, sampling if i == 0 else 0x11, 0]) for i in range(components))
    adobe = segment(0xEE, b"Adobe\0\x64\0\0\0\0\0") if components == 4 else b""
    quantization = segment(0xDB, b"\0" + b"\1" * 64)
    return adobe + quantization + segment(sof, struct.pack(">BHHB", 8, height, width, components) + parts)


def _scan(components: list[int], first: int, last: int, approximation: int = 0) -> bytes:
    chosen = b"".join(bytes([i + 1, 0]) for i in components)
    return segment(0xDA, bytes([len(components)]) + chosen + bytes([first, last, approximation]))


def _blocks(width: int, height: int) -> int:
    return -(-width // 8) * -(-height // 8)


def baseline(width: int, height: int, components: int, levels: list[int], sampling: int = 0x11) -> bytes:
    """A baseline JPEG. `levels` (512 to 1023) are the components' differences from middle gray."""
    start = "".join("10" + f"{level:010b}" + "0" for level in levels)
    if sampling == 0x22 and components > 1:
        start = "10" + f"{levels[0]:010b}" + "0" + "00" * 3
        start += "".join("10" + f"{level:010b}" + "0" for level in levels[1:])
        units = -(-width // 16) * -(-height // 16)
        rest = (units - 1) * 2 * (3 + components)
    else:
        rest = (_blocks(width, height) - 1) * 2 * components
    return (
        b"\xff\xd8"
        + _frame(SOF_BASELINE, width, height, components, sampling)
        + _TABLES
        + b"".join((_scan(list(range(components)), 0, 63), _zeros(start, rest), b"\xff\xd9"))
    )


def _runs(blocks: int) -> bytes:
    """A scan of `blocks` blocks that are all zero, in runs of at most 32767."""
    bits = ""
    for symbol, exponent in ((1, 14), (2, 7), (3, 4), (4, 3), (5, 2), (6, 1), (0, 0)):
        code = "1" * symbol + "0"
        longest = 2 ** (exponent + 1) - 1
        while blocks >= 2**exponent:
            run = min(blocks, longest)
            bits += code + (f"{run - 2**exponent:0{exponent}b}" if exponent else "")
            blocks -= run
    return _entropy(bits)


def progressive(width: int, height: int, components: int, levels: list[int], scans: int) -> bytes:
    """A progressive JPEG: a scan of all components' levels, then `scans` scans of nothing."""
    start = "".join("10" + f"{level:010b}" for level in levels)
    blocks = _blocks(width, height)
    head = _frame(SOF_PROGRESSIVE, width, height, components, 0x11) + _TABLES
    parts = [_scan(list(range(components)), 0, 0), _zeros(start, (blocks - 1) * components)]
    nothing = [_scan([i], 1, 63) + _runs(blocks) for i in range(components)]
    rounds, rest = divmod(scans, components)
    return b"\xff\xd8" + head + b"".join(parts) + b"".join(nothing) * rounds + b"".join(nothing[:rest]) + b"\xff\xd9"


def arithmetic(width: int, height: int, components: int, scans: int) -> bytes:
    """An arithmetic progressive JPEG whose scans are empty: decoders take zeros in their place."""
    head = _frame(SOF_ARITHMETIC_PROGRESSIVE, width, height, components, 0x11)
    first = _scan(list(range(components)), 0, 0) + bytes(8)
    return b"\xff\xd8" + head + first + (_scan([0], 1, 63) + bytes(8)) * scans + b"\xff\xd9"


def huge(random: Random, pixels: int) -> Iterator[Made]:
    """Each layout, of `pixels` pixels of one colour, without end."""
    kinds = [(n, how) for n in (1, 3, 4) for how in ("444", "420", "progressive", "arithmetic")]
    while True:
        random.shuffle(kinds)
        for components, how in kinds:
            width, height = sides(random, pixels, 65_500)
            levels = [random.randrange(512, 1024) for _ in range(components)]
            scans = components * random.randrange(1, 4)

            def make(w: int, h: int, how=how, components=components, levels=levels, scans=scans) -> bytes:
                if how == "progressive":
                    return progressive(w, h, components, levels, scans)
                if how == "arithmetic":
                    return arithmetic(w, h, components, scans)
                return baseline(w, h, components, levels, 0x22 if how == "420" else 0x11)

            passes = components / 2 * (1 + scans / components if how in ("progressive", "arithmetic") else 1)
            yield Made(
                f"{width}x{height}-{components}-{how}.jpg",
                make(width, height),
                width * height,
                passes * (4 if how == "arithmetic" else 1),
                None if how == "arithmetic" else make(16, 16),
            )


def bombs(random: Random, scale: float) -> Iterator[Made]:
    """Bombs; `scale` 1 as bad as they come, less in proportion."""
    for scans in (100, 600, 3000, 20_000):
        side = random.choice((4096, 8192, 13_000)) if scale == 1 else 4096
        count = max(50, round(scans * scale))
        data = progressive(side, side, 1, [700], count)
        yield Made(f"{count}-scans-{side}.jpg", data, side * side, 2.0)
    side = round(8192 * max(scale, 0.25))
    for count in (30, 1000):
        count = round(count * max(scale, 0.25))
        yield Made(f"{count}-arithmetic-scans-{side}.jpg", arithmetic(side, side, 1, count), side * side, 4.0)
    count = round(random.randrange(50_000, 200_000) * scale)
    data = progressive(64, 64, 3, [700, 600, 512], count)
    yield Made(f"{count}-scans-64.jpg", data, 4096)
    whole = baseline(16, 16, 1, [700])
    profile = segment(0xE2, b"ICC_PROFILE\0\x01\xff" + bytes(60_000))
    exif = segment(0xE1, b"Exif\0\0II*\0\x08\0\0\0" + bytes(60_000))
    xmp = segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + b"<" * 60_000)
    for name, extra in (("profiles", profile), ("exifs", exif), ("xmps", xmp)):
        yield Made(f"{name}.jpg", whole[:2] + extra * round(400 * scale + 20) + whole[2:])
    many = round(random.randrange(300_000, 2_000_000) * scale)
    yield Made("comments.jpg", whole[:2] + segment(0xFE, b"c") * many + whole[2:])
    yield Made("tables.jpg", whole[:2] + _TABLES * (many // 20) + whole[2:])
    yield Made("fill.jpg", whole[:2] + b"\xff" * (many * 4) + whole[2:])
