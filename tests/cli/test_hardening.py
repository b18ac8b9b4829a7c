"""What compiler and linker were asked to harden, read from the program and the library as built."""

import os
import pathlib
import re
import subprocess

import pytest


def readelf(option, path):
    result = subprocess.run(["readelf", option, "-W", path], capture_output=True, text=True, check=True)
    return result.stdout


@pytest.fixture(params=["program", "library"])
def built(request, fovea_bin):
    """The program, then libfovea.so: $FOVEA_LIBRARY, else that of the same build."""
    if request.param == "program":
        return fovea_bin
    path = pathlib.Path(os.environ.get("FOVEA_LIBRARY", fovea_bin.parent.parent / "lib" / "libfovea.so"))
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return path


def test_calls_cannot_be_redirected(built):
    """Tables of addresses are read-only before the first line of the program runs."""
    assert re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b", readelf("-d", built))
    assert "GNU_RELRO" in readelf("-l", built)


def test_data_cannot_be_run(built):
    segments = readelf("-l", built)
    (stack,) = re.findall(r"^\s*GNU_STACK\s.*$", segments, re.MULTILINE)
    assert re.search(r"\sRW\s", stack), stack
    loaded = re.findall(r"^\s*LOAD\s.*$", segments, re.MULTILINE)
    assert loaded and not any(re.search(r"\sRWE\s", line) for line in loaded)


def test_code_lies_anywhere(built):
    assert re.search(r"Type:\s+DYN", readelf("-h", built))


def test_overflows_are_noticed(built):
    imported = readelf("--dyn-syms", built)
    assert "__stack_chk_fail" in imported
    assert re.search(r"\b__\w+_chk\b", imported.replace("__stack_chk_fail", ""))
