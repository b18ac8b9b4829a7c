"""A C program on what `cmake --install` leaves: headers that are whole, a library that is found."""

import os
import pathlib
import shutil
import subprocess

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PHOTOS = sorted((ROOT / "examples" / "photos").glob("*.jpg"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    if not (ROOT / "build/release/lib/libfovea.so").is_file():
        pytest.skip("needs the release build in build/release")
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run(["cmake", "--install", ROOT / "build/release", "--prefix", folder], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def example(installed):
    program = installed / "embed"
    (library,) = installed.glob("lib*/**/libfovea.so")
    warnings = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    subprocess.run(
        [shutil.which("cc"), *warnings, ROOT / "examples/embed.c", "-I", installed / "include", "-L", library.parent,
         "-lfovea", f"-Wl,-rpath,{library.parent}", "-o", program],
        check=True,
    )
    return program


@pytest.fixture(scope="module")
def model(run_fovea, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    run_fovea("init", "--preset", "tiny", "-o", folder)
    return folder


def run(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_what_is_installed(installed):
    found = {path.relative_to(installed).parts[0] for path in installed.rglob("*") if path.is_file()}
    assert found <= {"bin", "include", "lib", "lib64", "embed"}
    assert os.access(installed / "bin/fovea", os.X_OK)
    version = subprocess.run([installed / "bin/fovea", "--version"], capture_output=True, text=True, check=True)
    assert "fovea" in version.stdout


def test_a_c_program_gives_the_values_of_the_command(example, run_fovea, model, tmp_path):
    photos = PHOTOS[:4]
    run_fovea("embed", *photos, "-m", model, "-o", tmp_path / "rows.npy")
    rows = numpy.load(tmp_path / "rows.npy")
    done = run(example, model, *photos)
    assert done.returncode == 0, done.stderr
    cosines = [float(line.split()[0]) for line in done.stdout.splitlines()]
    assert numpy.abs(cosines - rows[1:] @ rows[0]).max() < 1e-4


def test_a_c_program_hears_of_a_broken_photo(example, model, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"\xff\xd8\xff")
    done = run(example, model, PHOTOS[0], broken)
    assert done.returncode == 3
    assert f"{broken}: " in done.stderr
    assert done.stdout.startswith("nan ") or done.stdout.startswith("-nan ")


def test_a_c_program_hears_of_a_missing_model(example, tmp_path):
    done = run(example, tmp_path / "none", PHOTOS[0])
    assert done.returncode == 1
    assert "none" in done.stderr
