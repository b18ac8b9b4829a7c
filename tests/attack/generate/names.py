"""Names that files, members and lists may have, which were chosen to do harm."""

from __future__ import annotations

from random import Random

_ESCAPES = [
    b"\x1b]0;owned\x07", b"\x1b[2J", b"\x9b31m", "\x9b31m".encode(), "\u202egpj.exe".encode(), "\u2066x".encode(),
    b"\x7f\x08\x08\x08", b"a\rb", b"a\nb", b"a\tb", b"\x00x", b"\xff\xfe", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    b"\\x41", b"\\", b"\\\\", b'"', b"'", b"{0..9}", b"{a,b}", b"#0", b"%s%n", b"-o", b"--help", b"@list",
    b"<script>alert(1)<", b"&amp;", b"a b", b" ", b"~", b"$HOME", b"`id`", b"*", "e\u0301".encode(), "\U0001f4a3".encode(),
]  # fmt: skip


def hostile_names(random: Random) -> list[bytes]:
    """Some dozens of them, in random order, without slashes."""
    names = [*_ESCAPES, random.randbytes(40).replace(b"/", b"x").replace(b"\0", b"y"), b"n" * 200]
    random.shuffle(names)
    return names
