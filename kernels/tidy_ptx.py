#!/usr/bin/env python3
"""Writes PTX twice: with source line information, for the program, and without it, for ptxas.

usage: tidy_ptx.py FROM ROOT OUT PLAIN   FROM: the output of nvcc -ptx -lineinfo; ROOT: the folder of the project

OUT has the source lines of each instruction, including the lines where it was inlined. Files below ROOT/kernels are
named relative to ROOT, others without their folder. All inlined functions get one empty name, because names of template
instances would be as long as the code. PLAIN has no lines, because ptxas would write them into the machine code.
"""

from __future__ import annotations

import pathlib
import re
import sys

INLINED = re.compile(r"(?<=, function_name )\S+(?=, inlined_at )")
FILE = re.compile(r'^(\s*\.file\s+\d+ )"([^"]*)".*$', re.M)
LINES = re.compile(r"^\s*\.(?:loc|file)\s.*\n", re.M)
# Names of inlined functions, which follow all code.
NAMES = re.compile(r"^\s*\.section\s+\.debug_str\n\s*\{.*?^\s*\}\n", re.M | re.S)
ONE_NAME = "\t.section\t.debug_str\n\t{\n$name:\n.b8 0\n\t}\n"


def short(name: str, root: pathlib.Path) -> str:
    path = pathlib.Path(name).resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root / "kernels") else path.name


def main() -> None:
    source, root, out, plain = map(pathlib.Path, sys.argv[1:])
    text = NAMES.sub("", source.read_text())
    if ".section" in text:
        sys.exit(f"{source}: it has unknown sections")
    text = FILE.sub(lambda match: f'{match[1]}"{short(match[2], root.resolve())}"', text)
    lined = INLINED.sub("$name", text)
    out.write_text(lined + ONE_NAME if lined != text else text)
    plain.write_text(LINES.sub("", text))


if __name__ == "__main__":
    main()
