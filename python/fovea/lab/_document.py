"""Writes results as JSON, under the rules for all outputs in docs/output.md, "What outputs replace"."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Iterable

_BEGIN = '{"kind":"fovea.'


def add_options(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--json", metavar="FILE", help=help)
    parser.add_argument("--overwrite", action="store_true", help="replace FILE even if Fovea did not write it")


def _stream(file: str) -> int | None:
    """Returns the descriptor if `file` refers to an open one of this process, as reopening it would truncate it."""
    if not os.path.exists(file):
        return None

    def is_written_by(number: int) -> bool:
        try:
            is_writable = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
            return is_writable and os.path.samestat(os.fstat(number), os.stat(file))
        except OSError:
            return False

    numbers = [1, 2]
    while True:
        folder, name = os.path.split(file)
        if os.path.realpath(folder).startswith("/proc/"):
            numbers += [int(name)] if name.isdecimal() else []
            break
        if not os.path.islink(file):
            break
        file = os.path.join(folder, os.readlink(file))
    return next(filter(is_written_by, numbers), None)


def check(
    parser: argparse.ArgumentParser, file: str | None, overwrite: bool, inputs: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Exits with a usage error when `file` is one of the inputs, or was not written by Fovea."""
    if file is not None and os.path.isdir(file):
        parser.error(f"--json: {file}: is a folder; name a file")
    if file is None or file == "-" or not os.path.isfile(file) or _stream(file) is not None:
        return
    if any(os.path.exists(path) and os.path.samefile(file, path) for path in inputs):
        parser.error(f"--json: {file}: is an input, which it would replace; name another file")
    with open(file, "rb") as opened:
        begin = opened.read(256)
    head = "".join(begin.decode("utf-8", "replace").split())
    if b"\0" in begin or "\ufffd" in head[:-1]:  # the last character may be truncated
        parser.error(f"--json: {file}: is an image or other binary data, which no output replaces; name another file")
    if head and not head.startswith(_BEGIN) and not overwrite:
        parser.error(
            f"--json: {file}: exists, and is not JSON that Fovea wrote; name another file, or replace it with --overwrite"
        )


def write(file: str, kind: str, fields: dict[str, object]) -> None:
    """Writes a JSON document: {"kind": "fovea.<kind>", "version": 1} and the fields.

    "-" means standard output. A regular file is replaced atomically; a pipe or device is written to directly.
    """
    text = json.dumps({"kind": f"fovea.{kind}", "version": 1, **fields}, indent=1) + "\n"
    if file == "-":
        sys.stdout.write(text)
        return
    stream = _stream(file)
    if stream is not None or (os.path.exists(file) and not os.path.isfile(file)):
        sys.stdout.flush()  # `file` may be standard output
        with open(file if stream is None else os.dup(stream), "w") as opened:
            opened.write(text)
        return
    target = os.path.realpath(file)  # keeps symbolic links
    folder, name = os.path.split(target)
    number, partial = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with open(number, "w") as opened:
            opened.write(text)
            opened.flush()
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(number, 0o666 & ~mask)
            os.fsync(number)
        os.replace(partial, target)
    except BaseException as failure:  # including KeyboardInterrupt
        with contextlib.suppress(OSError):
            os.unlink(partial)
        if isinstance(failure, OSError):
            raise OSError(failure.errno, failure.strerror or str(failure), file) from failure
        raise
