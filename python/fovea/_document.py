"""Writes what a program found as JSON, by the rule of all outputs: docs/output.md, "What outputs replace"."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable

_BEGIN = '{"kind":"fovea.'


def add_options(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--json", metavar="FILE", help=help)
    parser.add_argument("--overwrite", action="store_true", help="replace FILE even if Fovea did not write it")


def check(parser: argparse.ArgumentParser, file: str | None, overwrite: bool, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Ends the program when `file` is one of its inputs, or holds something that Fovea did not write."""
    if file is not None and os.path.isdir(file):
        parser.error(f"--json: {file}: is a folder; name a file")
    if file is None or file == "-" or not os.path.isfile(file):
        return
    if any(os.path.exists(one) and os.path.samefile(file, one) for one in inputs):
        parser.error(f"--json: {file}: is an input, which it would replace; name another file")
    with open(file, errors="replace") as opened:
        head = "".join(opened.read(256).split())
    if head and not head.startswith(_BEGIN) and not overwrite:
        parser.error(f"--json: {file}: exists, and is not JSON that Fovea wrote; name another file, or replace it with --overwrite")


def write(file: str, kind: str, fields: dict[str, object]) -> None:
    """Writes {"kind": "fovea.<kind>", "version": 1} and the fields; a file appears whole, and a pipe or device is written to.

    "-" is the standard output.
    """
    text = json.dumps({"kind": f"fovea.{kind}", "version": 1, **fields}, indent=1) + "\n"
    if file == "-":
        sys.stdout.write(text)
        return
    place = os.path.realpath(file)  # a link stays
    if os.path.exists(file) and not os.path.isfile(file):
        with open(file, "w") as opened:
            opened.write(text)
        return
    folder, name = os.path.split(place)
    number, partial = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with open(number, "w") as opened:
            opened.write(text)
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(number, 0o666 & ~mask)
        os.replace(partial, place)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
