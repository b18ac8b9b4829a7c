"""mypy --strict accepts what the documents show of Python, with what they take for granted."""

import ast
import builtins
import os
import subprocess
import sys
import textwrap

from snippets import ROOT, fences

# What snippets use before they make it. A snippet that uses another name fails here.
GIVEN = {
    "encoder": "fovea.Encoder",
    "images": "list[fovea.ImageLike]",
    "index": "Index",
    "np": None,
    "photos": "fovea.Collection",
    "torch": None,
}
HEAD = """\
from typing import Protocol
import fovea
import numpy as np
import numpy.typing as npt
import torch

class Index(Protocol):
    def add(self, row: int, vector: npt.NDArray[np.float32]) -> None: ...
"""


def given(text):
    """The names that a snippet takes for granted."""
    tree = ast.parse(text)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    used = {name.id for name in names if isinstance(name.ctx, ast.Load)}
    imported = {
        alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    first = {}
    for name in names:
        first.setdefault(name.id, []).append((name.lineno, name.col_offset, isinstance(name.ctx, ast.Store)))
    stored = {name for name, uses in first.items() if any(is_store for *_, is_store in uses)}
    return used - imported - arguments - stored - set(vars(builtins))


def test_snippets_have_types(tmp_path):
    program = [HEAD]
    snippets = [
        s for document in ("README.md", "docs/python.md") for s in fences(ROOT / document) if s.language == "python"
    ]
    for number, snippet in enumerate(snippets):
        names = sorted(given(snippet.text) - {"fovea"})
        parameters = ", ".join(f"{name}: {GIVEN[name]}" for name in names if GIVEN[name])
        program += [
            f"def snippet_{number}({parameters}) -> None:  # {snippet.where}",
            textwrap.indent(snippet.text, "    "),
        ]
    (tmp_path / "snippets_of_docs.py").write_text("\n".join(program))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "python/pyproject.toml", "--cache-dir", tmp_path / "cache",
         "-m", "snippets_of_docs"],
        cwd=tmp_path, env=os.environ | {"MYPYPATH": f"{tmp_path}:{ROOT / 'python'}"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + (tmp_path / "snippets_of_docs.py").read_text()
