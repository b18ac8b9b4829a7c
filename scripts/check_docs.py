#!/usr/bin/env python3
"""Checks that the paths named in the documents exist, and that no sentence has a figure of speed of its own.
tests/docs/ runs their commands.

Measured figures are in docs/performance.md and the pages below docs/performance/, which are generated, and in the
ledger, docs/experiments/; CONTRIBUTING.md says why. A number with a unit in another document is a limit, a default
or a threshold, and its paragraph or table names the source that has it: <!-- in lab/profile/rules.cpp -->. The number
is looked for there. What a test writes into a document stands between <!-- held by tests/lab/prediction_test.cpp -->
and <!-- to here -->.
Tables that name architectures have all rows of kernels/archs.py."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "kernels"))

import archs  # noqa: E402

# Paths in backticks, with a slash, in one of the project's own folders.
PATH = re.compile(r"`((?:src|include|cli|tests|bench|docs|scripts|examples|fuzz|cmake|python)/[\w./-]+)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
# Generated from results or from the program, or the ledger of what was tried.
WITH_FIGURES = ("docs/performance.md", "docs/performance/", "docs/experiments", "docs/cli.md")
RATES = r"(?:images|photos|texts|queries|rows|[KMGT]i?B)(?:/s\b| (?:per|a) second)|T(?:FL)?OP/s|[GM]Hz\b|W\b|pJ\b"
TIMES = r"(?:ns|us|µs|ms|s|seconds?|min|minutes?|h|hours?)\b"
FIGURE = re.compile(
    rf"(?<![\w.,/*^-])(\d[\d,]*(?:\.\d+)?)(?:x\b| ?%| (?:{TIMES}|{RATES})| times (?:as (?:fast|slow|long|many|much)|faster|slower|more|less))"
)
NUMBER = re.compile(r"(?<![\w.])\d[\d',]*(?:\.\d+)?(?:e[+-]?\d+)?", re.I)
SOURCE = re.compile(r"<!-- in ([\w./, -]+?) -->")
HELD = re.compile(r"<!-- (?:held by (\S+)|bench/report writes from here) -->\n.*?<!-- to here -->", re.S)
SCALES = (1, 1e-2, 1e-3, 1e-6, 1e3)  # percent, milliseconds and microseconds may be written as parts of one


def numbers(text: str) -> list[float]:
    return [float(re.sub("[',]", "", found)) for found in NUMBER.findall(text)]


def figures(name: str, text: str) -> list[str]:
    """What is wrong with the figures of a document."""
    wrong = [
        f"{name}: {path} holds nothing of {name}"
        for path in HELD.findall(text)
        if path and (not (ROOT / path).is_file() or pathlib.Path(name).stem not in (ROOT / path).read_text().lower())
    ]
    text = HELD.sub("", text)
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    for block in re.split(r"\n\s*\n|\n(?=- |\d+\. )", text):
        found = FIGURE.findall(re.sub(r"`[^`]*`", "", SOURCE.sub("", block)))
        if not found:
            continue
        sources = [path.strip() for paths in SOURCE.findall(block) for path in paths.split(",")]
        missing = [path for path in sources if not (ROOT / path).is_file()]
        wrong += [f"{name}: the source of a figure, {path}, is not there" for path in missing]
        known = [number for path in sources if path not in missing for number in numbers((ROOT / path).read_text())]
        for figure in found:
            value = float(figure.replace(",", ""))
            if not any(abs(value * scale - number) <= 1e-9 * max(number, 1e-3) for scale in SCALES for number in known):
                where = (
                    f"is not in {', '.join(sources)}"
                    if sources
                    else "has no source: measured figures belong into docs/performance.md, which is generated"
                )
                wrong.append(f'{name}: {figure} in "{" ".join(block.split())[:70]}..." {where}')
    return wrong


def first_column(name: str, heading: str) -> str:
    """The first column of the first table below a heading."""
    section = (ROOT / name).read_text().split(f"\n## {heading}\n")[1]
    table = section[section.index("\n|") + 1 :].split("\n\n")[0]
    return "\n".join(row.split("|")[1] for row in table.splitlines())


def architectures(rows: tuple[archs.Arch, ...]) -> list[str]:
    """The rows of kernels/archs.py that the tables of GPUs and of emulated ones lack."""
    runs = first_column("docs/gpu.md", "What runs where")
    emulated = first_column("docs/emulator.md", "As a device")
    wrong = [
        f"docs/gpu.md: no row of what runs where has {row.number / 10} ({row.gpus})"
        for row in rows
        if not re.search(rf"(?<![\d.]){row.number // 10}\.{row.number % 10}(?!\d)", runs)
    ]
    return wrong + [
        f"docs/emulator.md: the table of devices lacks `emu:{row.target}`"
        for row in archs.with_code(rows)
        if f"`emu:{row.target}`" not in emulated
    ]


def main() -> int:
    found = architectures(archs.ARCHS)
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    for document in documents:
        text = document.read_text()
        name = str(document.relative_to(ROOT))
        for path in PATH.findall(text):
            if not (ROOT / path).exists():
                found.append(f"{name}: `{path}` does not exist")
        for link in LINK.findall(text):
            if not (document.parent / link).exists():
                found.append(f"{name}: link to {link} leads nowhere")
        if not name.startswith(WITH_FIGURES):
            found += figures(name, text)
    print("\n".join(found) if found else f"documents: the paths in {len(documents)} exist, and figures have sources")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
