"""What the documents show: their code, split into the commands and programs that a reader would run one by one."""

import pathlib
import re
import shlex
import subprocess
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path for pattern in ("*.md", "docs/*.md", "python/*.md", "examples/**/*.md") for path in ROOT.glob(pattern)
)
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Snippet(NamedTuple):
    where: str  # README.md:40
    language: str
    text: str


def name_of(document: pathlib.Path) -> str:
    return str(document.relative_to(ROOT))


def fences(document: pathlib.Path) -> list[Snippet]:
    text = document.read_text()
    return [
        Snippet(f"{name_of(document)}:{text.count(chr(10), 0, found.start(2)) + 1}", found[1], found[2])
        for found in FENCE.finditer(text)
    ]


def inline_commands(document: pathlib.Path) -> list[Snippet]:
    """`fovea ...` in the text, and only there."""
    text = FENCE.sub(lambda found: "\n" * found[0].count("\n"), document.read_text())
    return [
        Snippet(f"{name_of(document)}:{text.count(chr(10), 0, found.start()) + 1}", "sh", found[1])
        for found in re.finditer(r"(?<!`)`(fovea [^`\n]*)`(?!`)", text)
    ]


def shell_commands(snippet: Snippet) -> list[Snippet]:
    """The commands of a snippet: lines, but those together that bash understands only together."""
    file, first = snippet.where.rsplit(":", 1)
    commands, pending, begun = [], "", 0
    for number, line in enumerate(snippet.text.splitlines(), int(first)):
        if not pending:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            begun = number
        pending += line + "\n"
        unfinished = (
            line.endswith("\\") or subprocess.run(["bash", "-n", "-c", pending], capture_output=True).returncode
        )
        if not unfinished:
            commands.append(Snippet(f"{file}:{begun}", "sh", pending))
            pending = ""
    assert not pending, f"{file}:{begun}: bash does not understand\n{pending}"
    return commands


def words(command: str) -> list[str]:
    """Words of a command as far as they can be told without running it; comments are left out."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)
