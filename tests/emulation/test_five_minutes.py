"""The walk of docs/emulator.md: a kernel from its source to the finding, and to the mend."""

import os
import pathlib
import re
import shutil

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/emulate"
DOCUMENT = (ROOT / "docs/emulator.md").read_text()
FILL = "  part[i] = x[blockIdx.x * 256 + i];\n"


@pytest.fixture
def with_nvcc(nvcc):
    """Environment in which the program finds the compiler."""
    return {"PATH": f"{pathlib.Path(nvcc).parent}:{os.environ['PATH']}"}


def test_the_missing_barrier_is_found_and_mended(with_nvcc, run_fovea, tmp_path):
    for name in ("sum.cu", "sum.json"):
        shutil.copy(EXAMPLE / name, tmp_path)
    command = ("emulate", "sum.cu", "--launch", "sum.json", "--schedules", "20")
    found = run_fovea(*command, code=1, cwd=tmp_path, env=with_nvcc).stdout
    shown = re.search(r"```text\n(sum\(float.*?)```", DOCUMENT, re.DOTALL)[1]
    first = [re.sub(r" at line \d+", "", text.splitlines()[0]) for text in (shown, found.replace(f"{tmp_path}/", ""))]
    assert first[0] == first[1]
    source = tmp_path / "sum.cu"
    assert FILL in source.read_text()
    source.write_text(source.read_text().replace(FILL, FILL + "  __syncthreads();\n"))
    mended = run_fovea(*command, code=0, cwd=tmp_path, env=with_nvcc).stdout
    assert mended.startswith("20 of 20 schedules clean")


def test_a_template_lists_the_arguments(with_nvcc, run_fovea, tmp_path):
    (tmp_path / "launch.json").write_text(run_fovea("emulate", EXAMPLE / "sum.cu", "--template", env=with_nvcc).stdout)
    done = run_fovea("emulate", EXAMPLE / "sum.cu", "--launch", tmp_path / "launch.json", code=1, env=with_nvcc).stdout
    assert "race" in done


def test_the_document_shows_the_example():
    kernel = (EXAMPLE / "sum.cu").read_text().split("\n", 1)[1]
    assert f"```text\n{kernel}```" in DOCUMENT
    assert f"```json\n{(EXAMPLE / 'sum.json').read_text()}```" in DOCUMENT
