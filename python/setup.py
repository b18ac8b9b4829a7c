"""Builds the native libraries and the program of the source tree around it into the package.

The wheel holds no extension module of one Python version: the library is loaded with ctypes, so one
file serves every Python from 3.10 on."""

import pathlib
import re
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent.parent


def version() -> str:
    found = re.search(r"project\(fovea VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    if not found:
        raise SystemExit(f"{ROOT / 'CMakeLists.txt'} has no version of the project")
    return found[1]


class BuildWithLibrary(build_py):
    """Copies the modules, and next to them the files of CMake's install component `python`."""

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
    """Marks the wheel as platform-specific, although setuptools sees no extension module."""

    def has_ext_modules(self):
        return True


class AnyPython(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


shutil.copy(ROOT / "LICENSE", pathlib.Path(__file__).parent)  # setuptools finds licences only in this folder

setup(
    version=version(),
    scripts=["scripts/fovea"],
    distclass=NativeDistribution,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": AnyPython},
)
