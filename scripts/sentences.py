#!/usr/bin/env python3
"""Formats the documents with one sentence per line, so that a change of a sentence changes a single line.

    scripts/sentences.py          lists the documents that need formatting
    scripts/sentences.py --fix    formats them

Tables, code, headings, quotations and comments are not changed, and neither are generated documents.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GENERATED = re.compile(r"^docs/(cli|performance)\.md$|^docs/performance/")
# The end of a sentence: its mark, closing characters, and the beginning of the next sentence after white space.
# Abbreviations do not end sentences.
END = re.compile(r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bcf\.)(?<!\bvs\.)(?<=[.!?])([\"')*_]*)\s+(?=[\"'(*_\[<]*[A-Z0-9`])")
ITEM = re.compile(r"( *)([-*+]|\d+\.) +(?=\S)")
ASIDE = re.compile(r"\s*(\||#|>|<!--|</?\w|!\[|\[[^\]]+\]: |$)")


def sentences(text: str) -> list[str]:
    """Splits a paragraph, given as one line, into sentences."""
    # Dots in code and in the targets of links do not end sentences.
    hidden = re.sub(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->", lambda match: "X" * len(match[0]), text)
    hidden = re.sub(r"\.\.\.", "xxx", hidden)
    parts, start = [], 0
    for end in END.finditer(hidden):
        following = text[end.end() :]
        # A line with such a beginning would be parsed as a list item or another block.
        if ITEM.match(following) or ASIDE.match(following):
            continue
        parts.append(text[start : end.end(1)])
        start = end.end()
    return [*parts, text[start:]]


def split(block: list[str], indent: str) -> list[str]:
    """Formats a paragraph or a list item; `indent` is that of its following lines."""
    marker = ITEM.match(block[0])
    lead = marker[0] if marker else indent
    first, *rest = sentences(" ".join([block[0][len(lead) :], *block[1:]]).strip())
    return [lead + first, *(indent + sentence for sentence in rest)]


def formatted(text: str) -> str:
    lines: list[str] = []
    block: list[str] = []
    indent = ""
    fenced = False

    def flush() -> None:
        if block:
            lines.extend(split([block[0], *(line.strip() for line in block[1:])], indent))
            block.clear()

    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            flush()
            fenced = not fenced
            lines.append(line)
        elif fenced or ASIDE.match(line) or (not block and line.startswith("    ") and not ITEM.match(line)):
            flush()
            lines.append(line)
        elif item := ITEM.match(line):
            flush()
            block[:], indent = [line], " " * len(item[0])
        elif block:
            block.append(line)
        else:
            block[:], indent = [line], re.match(" *", line)[0]
    flush()
    return "\n".join(lines)


def documents() -> list[pathlib.Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.splitlines() if not GENERATED.match(name) and (ROOT / name).exists()]


def main() -> int:
    wrong = 0
    for path in documents():
        text = path.read_text()
        if (new := formatted(text)) == text:
            continue
        wrong += 1
        if "--fix" in sys.argv[1:]:
            path.write_text(new)
        else:
            print(
                f"{path.relative_to(ROOT)}: lines must have exactly one sentence each; run scripts/sentences.py --fix"
            )
    return int(wrong > 0 and "--fix" not in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
