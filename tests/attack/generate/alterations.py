"""Alterations of a stopped job's files: values, sizes, lines, places, kinds."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from random import Random
from typing import Any

_VALUES: list[Any] = [0, 1, 2, 5, -1, 1.5, True, False, None, "", "x", [], {}, 1 << 31, 1 << 32, 1 << 63, 1 << 64, (1 << 64) - 1,
                      1e300, "0" * 64, [[]], "\x1b]0;owned\x07", "../x"]  # fmt: skip


def alter(folder: pathlib.Path, random: Random) -> str:
    """Alters one thing in the folder, and says what."""
    files = sorted(path for path in folder.iterdir() if path.name != ".lock")
    if random.random() < 0.5 and (folder / "manifest.json").exists():
        return random.choice((_value, _value, _value, _removed_key, _added_key))(folder / "manifest.json", random)
    how: Callable = random.choice((_truncate, _truncate, _extend, _flip, _flip, _remove, _line, _line, _swap, _kind, _number))
    return how(random.choice(files), random)


def _nodes(tree: Any, path: tuple = ()) -> list[tuple]:
    if isinstance(tree, dict):
        return [path + (key,) for key in tree] + [one for key in tree for one in _nodes(tree[key], path + (key,))]
    if isinstance(tree, list):
        return [path + (i,) for i in range(len(tree))] + [one for i, item in enumerate(tree) for one in _nodes(item, path + (i,))]
    return []


def _changed(file: pathlib.Path, random: Random, change: Callable[[Any, Any], str]) -> str:
    tree = json.loads(file.read_text())
    where = random.choice(_nodes(tree))
    node = tree
    for key in where[:-1]:
        node = node[key]
    what = change(node, where[-1])
    file.write_text(json.dumps(tree, indent=2) + "\n")
    return f"{file.name} {'.'.join(map(str, where))} {what}"


def _value(file: pathlib.Path, random: Random) -> str:
    def change(node: Any, key: Any) -> str:
        old = node[key]
        new = random.choice(_VALUES)
        if isinstance(old, int) and not isinstance(old, bool) and random.random() < 0.6:
            new = old + random.choice((-1, 1, -old, old, 7, -7, 1 << 32))
        if isinstance(old, bool) and random.random() < 0.5:
            new = not old
        if isinstance(old, str) and old and random.random() < 0.5:
            at = random.randrange(len(old))
            new = old[:at] + random.choice("0a") + old[at + 1 :]
        node[key] = new
        return f":= {str(new)[:30]!r} (was {str(old)[:30]!r})"

    return _changed(file, random, change)


def _removed_key(file: pathlib.Path, random: Random) -> str:
    def change(node: Any, key: Any) -> str:
        del node[key]
        return "removed"

    return _changed(file, random, change)


def _added_key(file: pathlib.Path, random: Random) -> str:
    def change(node: Any, key: Any) -> str:
        if isinstance(node, dict):
            node[f"{key}2"] = node[key]
        return "twice"

    return _changed(file, random, change)


def _truncate(file: pathlib.Path, random: Random) -> str:
    size = file.stat().st_size
    to = random.choice((0, size - 1, size // 2, random.randrange(size + 1)))
    os.truncate(file, max(to, 0))
    return f"{file.name} cut from {size} to {to} bytes"


def _extend(file: pathlib.Path, random: Random) -> str:
    more = random.choice((b"\n", b"\0", b"{}\n", bytes(64 * 4), file.read_bytes()[-200:], random.randbytes(1000)))
    with open(file, "ab") as stream:
        stream.write(more)
    return f"{file.name} with {len(more)} bytes more"


def _flip(file: pathlib.Path, random: Random) -> str:
    data = bytearray(file.read_bytes())
    if not data:
        return f"{file.name} is empty"
    at = random.randrange(min(len(data), random.choice((128, 1 << 20))))
    data[at] ^= 1 << random.randrange(8)
    file.write_bytes(data)
    return f"{file.name} with a bit of byte {at} flipped"


def _remove(file: pathlib.Path, random: Random) -> str:
    file.unlink()
    return f"{file.name} removed"


def _line(file: pathlib.Path, random: Random) -> str:
    lines = file.read_bytes().splitlines(keepends=True)
    if len(lines) < 2:
        return _truncate(file, random)
    at, to = random.randrange(len(lines)), random.randrange(len(lines))
    how = random.choice(("twice", "removed", "moved", "broken", "emptied"))
    line = lines[at]
    if how == "twice":
        lines.insert(to, line)
    elif how in ("removed", "moved"):
        lines.pop(at)
        if how == "moved":
            lines.insert(to, line)
    else:
        lines[at] = line[: len(line) // 2] + b"\n" if how == "broken" else b"\n"
    file.write_bytes(b"".join(lines))
    return f"{file.name} line {at} {how} ({to})"


def _swap(file: pathlib.Path, random: Random) -> str:
    other = random.choice(sorted(path for path in file.parent.iterdir() if path.name != ".lock"))
    data = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(data)
    return f"{file.name} and {other.name} exchanged"


def _kind(file: pathlib.Path, random: Random) -> str:
    how = random.choice(("pipe", "folder", "/dev/zero", "itself", "nothing"))
    file.unlink()
    if how == "pipe":
        os.mkfifo(file)
    elif how == "folder":
        file.mkdir()
    else:
        file.symlink_to({"itself": file.name, "nothing": "absent"}.get(how, how))
    return f"{file.name} is a {how}" if how in ("pipe", "folder") else f"{file.name} is a link to {how}"


def _number(file: pathlib.Path, random: Random) -> str:
    """Another name: of another number, finished or not."""
    name = file.name
    to = name.removesuffix(".partial") if name.endswith(".partial") else f"{name}.partial"
    if random.random() < 0.4:
        to = name.replace("0000", "0001", 1)
    file.rename(file.with_name(to)) if to != name else file.unlink()
    return f"{name} is called {to}"
