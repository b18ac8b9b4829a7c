"""Images whose decoding is made to cost as much as it can: little data, and time or memory without end."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Callable, Iterable

from PIL import Image

MIB = 1 << 20

# PNG

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(name: bytes, data: bytes = b"", checksum: int | None = None) -> bytes:
    checksum = zlib.crc32(name + data) if checksum is None else checksum
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", checksum)


def zeros(size: int, level: int = 6) -> bytes:
    """A zlib stream of so many zero bytes."""
    codec = zlib.compressobj(level)
    block = bytes(4 * MIB)
    parts = [codec.compress(block[: min(size - at, len(block))]) for at in range(0, size, len(block))]
    return b"".join(parts) + codec.flush()


def endless_zeros(mebibytes: int) -> bytes:
    """A zlib stream without an end, of a flushed block again and again."""
    codec = zlib.compressobj(9)
    head = codec.compress(bytes(MIB)) + codec.flush(zlib.Z_FULL_FLUSH)
    return head + (codec.compress(bytes(MIB)) + codec.flush(zlib.Z_FULL_FLUSH)) * (mebibytes - 1)


ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def png(
    width: int = 2, height: int = 3, depth: int = 8, color: int = 2, interlaced: bool = False,
    before: bytes = b"", after: bytes = chunk(b"IEND"), pixels: bytes = b"",
) -> bytes:  # fmt: skip
    """A black image, with chunks before and after its pixels; `pixels` in the place of theirs, if given."""
    passes = ADAM7 if interlaced else ((0, 0, 1, 1),)
    size = 0
    for x, y, right, down in passes:
        columns, rows = -(-(width - x) // right), -(-(height - y) // down)
        if columns > 0 and rows > 0:
            size += rows * (1 + (columns * CHANNELS[color] * depth + 7) // 8)
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    palette = chunk(b"PLTE", bytes(768)) if color == 3 else b""
    return SIGNATURE + chunk(b"IHDR", header) + palette + before + chunk(b"IDAT", pixels or zeros(size)) + after


# TIFF

TYPES = {3: "H", 4: "I", 5: "II", 7: "B"}


def tiff(tags: dict[int, tuple[int, Iterable]], blocks: Iterable[bytes], big: bool = False) -> bytes:
    """A file of strips, or of tiles where the tags have their size. Tags that say where they lie may be given."""
    order = ">" if big else "<"
    body = b""
    places: list[int] = []
    blocks = list(blocks)
    for block in blocks:
        places.append(8 + len(body))
        body += block
    offsets, sizes = (324, 325) if 322 in tags else (273, 279)
    tags = {offsets: (4, places), sizes: (4, [len(block) for block in blocks]), **tags}
    start = 8 + len(body)
    after = start + 2 + 12 * len(tags) + 4
    directory = struct.pack(order + "H", len(tags))
    more = b""
    for tag, (kind, values) in sorted(tags.items()):
        values = list(values)
        flat = [number for value in values for number in value] if kind == 5 else values
        raw = struct.pack(f"{order}{len(flat)}{TYPES[kind][0]}", *flat)
        directory += struct.pack(order + "HHI", tag, kind, len(values))
        if len(raw) <= 4:
            directory += raw.ljust(4, b"\0")
        else:
            directory += struct.pack(order + "I", after + len(more))
            more += raw
    magic = b"MM\0*" if big else b"II*\0"
    return magic + struct.pack(order + "I", start) + body + directory + struct.pack(order + "I", 0) + more


def layout(width, height, bits, samples, photometric, compression=8, rows=None, **more) -> dict:
    tags = {
        256: (4, [width]), 257: (4, [height]), 258: (3, [bits] * samples), 259: (3, [compression]),
        262: (3, [photometric]), 277: (3, [samples]), 278: (4, [rows or height]),
    }  # fmt: skip
    names = {"planar": 284, "extra": 338, "format": 339, "predictor": 317}
    return tags | {names[name]: (3, values) for name, values in more.items()}


def tile_bomb() -> bytes:
    """12,500 tiles of 11 million pixels each, one stream, for an image of one row."""
    width, tile = 200_000, (16, 11_184_800)
    stream = zeros(tile[0] * tile[1], 9)
    count = -(-width // tile[0])
    tags = layout(width, 1, 8, 1, 1) | {
        322: (4, [tile[0]]), 323: (4, [tile[1]]), 324: (4, [8] * count), 325: (4, [len(stream)] * count),
    }  # fmt: skip
    return tiff(tags, [stream])


def strip_bomb() -> bytes:
    """100,000 strips of one row, all of one stream that is mostly blocks of nothing."""
    stream = b"\x78\x9c" + b"\0\0\0\xff\xff" * 100_000
    count = 100_000
    return tiff(layout(1, count, 8, 1, 1, rows=1) | {273: (4, [8] * count), 279: (4, [len(stream)] * count)}, [stream])


def directory_bomb(entries: int, bytes_each: int) -> bytes:
    """Private tags that share their data."""
    plain = tiff(layout(4, 4, 8, 1, 1, compression=1), [bytes(bytes_each)])
    start = struct.unpack("<I", plain[4:8])[0]
    count = struct.unpack("<H", plain[start : start + 2])[0]
    more = b"".join(struct.pack("<HHII", 400 + tag, 7, bytes_each, 8) for tag in range(entries))
    directory = plain[start + 2 : start + 2 + 12 * count] + more
    return plain[:start] + struct.pack("<H", count + entries) + directory + bytes(4)


# JPEG


def jpeg(width: int, height: int, **options) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), (120, 60, 200)).save(buffer, "JPEG", quality=50, **options)
    return buffer.getvalue()


def scans(width: int, height: int, count: int) -> bytes:
    """A progressive image of one real scan and `count` of some hundred bytes, each a pass over all blocks."""
    whole = jpeg(width, height, progressive=True, subsampling="4:4:4")
    first = whole.index(b"\xff\xda")
    head = whole[: whole.index(b"\xff\xc4", first)]
    # One code: the longest run of blocks without coefficients, then 14 bits of its length.
    table = b"\xff\xc4" + struct.pack(">H", 20) + b"\x10" + bytes([1] + [0] * 15) + b"\xe0"
    blocks = -(-width // 8) * -(-height // 8)
    bits = ("0" + "1" * 14) * -(-blocks // 32767)
    bits += "1" * (-len(bits) % 8)
    data = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)).replace(b"\xff", b"\xff\0")
    scan = b"\xff\xda" + struct.pack(">H", 8) + bytes([1, 1, 0, 1, 63, 0x01]) + data
    return head + table + scan * count + b"\xff\xd9"


# GIF, BMP, WebP


def gif(width: int, height: int) -> bytes:
    """One colour: codes that each stand for one pixel more than the last."""
    bits: list[str] = []
    done, width_of_code, free, code = 0, 9, 258, 1
    bits.append(f"{256:09b}"[::-1])
    fresh = True
    while done < width * height:
        bits.append(format(code, f"0{width_of_code}b")[::-1])
        done += 1 if code == 1 else code - 256
        if not fresh:
            free += 1
            if free == 1 << width_of_code and width_of_code < 12:
                width_of_code += 1
        fresh = False
        code = free
        if free >= 4095:
            bits.append(format(256, f"0{width_of_code}b")[::-1])
            width_of_code, free, code, fresh = 9, 258, 1, True
    bits.append(format(257, f"0{width_of_code}b")[::-1])
    text = "".join(bits)
    text += "0" * (-len(text) % 8)
    data = int(text[::-1], 2).to_bytes(len(text) // 8, "little")
    blocks = b"".join(bytes([len(data[at : at + 255])]) + data[at : at + 255] for at in range(0, len(data), 255))
    screen = struct.pack("<HHBBB", width, height, 0xF7, 0, 0) + bytes(768)
    return b"GIF89a" + screen + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x08" + blocks + b"\0;"


def bmp_runs(width: int, height: int) -> bytes:
    header = struct.pack("<IIIIiiHHIIIIII", 0, 0, 54 + 1024, 40, width, height, 1, 8, 1, 0, 0, 0, 256, 0)
    palette = bytes(at * 7 % 256 for at in range(1024))
    row = b"\xff\x01" * (width // 255) + bytes([width % 255, 1]) + b"\0\0"
    return b"BM" + header + palette + row * height


def webp(width: int, height: int, noise: bool = False, **options) -> bytes:
    image = Image.new("RGBA", (width, height), (120, 60, 200, 99))
    if noise:
        image = Image.frombytes("RGB", (width, height), random.Random(1).randbytes(width * height * 3))
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", method=0, **options)
    return buffer.getvalue()


def webp_chunks(count: int) -> bytes:
    whole = webp(4, 4) + (b"ABCD" + bytes(4)) * count
    return b"RIFF" + struct.pack("<I", len(whole) - 8) + whole[8:]


class Bits:
    """Bits of a lossless WebP, the first in the lowest place."""

    def __init__(self) -> None:
        self.text: list[str] = []

    def put(self, value: int, count: int) -> None:
        self.text.append(format(value, f"0{count}b")[::-1])

    def single(self) -> None:
        """A code of one symbol, which takes no bits."""
        self.put(0b0001, 4)

    def bytewise(self, symbols: int) -> None:
        """A code of 8 bits for 256 symbols and none for those after them."""
        order = [17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8]
        self.put(0, 1)
        self.put(len(order) - 4, 4)
        for symbol in order:
            self.put(1 if symbol in (0, 8) else 0, 3)
        self.put(0, 1)
        self.text.append("1" * 256 + "0" * (symbols - 256))

    def data(self) -> bytes:
        text = "".join(self.text)
        text += "0" * (-len(text) % 8)
        return int(text[::-1], 2).to_bytes(len(text) // 8, "little")


def webp_sets(sets: int, side: int = 1024) -> bytes:
    """A black image of so many sets of codes, for which libwebp takes 20 KB each."""
    bits = Bits()
    bits.put(0x2F, 8)
    bits.put(side - 1, 14)
    bits.put(side - 1, 14)
    bits.put(0, 1 + 3)
    bits.put(0, 1)  # no transform
    bits.put(1 | 11 << 1, 5)  # the largest cache
    bits.put(1, 1)  # sets for blocks
    bits.put(0, 3)  # of 4x4 pixels
    bits.put(0, 1)  # no cache in the image of sets
    bits.bytewise(280)
    bits.bytewise(256)
    for _ in range(3):
        bits.single()
    codes = [format(byte, "08b") for byte in range(256)]
    bits.text += [codes[at % sets & 255] + codes[at % sets >> 8] for at in range((side // 4) ** 2)]
    for _ in range(sets * 5):
        bits.single()
    stream = bits.data() + bytes(8)
    stream += bytes(len(stream) % 2)
    chunk = b"VP8L" + struct.pack("<I", len(stream)) + stream
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


# name -> (file, words of the refusal, or nothing where it is read)
BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "png-text": (
        lambda: png(1, 1, before=chunk(b"zTXt", b"k\0\0" + zeros(7_900_000, 9)) * 990),
        "PNG: decompressed data too large",
    ),
    "png-text-after-pixels": (
        lambda: png(1, 1, after=chunk(b"iTXt", b"k\0\1\0\0\0" + zeros(7_900_000, 9)) * 500),
        "PNG: decompressed data too large",
    ),
    "png-text-in-pieces": (
        lambda: png(1, 1, before=chunk(b"zTXt", b"k\0\0" + zeros(MIB, 9)) * 3000),
        f"PNG: more than {64 * MIB} bytes of text",
    ),
    "png-dropped-text": (
        lambda: png(1, 1, before=chunk(b"zTXt", b"\0\0" + zeros(MIB, 9)) * 5000),
        "PNG: decompressed data too large",
    ),
    "png-long-side": (lambda: png(100_000_000, 1, 1, 0), "a side longer than 16777216"),
    "png-tall-side": (lambda: png(1, 100_000_000, 1, 0), "a side longer than 16777216"),
    "png-behind-the-rows": (lambda: png(pixels=endless_zeros(10_000)), ""),
    "png-behind-interlaced-rows": (lambda: png(3, 3, interlaced=True, pixels=endless_zeros(10_000)), ""),
    "png-chunks": (lambda: png(before=chunk(b"tEXt", b"k\0") * 500_000), ""),
    "tiff-huge-tiles": (tile_bomb, "TIFF: tiles of 16x11184800 pixels in an image of 200000x1"),
    "tiff-small-tiles": (
        lambda: tiff(
            {
                **layout(300_000, 1, 8, 1, 1),
                322: (4, [16]),
                323: (4, [50_000]),
                324: (4, [8] * 18750),
                325: (4, [len(zeros(800_000, 9))] * 18750),
            },
            [zeros(800_000, 9)],
        ),  # fmt: skip
        "TIFF: 18750 tiles of 16x50000 pixels for an image of 300000x1",
    ),
    "tiff-shared-strips": (strip_bomb, "TIFF: strips or tiles have more than four times the file's"),
    "tiff-directory": (lambda: directory_bomb(65_000, 4), "TIFF: the directory has 65009 entries"),
    "tiff-directory-data": (
        lambda: directory_bomb(900, 4 * MIB),
        "TIFF: the directory's entries together have more data than the file",
    ),
    "jpeg-scans": (lambda: scans(8192, 8192, 3000), "JPEG: more than 266 scans"),
    "jpeg-many-scans": (lambda: scans(64, 64, 600), "JPEG: more than 500 scans"),
    "jpeg-scans-allowed": (lambda: scans(64, 64, 498), ""),
    "jpeg-segments": (lambda: (lambda j: j[:2] + b"\xff\xe1\0\2" * 5_000_000 + j[2:])(jpeg(8, 8)), ""),
    "gif-extensions": (
        lambda: b"GIF89a" + struct.pack("<HHBBB", 4, 4, 0, 0, 0) + b"!\xfe\0" * 10_000_000 + b";",
        "GIF: there is no image",
    ),
    "webp-chunks": (lambda: webp_chunks(3_000_000), "WebP: more than 1000000 chunks"),
}

SIDE = 5000  # 25 million pixels: a hundred milliseconds or more in every format

# Files that take a while: each must stop when it is asked to, and take no more memory than it says.
LARGE: dict[str, Callable[[], bytes]] = {
    "png": lambda: png(SIDE, SIDE),
    "png-gray16": lambda: png(SIDE, SIDE, 16, 0),
    "png-gray16-interlaced": lambda: png(SIDE, SIDE, 16, 0, interlaced=True),
    "png-rgba16-interlaced": lambda: png(SIDE, SIDE, 16, 6, interlaced=True),
    "png-wide": lambda: png(1 << 23, 3),
    "png-tall": lambda: png(3, 1 << 23),
    "tiff-rgba16": lambda: tiff(layout(SIDE, SIDE, 16, 4, 2, extra=[2]), [zeros(SIDE * SIDE * 8)]),
    "tiff-float": lambda: tiff(layout(SIDE, SIDE, 32, 1, 1, format=[3]), [zeros(SIDE * SIDE * 4)]),
    "tiff-strips": lambda: tiff(layout(SIDE, SIDE, 8, 3, 2, rows=8), [zeros(SIDE * 24)] * (SIDE // 8)),
    "tiff-planes": lambda: tiff(layout(SIDE, SIDE, 8, 4, 5, planar=[2]), [zeros(SIDE * SIDE)] * 4),
    "tiff-tiles": lambda: tiff(
        layout(SIDE, SIDE, 8, 3, 2) | {322: (4, [1024]), 323: (4, [1024])}, [zeros(3 * MIB)] * 25
    ),
    "tiff-ycbcr": lambda: tiff(layout(SIDE, SIDE, 8, 3, 6, rows=200) | {530: (3, [1, 1])}, [zeros(SIDE * 600)] * 25),
    "bmp-runs": lambda: bmp_runs(SIDE, SIDE),
    "gif": lambda: gif(SIDE, SIDE),
    "jpeg-progressive": lambda: jpeg(SIDE, SIDE, progressive=True, subsampling="4:4:4"),
    "jpeg-400-scans": lambda: scans(4096, 4096, 400),
    # Noise: libwebp can be stopped where it needs more data, not where it needs none.
    "webp-lossy": lambda: webp(3000, 3000, noise=True, quality=90),
    "webp-lossless": lambda: webp(3000, 3000, noise=True, lossless=True),
    "webp-alpha": lambda: webp(SIDE, SIDE),
}
