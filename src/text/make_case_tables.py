"""Writes case_tables.cpp: how characters are lower-cased, and what decides over Greek's final sigma.

    python src/text/make_case_tables.py [--check]    --check: writes nothing, and fails where the file would change

The small letters are those of the `tokenizers` package, whose Lowercase the tokenizer of SigLIP 2 uses; Python's own
str.lower() must agree on all characters that both know. Which characters are cased and which are ignorable is asked of
str.lower(), by giving it each character before a sigma.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import unicodedata

from tokenizers.normalizers import Lowercase

HERE = pathlib.Path(__file__).resolve().parent
SCALARS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
FINAL = "\u03c2"


def small_letters() -> dict[int, int]:
    """Characters to their small letters, without U+0130, the one that becomes two characters."""
    lower = Lowercase()
    table = {}
    for code in SCALARS:
        small = lower.normalize_str(chr(code))
        if unicodedata.category(chr(code)) != "Cn" and small != chr(code).lower():
            raise SystemExit(f"tokenizers and Python differ on U+{code:04X}: {small!r}, {chr(code).lower()!r}")
        if code == 0x130:
            assert small == "i\u0307", small
        elif small != chr(code):
            (only,) = small
            table[code] = ord(only)
    return table


def lower_ranges(table: dict[int, int]) -> list[tuple[int, int, int, int]]:
    """(first, last, step, distance): steps of 2 where large and small letters take turns."""
    ranges: list[tuple[int, int, int, int]] = []
    for code, small in sorted(table.items()):
        distance = small - code
        if ranges:
            first, last, step, same = ranges[-1]
            gap = code - last
            if same == distance and gap in (1, 2) and (first == last or gap == step):
                ranges[-1] = (first, code, gap, distance)
                continue
        ranges.append((code, code, 1, distance))
    return ranges


def sigma_ranges() -> list[tuple[int, int, str]]:
    """(first, last, class) of the characters over which the search for a letter beside a sigma does not simply end."""
    ranges: list[tuple[int, int, str]] = []
    for code in range(0x110000):
        after_letter = ("a" + chr(code) + "\u03a3").lower()[-1] == FINAL
        after_space = (" " + chr(code) + "\u03a3").lower()[-1] == FINAL
        assert after_letter or not after_space
        if not after_letter:
            continue
        kind = "kCased" if after_space else "kIgnorable"
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == kind:
            ranges[-1] = (ranges[-1][0], code, kind)
        else:
            ranges.append((code, code, kind))
    return ranges


def source() -> str:
    lower = ", ".join(f"{{0x{a:x}, 0x{b:x}, {s}, {d}}}" for a, b, s, d in lower_ranges(small_letters()))
    sigma = ", ".join(f"{{0x{a:x}, 0x{b:x}, {k}}}" for a, b, k in sigma_ranges())
    text = f"""// Written by make_case_tables.py: small letters, and the characters that matter beside a sigma.
#include "text/case_tables.hpp"

namespace fovea::text {{
namespace {{

constexpr auto kCased = SigmaRange::Kind::kCased;
constexpr auto kIgnorable = SigmaRange::Kind::kIgnorable;

constexpr LowerRange kLowerRanges[] = {{{lower}}};

// Of Unicode {unicodedata.unidata_version}.
constexpr SigmaRange kSigmaRanges[] = {{{sigma}}};

}}  // namespace

std::span<const LowerRange> lower_ranges() {{ return kLowerRanges; }}

std::span<const SigmaRange> sigma_ranges() {{ return kSigmaRanges; }}

}}  // namespace fovea::text
"""
    formatted = subprocess.run(
        ["clang-format-19", f"--assume-filename={HERE / 'case_tables.cpp'}"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return formatted.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    path = HERE / "case_tables.cpp"
    text = source()
    if not arguments.check:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit(f"{path}: differs from what {sys.argv[0]} writes; run it without --check")


if __name__ == "__main__":
    main()
