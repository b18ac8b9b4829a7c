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
    assert path.is_file(), f"{path} is not there"
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


def is_safe(entry):
    """Whether a folder of libraries is the same whatever the working folder is."""
    return re.fullmatch(r"(/|\$ORIGIN(/|$)|\$\{ORIGIN\}(/|$)).*", entry) is not None


def search_path(path):
    found = re.search(r"\((?:RPATH|RUNPATH)\)\s.*\[(.*)\]", readelf("-d", path))
    return found[1].split(":") if found else []


def elf_files(folder):
    """Programs and libraries below a folder, links left out."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF" and path.suffix != ".o":
                    yield path


@pytest.fixture(params=["build", "prefix"])
def folder_of_libraries(request, fovea_bin, tmp_path):
    """bin and lib of the build, then what `cmake --install` makes of it."""
    build = fovea_bin.parent.parent
    if not (build / "cmake_install.cmake").is_file():
        pytest.skip(f"needs a build folder, and {build} is none")
    if request.param == "build":
        return build
    installed = subprocess.run(
        ["cmake", "--install", build, "--prefix", tmp_path], capture_output=True, text=True, check=False
    )
    assert installed.returncode == 0, installed.stdout + installed.stderr
    return tmp_path


def test_no_library_is_looked_for_in_the_working_folder(folder_of_libraries):
    """An empty or relative entry of a search path is the working folder: whoever can write there would run code."""
    files = [path for name in ("bin", "lib") for path in elf_files(folder_of_libraries / name)]
    assert {"fovea", "libfovea"} <= {path.name.split(".")[0] for path in files}
    unsafe = {str(path): path_of for path in files if not all(map(is_safe, path_of := search_path(path)))}
    assert unsafe == {}


def test_what_is_unsafe_is_seen():
    assert all(map(is_safe, ["/usr/lib", "$ORIGIN", "$ORIGIN/../fovea.libs", "${ORIGIN}/x"]))
    assert not any(map(is_safe, ["", ".", "lib", "../lib", "$ORIGINAL", "$LIB"]))
