"""Builds the native libraries and the program of the source tree into the package.

The wheel contains no extension module for a specific Python version: the library is loaded with ctypes, so a
single wheel works with Python 3.10 and later."""

import pathlib
import re
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent.parent


def version() -> str:
    match = re.search(r"project\(fovea VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    if not match:
        raise SystemExit(f"cannot find the project's version in {ROOT / 'CMakeLists.txt'}")
    return match[1]


class BuildWithLibrary(build_py):
    """Copies the modules, and the files of CMake's install component `python` next to them."""

    def run(self):
        shutil.rmtree(self.build_lib, ignore_errors=True)  # removes modules that no longer exist
        super().run()
        package = pathlib.Path(self.build_lib).resolve() / "fovea"
        for command in (
            ["cmake", "--preset", "release"],
            ["cmake", "--build", "--preset", "release", "--target", "python_libraries"],
            ["cmake", "--install", "build/release", "--component", "python", "--prefix", package, "--strip"],
        ):
            subprocess.run(command, cwd=ROOT, check=True)


class NativeDistribution(Distribution):
    """Marks the wheel as platform-specific, although it has no extension modules for setuptools."""

    def has_ext_modules(self):
        return True


class AnyPython(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


shutil.copy(ROOT / "LICENSE", pathlib.Path(__file__).parent)  # setuptools looks for licences only in this folder

setup(
    version=version(),
    scripts=["scripts/fovea"],
    distclass=NativeDistribution,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": AnyPython},
)
