"""Writes the tables of case_tables.hpp: how characters are lower-cased, and what decides over Greek's final sigma.

    python src/text/make_case_tables.py OUTPUT.cpp

Both are asked of Python's str.lower(), the latter by giving it each character before a sigma. Letters that Python 3.11
lacks are listed here, as the `tokenizers` package has them, whose Lowercase the tokenizer of SigLIP 2 uses. The build
runs this; tests/text/test_tokenizer.py compares what comes of it with both packages.
"""

import pathlib
import sys
import unicodedata
from collections.abc import Iterator

SCALARS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
FINAL = "\u03c2"
# Capital letters of Unicode 15 to 17, and how far their small letters are: (first, last, distance).
LATER = (
    *((code, code, 1) for code in (0x1C89, 0xA7CC, 0xA7CE, 0xA7D2, 0xA7D4, 0xA7DA)),
    (0xA7CB, 0xA7CB, 0x264 - 0xA7CB),
    (0xA7DC, 0xA7DC, 0x19B - 0xA7DC),
    (0x10D50, 0x10D65, 32),
    (0x16EA0, 0x16EB8, 27),
)


def lower_ranges() -> list[tuple[int, int, int, int]]:
    """(first, last, step, distance): steps of 2 where large and small letters take turns. U+0130 is left out, the one
    that becomes two characters."""
    distances = {code: distance for first, last, distance in LATER for code in range(first, last + 1)}
    for code in SCALARS:
        small = chr(code).lower()
        if len(small) == 1 and small != chr(code):
            distances[code] = ord(small) - code
    ranges: list[tuple[int, int, int, int]] = []
    for code, distance in sorted(distances.items()):
        if ranges:
            first, last, step, same = ranges[-1]
            gap = code - last
            if same == distance and gap in (1, 2) and (first == last or gap == step):
                ranges[-1] = (first, code, gap, distance)
                continue
        ranges.append((code, code, 1, distance))
    return ranges


def sigma_kinds() -> Iterator[tuple[int, str]]:
    """The characters over which the search for a letter beside a sigma does not simply end, and their kinds."""
    for code in SCALARS:
        if ("a" + chr(code) + "\u03a3").lower()[-1] == FINAL:
            after_space = (" " + chr(code) + "\u03a3").lower()[-1] == FINAL
            yield code, "kCased" if after_space else "kIgnorable"


def sigma_ranges() -> list[tuple[int, int, str]]:
    """(first, last, kind)."""
    ranges: list[tuple[int, int, str]] = []
    for code, kind in sigma_kinds():
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == kind:
            ranges[-1] = (ranges[-1][0], code, kind)
        else:
            ranges.append((code, code, kind))
    return ranges


def main() -> None:
    if int(unicodedata.unidata_version.split(".")[0]) < 14:
        sys.exit(f"{sys.argv[0]}: Python 3.11 or newer is needed; this one knows the letters of an older Unicode")
    lower = "".join(f"    {{{a}, {b}, {step}, {distance}}},\n" for a, b, step, distance in lower_ranges())
    sigma = "".join(f"    {{{a}, {b}, SigmaRange::Kind::{kind}}},\n" for a, b, kind in sigma_ranges())
    pathlib.Path(sys.argv[1]).write_text(f"""// Written by make_case_tables.py.
#include "text/case_tables.hpp"

namespace fovea::text {{
namespace {{

constexpr LowerRange kLowerRanges[] = {{
{lower}}};

constexpr SigmaRange kSigmaRanges[] = {{
{sigma}}};

}}  // namespace

std::span<const LowerRange> lower_ranges() {{
  return kLowerRanges;
}}

std::span<const SigmaRange> sigma_ranges() {{
  return kSigmaRanges;
}}

}}  // namespace fovea::text
""")


if __name__ == "__main__":
    main()
