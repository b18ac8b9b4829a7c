"""Hostile tar archives: links, sparse and huge members, headers that lie, names, damage, gigabytes."""

from __future__ import annotations

import dataclasses
import struct
import tarfile
from collections.abc import Iterator
from random import Random

from attack.generate.names import hostile_names
from attack.generate.streams import Runs, bz2_of, gzip_of, xz_of, zstd_of

END = bytes(1024)
PACKERS = {"tar.gz": gzip_of, "tar.xz": xz_of, "tar.bz2": bz2_of, "tar.zst": zstd_of}


@dataclasses.dataclass
class Archive:
    """`data` of the archive `name`. Each member of `whole` (name to number of the good photo in it) comes
    before any damage; those of `named` are inputs that must not be lost without a word. `packed`: bytes that
    have to be unpacked to get through it."""

    name: str
    data: bytes
    whole: dict[bytes, int] = dataclasses.field(default_factory=dict)
    named: list[bytes] = dataclasses.field(default_factory=list)
    packed: int = 0


def header(name: bytes, size: int = 0, kind: bytes = tarfile.REGTYPE, link: bytes = b"") -> bytes:
    """The header block of a member; a size past octal is written in base 256."""
    octal = b"%011o\0" % size if 0 <= size < 8**11 else struct.pack(">B", 0x80 if size >= 0 else 0xFF)
    if len(octal) == 1:
        octal += size.to_bytes(11, "big", signed=True)
    block = bytearray(512)
    block[0:100] = name[:100].ljust(100, b"\0")
    block[100:108], block[108:116], block[116:124] = b"0000644\0", b"0000000\0", b"0000000\0"
    block[124:136], block[136:148] = octal, b"00000000000\0"
    block[148:156], block[156:157] = b" " * 8, kind
    block[157:257] = link[:100].ljust(100, b"\0")
    block[257:265] = b"ustar  \0"
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def member(name: bytes, data: bytes, kind: bytes = tarfile.REGTYPE, link: bytes = b"") -> bytes:
    long = b""
    if len(name) > 100:
        long = header(b"././@LongLink", len(name) + 1, b"L") + padded(name + b"\0")
    return long + header(name, len(data), kind, link) + padded(data)


def pax(records: bytes, kind: bytes = b"x") -> bytes:
    return header(b"pax", len(records), kind) + padded(records)


def record(key: bytes, value: bytes) -> bytes:
    size = len(key) + len(value) + 3
    size += len(str(size + len(str(size))))
    return b"%d %s=%s\n" % (size, key, value)


def sparse_member(name: bytes, size: int) -> bytes:
    """A GNU sparse member that is `size` bytes long and takes none."""
    block = bytearray(header(name, 0, b"S"))
    block[483:495] = b"%011o\0" % size
    block[386:410] = b"%011o\0%011o\0" % (size, 0)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def archives(random: Random, photos: list[bytes], scale: float) -> Iterator[Archive]:
    """Each kind of hostile archive once. Good members are `photos`."""
    good = {b"good0.jpg": 0, b"good1.jpg": 1}
    first, second = member(b"good0.jpg", photos[0]), member(b"good1.jpg", photos[1])
    for target in (b"good0.jpg", b"good1.jpg", b"link.jpg", b"absent.jpg", b"/etc/passwd", b"../good0.jpg"):
        link = member(b"link.jpg", b"", tarfile.LNKTYPE, target)
        yield Archive(
            f"hard-link-to-{target.decode().replace('/', '_')}.tar",
            first + link + second + END,
            good,
            [b"link.jpg"],
        )
    for kind in (
        tarfile.SYMTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
        tarfile.DIRTYPE,
        tarfile.FIFOTYPE,
        b"7",
        b"Z",
    ):
        odd = member(b"odd.jpg", b"", kind, b"good0.jpg")
        named = [b"odd.jpg"] if kind == tarfile.SYMTYPE else []
        yield Archive(f"type-{kind.hex()}.tar", first + odd + second + END, good, named)
    for size in (500 << 20, 900 << 20, 1 << 40):
        sparse = sparse_member(b"sparse.jpg", size)
        yield Archive(
            f"sparse-{size >> 20}.tar",
            first + sparse * (1 if size > 1 << 30 else 3) + second + END,
            {b"good0.jpg": 0},
        )
    yield from _huge_members(random, first, second, scale)
    yield from _lies(random, first, second)
    names = hostile_names(random)
    whole = b"".join(member(b"%03d-%s.jpg" % (i, name), photos[i % 3]) for i, name in enumerate(names))
    plain = {b"%03d-%s.jpg" % (i, name): i % 3 for i, name in enumerate(names) if b"\0" not in name and name}
    yield Archive("names.tar", first + whole + second + END, {b"good0.jpg": 0} | plain | {b"good1.jpg": 1})
    whole_archive = first + second + END
    for extension, packer in PACKERS.items():
        yield Archive(f"good.{extension}", packer([(whole_archive, 1)]), good)
        packed = packer([(first + second + random.randbytes(50_000) + END, 1)])
        yield Archive(f"cut.{extension}", packed[: random.randrange(len(packed))])
        damaged = bytearray(packed)
        for _ in range(random.choice((1, 3, 30))):
            damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
        yield Archive(f"damaged.{extension}", bytes(damaged))
    many = random.randrange(50_000, 200_000)
    unwanted = member(b"a.txt", b"")
    yield Archive("unwanted.tar.gz", gzip_of([(first, 1), (unwanted, many), (second + END, 1)]), good, [], many * 512)
    yield Archive("layers.tar.gz", _layers(whole_archive, 30))
    for magic in (
        b"LRZI\0\6",
        b"\x89LZO\0\r\n\x1a\n",
        b"GRZipII\0\2\4:)",
        b"begin 644 x\n",
        b"\x1f\x9d\x90",
        b"\x04\x22\x4d\x18",
    ):
        yield Archive(f"magic-{magic[:4].hex()}.tar", magic + random.randbytes(3000))
    yield Archive("empty.tar", b"")
    yield Archive("zeros.tar", bytes(1 << 20))


