"""Compressed streams of gigabytes, made in the time that their first mebibyte takes."""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib

Runs = list[tuple[bytes, int]]  # (block, how many times)

_MEBIBYTE = 1 << 20
_ADLER = 65521


def _grouped(runs: Runs) -> Runs:
    """The same bytes with short blocks joined to about a mebibyte."""
    out: Runs = []
    for block, times in runs:
        group = max(1, min(times, _MEBIBYTE // max(1, len(block))))
        out += [(block * group, times // group), (block * (times % group), 1)]
    return [(block, times) for block, times in out if block and times]


def _adler32(runs: Runs) -> int:
    low, high = 1, 0
    for block, times in runs:
        checksum = zlib.adler32(block)
        size, added = len(block), (checksum & 0xFFFF) - 1
        weighted = (checksum >> 16) - size
        high += size * (times * low + added * (times * (times - 1) // 2)) + times * weighted
        low += times * added
    return (high % _ADLER) << 16 | low % _ADLER


def _raw_deflate(runs: Runs) -> bytes:
    parts = []
    for block, times in runs:
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        # A full flush ends on a byte and forgets what came before: the bytes can be repeated.
        parts.append((packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)) * times)
    return b"".join(parts) + b"\x03\x00"


def zlib_of(runs: Runs) -> bytes:
    """A zlib stream of each block as many times as asked for, one after the other."""
    runs = _grouped(runs)
    return b"\x78\xda" + _raw_deflate(runs) + struct.pack(">I", _adler32(runs))


def gzip_of(runs: Runs) -> bytes:
    """Likewise a gzip stream; its checksum and length are wrong, which libarchive does not look at."""
    return b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + _raw_deflate(_grouped(runs)) + bytes(8)


def xz_of(runs: Runs) -> bytes:
    """Likewise .xz: a stream for each block, joined."""
    return b"".join(lzma.compress(block, preset=1) * times for block, times in _grouped(runs))


def bz2_of(runs: Runs) -> bytes:
    """Likewise .bz2."""
    return b"".join(bz2.compress(block) * times for block, times in _grouped(runs))


def zstd_of(runs: Runs) -> bytes:
    """Likewise .zst, uncompressed but for blocks of one byte repeated, which take four bytes each."""
    largest = 1 << 17
    parts = [struct.pack("<IBB", 0xFD2FB528, 0x00, 0x38)]  # no checksum, no size; window of 128 KiB
    for block, times in runs:
        if block == block[:1] * len(block):
            whole, rest = divmod(len(block) * times, largest)
            parts.append(_zstd_block(largest, 1, block[:1]) * whole)
            parts.append(_zstd_block(rest, 1, block[:1]) if rest else b"")
        else:
            cuts = [block[at : at + largest] for at in range(0, len(block), largest)]
            parts.append(b"".join(_zstd_block(len(cut), 0, cut) for cut in cuts) * times)
    return b"".join(parts) + _zstd_block(0, 0, b"", last=True)


def _zstd_block(size: int, kind: int, content: bytes, last: bool = False) -> bytes:
    return struct.pack("<I", size << 3 | kind << 1 | last)[:3] + content
