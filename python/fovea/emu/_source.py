"""Sources of kernels: PTX, or CUDA C++ that nvcc compiles to it."""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

from fovea._errors import Error

#: PTX or CUDA C++ as text, or the path of a file of either.
Source = str | os.PathLike[str]

_SUFFIXES = (".ptx", ".cu")


def _compiler() -> str:
    home = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    found = shutil.which("nvcc") or shutil.which("nvcc", path=os.path.join(home, "bin"))
    if found is None:
        raise Error(
            "cannot find nvcc, which compiles CUDA C++ to PTX: put it on the PATH, set CUDA_HOME, or pass PTX instead"
        )
    return found


@functools.lru_cache(maxsize=64)
def _run_compiler(path: str, text: str, arch: str, flags: tuple[str, ...]) -> str:
    """Compiles a file. `text` is its content, so that a file that has changed is compiled again."""
    with tempfile.TemporaryDirectory(prefix="fovea-") as folder:
        ptx = pathlib.Path(folder, "kernels.ptx")
        if not path:
            path = os.path.join(folder, "kernels.cu")
            pathlib.Path(path).write_text(text)
        command = [_compiler(), "-ptx", "-lineinfo", f"-arch={arch}", *flags, "-o", str(ptx), path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Error(f"nvcc cannot compile {path}:\n{done.stderr.strip() or done.stdout.strip()}")
        return ptx.read_text()


def compile(source: Source, *, arch: str = "sm_90a", flags: Sequence[str] = ()) -> str:
    """Returns PTX.

    Args:
        source: a path that ends in .cu or .ptx, or the text of either.
        arch: architecture that nvcc compiles for.
        flags: further options of nvcc, such as ["-DTILE=64", "-Iinclude"].

    Raises:
        fovea.Error: nvcc is needed and not there, or fails; the message has its output.
        OSError: the file cannot be read.
    """
    text = os.fspath(source)
    is_file = not isinstance(source, str) or (text.endswith(_SUFFIXES) and "\n" not in text)
    path = text if is_file else ""
    if is_file:
        text = pathlib.Path(path).read_text()
    if path.endswith(".ptx") or (not path.endswith(".cu") and ".version" in text and ".target" in text):
        return text
    return _run_compiler(path, text, arch, tuple(flags))