def _huge_members(random: Random, first: bytes, second: bytes, scale: float) -> Iterator[Archive]:
    """Members of gibibytes, wanted and not, in each compression, bounded by what a file of some MB holds."""
    for extension, packer in PACKERS.items():
        largest = {"tar.gz": 16, "tar.zst": 64, "tar.xz": 8, "tar.bz2": 2}[extension]
        size = round(random.randrange(largest << 29, largest << 30) * scale) // 512 * 512
        for name in (b"huge.bin", b"huge.jpg"):
            runs: Runs = [
                (first + header(name, size), 1),
                (bytes(1 << 20), size >> 20),
                (bytes(size % (1 << 20)), 1),
                (second + END, 1),
            ]
            yield Archive(f"{name.decode()}.{extension}", packer(runs), {b"good0.jpg": 0}, [], size)


def _lies(random: Random, first: bytes, second: bytes) -> Iterator[Archive]:
    for size in (-1, -512, 1 << 62, (1 << 63) - 1, 8**11 - 1, 10_000_000_000):
        yield Archive(f"size-{size}.tar", first + header(b"lie.jpg", size) + second + END, {b"good0.jpg": 0})
    for text in (b"\xff" * 12, b"99999999999\0", b"            ", b"-0000000001\0"):
        block = bytearray(header(b"lie.jpg", 0))
        block[124:136] = text
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        yield Archive(f"size-{text.hex()}.tar", first + bytes(block) + second + END, {b"good0.jpg": 0})
    for kind in (b"x", b"g", b"L", b"K", b"X", b"V", b"M"):
        large = random.randrange(1 << 26, 1 << 28)
        runs: Runs = [
            (first + header(b"meta", large, kind), 1),
            (b"a" * (1 << 20), large >> 20),
            (padded(b"a" * (large % (1 << 20))) + second + END, 1),
        ]
        yield Archive(f"meta-{kind.decode()}.tar.gz", gzip_of(runs), {b"good0.jpg": 0}, [], large)
        yield Archive(f"meta-{kind.decode()}-cut.tar", first + header(b"meta", large, kind), {b"good0.jpg": 0})
    endless = pax(record(b"comment", b"c"))
    yield Archive("pax-after-pax.tar", first + endless * 20_000 + second + END, {b"good0.jpg": 0})
    for records in (
        record(b"size", b"99999999999999999999"),
        record(b"size", b"-5"),
        record(b"GNU.sparse.major", b"1"),
        record(b"path", b"a\0b.jpg"),
        record(b"path", b"\x1b]0;x\x07.jpg"),
        record(b"hdrcharset", b"BINARY") + record(b"path", b"\xff.jpg"),
        b"99999999999 path=x\n",
        b"-3 path=x\n",
        b"5 path",
        record(b"GNU.sparse.size", b"1099511627776"),
        record(b"GNU.sparse.map", b"0,1," * 100_000),
        record(b"linkpath", b"x" * 1_000_000),
    ):
        label = records[:24].hex()
        yield Archive(f"pax-{label}.tar", first + pax(records) + second + END, {b"good0.jpg": 0})


def _layers(data: bytes, count: int) -> bytes:
    for _ in range(count):
        data = gzip_of([(data, 1)])
    return data
