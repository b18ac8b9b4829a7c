#!/usr/bin/env python3
"""Checks that the paths named in the documents exist. tests/docs/ runs their commands."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# In backticks, with a slash, in one of the project's own folders.
PATH = re.compile(r"`((?:src|include|cli|tests|bench|docs|scripts|examples|fuzz|cmake|python)/[\w./-]+)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def main() -> int:
    found = []
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")]
    for document in documents:
        text = document.read_text()
        name = document.relative_to(ROOT)
        for path in PATH.findall(text):
            if not (ROOT / path).exists():
                found.append(f"{name}: `{path}` does not exist")
        for link in LINK.findall(text):
            if not (document.parent / link).exists():
                found.append(f"{name}: link to {link} leads nowhere")
    print("\n".join(found) if found else f"documents: the paths in {len(documents)} exist")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
