#!/usr/bin/env python3
"""Tells why tests were skipped, and fails when a package is missing or more are skipped than a stage of scripts/test
allows.

scripts/skips.py MOST LOG...    LOG: what pytest -rs printed, or ctest's Testing/Temporary/LastTest.log
"""

import collections
import pathlib
import re
import sys

PYTEST = re.compile(r"^SKIPPED \[(\d+)\] [^ ]+: (.*)$")
GOOGLE_TEST = re.compile(r"^\S+:\d+: Skipped$")

MISSING = re.compile(r"could not import '(\w+)")


def optional():
    """The modules that bench/requirements.txt installs, by the first word of their names: faiss-cpu is faiss."""
    lines = (pathlib.Path(__file__).resolve().parents[1] / "bench/requirements.txt").read_text().splitlines()
    return {re.split(r"\W", line)[0] for line in lines if line and line[0].isalpha()}


def reasons(text):
    """How many tests were skipped for each reason."""
    found = collections.Counter()
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if match := PYTEST.match(line):
            found[match[2]] += int(match[1])
        elif GOOGLE_TEST.match(line):
            found[lines[number + 1].strip() if number + 1 < len(lines) else ""] += 1
    return found


def main(limit, *logs):
    found = sum((reasons(pathlib.Path(log).read_text(errors="replace")) for log in logs), collections.Counter())
    for reason, count in found.most_common():
        print(f"skipped {count}: {reason}")
    print(f"{found.total()} tests were skipped; {limit} may be")
    lost = {name[1] for reason in found if (name := MISSING.match(reason))} - optional()
    for name in sorted(lost):
        print(
            f"scripts/setup installs what has the module {name}, which is missing, and whole modules of tests may need it"
        )
    return bool(lost) or found.total() > int(limit)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
