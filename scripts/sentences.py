#!/usr/bin/env python3
"""Keeps the documents at one sentence a line, so that a change of one is a change of one line.

    scripts/sentences.py          names the documents that are not
    scripts/sentences.py --fix    writes them so

Tables, code, headings, quotations and comments stay as they are; so do generated documents and attributions of others.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GENERATED = re.compile(r"^docs/(cli|performance)\.md$|^docs/performance/")
# The end of a sentence: its mark, what closes with it, and a beginning after white space. Not after an abbreviation.
END = re.compile(r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bcf\.)(?<!\bvs\.)(?<=[.!?])([\"')*_]*)\s+(?=[\"'(*_\[<]*[A-Z0-9`])")
ITEM = re.compile(r"( *)([-*+]|\d+\.) +(?=\S)")
ASIDE = re.compile(r"\s*(\||#|>|<!--|</?\w|!\[|\[[^\]]+\]: |$)")


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph of one line."""
    # Code and the targets of links hold no ends, whatever their dots are.
    hidden = re.sub(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->", lambda found: "X" * len(found[0]), text)
    hidden = re.sub(r"\.\.\.", "xxx", hidden)
    parts, start = [], 0
    for end in END.finditer(hidden):
        following = text[end.end() :]
        # A line that begins so would be something else.
        if ITEM.match(following) or ASIDE.match(following):
            continue
        parts.append(text[start : end.end(1)])
        start = end.end()
    return [*parts, text[start:]]


def split(block: list[str], indent: str) -> list[str]:
    """The lines of a paragraph or an item of a list, whose later lines are indented so."""
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
                f"{path.relative_to(ROOT)}: more or less than one sentence a line; scripts/sentences.py --fix writes it so"
            )
    return int(wrong > 0 and "--fix" not in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
