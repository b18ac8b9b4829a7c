#!/usr/bin/env python3
"""Checks that the paths named in the documents exist, and that every figure in a document has a source.
tests/docs/ runs the documents' commands.

Measured figures are only in docs/performance.md and the pages below docs/performance/, which are generated, and in the
ledger, docs/experiments/; CONTRIBUTING.md gives the reasons. A number with a unit in another document must be a limit,
a default or a threshold, and its paragraph or table must name a source that contains the number, as in <!-- in
lab/profile/rules.cpp -->. Text that a test generates stands between <!-- held by tests/lab/prediction_test.cpp --> and
<!-- to here -->.
Tables of architectures must have all rows of kernels/archs.py."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "kernels"))

import archs  # noqa: E402

# Paths in backticks that begin with a folder of the project.
PATH = re.compile(r"`((?:src|include|cli|tests|bench|docs|scripts|examples|fuzz|cmake|python)/[\w./-]+)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
# Documents that are generated from results or from the program, and the ledger of experiments.
FIGURE_DOCUMENTS = ("docs/performance.md", "docs/performance/", "docs/experiments", "docs/cli.md")
RATES = r"(?:images|photos|texts|queries|rows|[KMGT]i?B)(?:/s\b| (?:per|a) second)|T(?:FL)?OP/s|[GM]Hz\b|W\b|pJ\b"
TIMES = r"(?:ns|us|µs|ms|s|seconds?|min|minutes?|h|hours?)\b"
FIGURE = re.compile(
    rf"(?<![\w.,/*^-])(\d[\d,]*(?:\.\d+)?)(?:x\b| ?%| (?:{TIMES}|{RATES})| times (?:as (?:fast|slow|long|many|much)|faster|slower|more|less))"
)
NUMBER = re.compile(r"(?<![\w.])\d[\d',]*(?:\.\d+)?(?:e[+-]?\d+)?", re.I)
SOURCE = re.compile(r"<!-- in ([\w./, -]+?) -->")
GENERATED = re.compile(r"<!-- (?:held by (\S+)|bench/report writes from here) -->\n.*?<!-- to here -->", re.S)
SCALES = (1, 1e-2, 1e-3, 1e-6, 1e3)  # sources may have percentages and times as fractions of one


def numbers(text: str) -> list[float]:
    return [float(re.sub("[',]", "", number)) for number in NUMBER.findall(text)]


def figures(name: str, text: str) -> list[str]:
    """Returns a message for each figure of a document that has no source."""
    wrong = [
        f"{name}: {path} does not mention {name}"
        for path in GENERATED.findall(text)
        if path and (not (ROOT / path).is_file() or pathlib.Path(name).stem not in (ROOT / path).read_text().lower())
    ]
    text = GENERATED.sub("", text)
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    for block in re.split(r"\n\s*\n|\n(?=- |\d+\. )", text):
        figures_in_block = FIGURE.findall(re.sub(r"`[^`]*`", "", SOURCE.sub("", block)))
        if not figures_in_block:
            continue
        sources = [path.strip() for paths in SOURCE.findall(block) for path in paths.split(",")]
        missing = [path for path in sources if not (ROOT / path).is_file()]
        wrong += [f"{name}: the source of a figure, {path}, does not exist" for path in missing]
        known = [number for path in sources if path not in missing for number in numbers((ROOT / path).read_text())]
        for figure in figures_in_block:
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
    """Returns the first column of the first table below a heading."""
    section = (ROOT / name).read_text().split(f"\n## {heading}\n")[1]
    table = section[section.index("\n|") + 1 :].split("\n\n")[0]
    return "\n".join(row.split("|")[1] for row in table.splitlines())


def architectures(rows: tuple[archs.Arch, ...]) -> list[str]:
    """Returns a message for each row of kernels/archs.py that the tables of GPUs and of emulated devices lack."""
    runs = first_column("docs/gpu.md", "What runs where")
    emulated = first_column("docs/emulator.md", "As a device")
    wrong = [
        f'docs/gpu.md: the table "What runs where" lacks {row.number / 10} ({row.gpus})'
        for row in rows
        if not re.search(rf"(?<![\d.]){row.number // 10}\.{row.number % 10}(?!\d)", runs)
    ]
    return wrong + [
        f"docs/emulator.md: the table of devices lacks `emu:{row.target}`"
        for row in archs.with_code(rows)
        if f"`emu:{row.target}`" not in emulated
    ]


def main() -> int:
    problems = architectures(archs.ARCHS)
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    for document in documents:
        text = document.read_text()
        name = str(document.relative_to(ROOT))
        for path in PATH.findall(text):
            if not (ROOT / path).exists():
                problems.append(f"{name}: `{path}` does not exist")
        for link in LINK.findall(text):
            if not (document.parent / link).exists():
                problems.append(f"{name}: broken link to {link}")
        if not name.startswith(FIGURE_DOCUMENTS):
            problems += figures(name, text)
    print(
        "\n".join(problems) if problems else f"documents: the paths in {len(documents)} exist, and figures have sources"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
