#!/usr/bin/env python3
"""Prints the reasons why tests were skipped, and fails when a package is missing, or when more tests are skipped than a
stage of scripts/test allows.

scripts/skips.py LIMIT LOG...    LOG: output of pytest -rs, or ctest's Testing/Temporary/LastTest.log
"""

import collections
import pathlib
import re
import sys

PYTEST = re.compile(r"^SKIPPED \[(\d+)\] [^ ]+: (.*)$")
GOOGLE_TEST = re.compile(r"^\S+:\d+: Skipped$")

MISSING = re.compile(r"could not import '(\w+)")


def optional_modules():
    """Returns the modules that bench/requirements.txt installs: the first word of the package, as in faiss-cpu."""
    lines = (pathlib.Path(__file__).resolve().parents[1] / "bench/requirements.txt").read_text().splitlines()
    return {re.split(r"\W", line)[0] for line in lines if line and line[0].isalpha()}


def count_reasons(text):
    """Returns the number of tests that were skipped for each reason."""
    counts = collections.Counter()
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if match := PYTEST.match(line):
            counts[match[2]] += int(match[1])
        elif GOOGLE_TEST.match(line):
            counts[lines[number + 1].strip() if number + 1 < len(lines) else ""] += 1
    return counts


def main(limit, *logs):
    counts = sum((count_reasons(pathlib.Path(log).read_text(errors="replace")) for log in logs), collections.Counter())
    for reason, count in counts.most_common():
        print(f"skipped {count}: {reason}")
    print(f"{counts.total()} tests were skipped; at most {limit} are allowed")
    lost = {name[1] for reason in counts if (name := MISSING.match(reason))} - optional_modules()
    for name in sorted(lost):
        print(f"the module {name} is missing, which whole modules of tests may need; scripts/setup installs it")
    return bool(lost) or counts.total() > int(limit)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
