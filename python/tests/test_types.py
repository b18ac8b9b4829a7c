"""mypy --strict over a program that uses the public interface, and over the package itself."""

import os
import pathlib
import subprocess
import sys

import fovea
import pytest

PACKAGE = pathlib.Path(fovea.__file__).parent
HERE = pathlib.Path(__file__).parent


def test_a_program_and_the_package_have_whole_types(tmp_path):
    pytest.importorskip("mypy")
    installed = "site-packages" in PACKAGE.parts  # then mypy finds it by its py.typed alone
    folders = [str(HERE)] if installed else [str(HERE), str(PACKAGE.parent)]
    options = ["--config-file", HERE.parent / "pyproject.toml", "--cache-dir", tmp_path]
    result = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "-m", "typed_program", "-p", "fovea"],
        capture_output=True, text=True, check=False, env=os.environ | {"MYPYPATH": ":".join(folders)},
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, ""), result.stdout + result.stderr


def test_the_program_uses_every_public_name():
    text = (HERE / "typed_program.py").read_text()
    assert [name for name in fovea.__all__ if f"fovea.{name}" not in text] == []
    for kind, variable in ((fovea.Encoder, "encoder"), (fovea.Collection, "photos")):
        methods = [name for name in vars(kind) if not name.startswith("_") and name != "close"]
        assert [name for name in methods if f"{variable}.{name}" not in text] == []


def test_every_public_name_has_a_docstring():
    for name in fovea.__all__:
        if name not in ("__version__", "ImageLike"):
            assert getattr(fovea, name).__doc__, name
    for kind in (fovea.Encoder, fovea.Collection, fovea.LogitScale, fovea.LabelScores):
        for name, member in vars(kind).items():
            if not name.startswith("_") and callable(member) | isinstance(member, property):
                assert member.__doc__, name
