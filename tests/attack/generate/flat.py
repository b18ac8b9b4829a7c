"""WebP, GIF and BMP of one colour of any size, and bombs of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

from attack.generate.made import Made, sides


def _riff(kind: bytes, data: bytes, more: bytes = b"") -> bytes:
    body = b"WEBP" + more + kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def webp_lossless(width: int, height: int, argb: tuple[int, int, int, int]) -> bytes:
    """A WebP whose codes have one symbol each, so that a pixel takes no bits."""
    alpha, red, green, blue = argb
    bits = f"{width - 1:014b}"[::-1] + f"{height - 1:014b}"[::-1] + "1" + "000"
    bits += "0" + "0" + "0"  # no transform, no colour cache, one group of codes
    for symbol in (green, red, blue, alpha):
        bits += "1" + "0" + "1" + f"{symbol:08b}"[::-1]
    bits += "1" + "0" + "0" + "0"  # distances
    packed = int(bits[::-1], 2).to_bytes(-(-len(bits) // 8), "little")
    return _riff(b"VP8L", b"\x2f" + packed)


def webp_lossy(width: int, height: int) -> bytes:
    """A key frame of zero bits: every macroblock is predicted, none has coefficients."""
    size = min(-(-width // 16) * -(-height // 16) + 4096, (1 << 19) - 1)
    tag = (size << 5 | 1 << 4).to_bytes(3, "little")
    frame = tag + b"\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return _riff(b"VP8 ", frame + bytes(size) + bytes(size))


def _lzw(pixels: int) -> list[tuple[int, int]]:
    """(code, bits) of as many zeros: each code is the one that it defines, so that lengths grow."""
    codes: list[tuple[int, int]] = []
    while pixels > 0:
        codes += [(256, codes[-1][1] if codes else 9), (0, 9)]
        pixels -= 1
        size, free = 9, 258
        while pixels > 0 and free < 4096:
            length = min(pixels, free - 256)
            codes.append((0 if length == 1 else 256 + length, size))
            pixels -= length
            free += 1
            if free == 1 << size and size < 12:
                size += 1
    return [*codes, (257, size)]


def gif(width: int, height: int, frames: int = 1, extensions: bytes = b"") -> bytes:
    """A GIF of colour 0."""
    packed, at, value = bytearray(), 0, 0
    for code, length in _lzw(width * height):
        value |= code << at
        at += length
        packed += value.to_bytes(8, "little")[: at // 8]
        value >>= at // 8 * 8
        at %= 8
    packed += value.to_bytes(2, "little")
    data = b"".join(bytes([len(packed[i : i + 255])]) + packed[i : i + 255] for i in range(0, len(packed), 255))
    frame = b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x08" + data + b"\0"
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF7, 0, 0) + bytes(range(7, 7 + 3)) * 256
    return head + extensions + frame * frames + b";"


def bmp(width: int, height: int, bits: int, run_length: bool = False) -> bytes:
    """A BMP of colour 0, as runs of 255 or as it is."""
    count = 256 if bits == 8 else 2 if bits == 1 else 0
    if run_length:
        whole, rest = divmod(width, 255)
        row = b"\xff\0" * whole + (bytes([rest]) + b"\0" if rest else b"") + b"\0\0"
        data = row * height + b"\0\1"
    else:
        data = bytes((width * bits + 31) // 32 * 4 * height)
    start = 54 + 4 * count
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, int(run_length), len(data), 0, 0, count, 0)
    table = b"\x07\x55\xaa\0" + bytes(4 * (count - 1)) if count else b""
    return b"BM" + struct.pack("<IHHI", (start + len(data)) & 0xFFFFFFFF, 0, 0, start) + info + table + data


def huge(random: Random, pixels: int) -> Iterator[Made]:
    """Each layout, of `pixels` pixels of one colour, without end."""
    kinds = ["lossless", "lossy", "gif", "rle8", "bmp1", "bmp8", "bmp24"]
    while True:
        random.shuffle(kinds)
        for kind in kinds:
            width, height = sides(random, pixels, 16_383 if kind.startswith("loss") else 65_535)
            argb = tuple(random.randrange(256) for _ in range(4))

            def make(w: int, h: int, kind=kind, argb=argb) -> bytes:
                if kind == "lossless":
                    return webp_lossless(w, h, argb)
                if kind == "lossy":
                    return webp_lossy(w, h)
                if kind == "gif":
                    return gif(w, h)
                return bmp(w, h, 8, True) if kind == "rle8" else bmp(w, h, int(kind[3:]))

            if kind == "bmp24":  # not packed: the file is as large as the pixels
                height = max(1, min(height, 60_000_000 // width))
            extension = "webp" if kind.startswith("loss") else "gif" if kind == "gif" else "bmp"
            yield Made(
                f"{width}x{height}-{kind}.{extension}",
                make(width, height),
                width * height,
                3.0 if kind == "lossy" else 1.5,
                None if kind == "lossy" else make(16, 16),
            )


def bombs(random: Random, scale: float) -> Iterator[Made]:
    """Bombs; `scale` 1 as bad as they come, less in proportion."""
    many = round(random.randrange(300_000, 2_000_000) * scale)
    yield Made("extensions.gif", gif(4, 4, extensions=b"!\xfe\1c\0" * many))
    yield Made("controls.gif", gif(4, 4, extensions=b"!\xf9\4\0\0\0\0\0" * many))
    yield Made("frames.gif", gif(4, 4, frames=many // 20))
    yield Made("no-frame.gif", gif(4, 4)[:781] + b"!\xfe\1c\0" * many)
    chunk = b"ABCD" + struct.pack("<I", 0)
    flags = b"VP8X" + struct.pack("<I", 10) + bytes(10)
    whole = webp_lossless(1, 1, (255, 1, 2, 3))
    yield Made("chunks.webp", _riff(b"VP8L", whole[20:], flags + chunk * many))
    frame = b"ANMF" + struct.pack("<I", 16 + len(whole) - 12) + bytes(16) + whole[12:]
    animated = b"VP8X" + struct.pack("<I", 10) + b"\2" + bytes(9) + b"ANIM" + struct.pack("<I", 6) + bytes(6)
    yield Made("frames.webp", _riff(b"EXIF", b"", animated + frame * (many // 20)))
    canvas = (
        b"VP8X"
        + struct.pack("<I", 10)
        + b"\2"
        + bytes(3)
        + struct.pack("<I", 16_000)[:3]
        + struct.pack("<I", 11_000)[:3]
    )
    animated = canvas + b"ANIM" + struct.pack("<I", 6) + bytes(6)
    yield Made("frames-on-a-large-canvas.webp", _riff(b"EXIF", b"", animated + frame * 200), 176_000_000)
    # Runs of nothing, jumps, and rows that end at once: none brings a pixel.
    head = bmp(64, 64, 8, True)[:1078]
    yield Made("empty-runs.bmp", head + b"\0\0" * many + b"\0\1", 4096)
    yield Made("jumps.bmp", head + b"\0\2\0\0" * many + b"\0\1", 4096)
    yield Made("runs-past-the-end.bmp", head + b"\xff\0" * many + b"\0\1", 4096)
