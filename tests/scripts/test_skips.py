"""scripts/skips.py counts what pytest and GoogleTest skip, names the reasons, and fails above the limit."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def skips(limit, *logs):
    return subprocess.run(
        [sys.executable, ROOT / "scripts/skips.py", str(limit), *logs], capture_output=True, text=True, check=False
    )


@pytest.fixture
def logs(tmp_path):
    """What pytest itself prints of three skips, and what GoogleTest prints of two."""
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', range(2))\n"
        "def test_a(n):\n    pytest.skip('no GPU')\n"
        "def test_b():\n    pytest.skip('no network')\n"
        "def test_c():\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "test_some.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    (tmp_path / "pytest.log").write_text(told)
    lines = ["[ RUN      ] A.B", "/x/a_test.cpp:12: Skipped", "no kernels", "", "[  SKIPPED ] A.B (0 ms)"]
    (tmp_path / "LastTest.log").write_text("\n".join([*lines, "[ RUN      ] A.C", "[       OK ] A.C (0 ms)", *lines]))
    return tmp_path / "pytest.log", tmp_path / "LastTest.log"


def test_reasons_are_told(logs):
    told = skips(5, *logs)
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == [
        "skipped 2: no GPU",
        "skipped 2: no kernels",
        "skipped 1: no network",
        "5 tests were skipped; at most 5 are allowed",
    ]


def test_more_than_may_be_fail(logs):
    assert skips(4, *logs).returncode == 1
    assert skips(2, logs[1]).returncode == 0 and skips(1, logs[1]).returncode == 1


@pytest.mark.parametrize(
    ("module", "code"), [("torch", 1), ("PIL.Image", 1), ("skimage", 1), ("openvino", 0), ("faiss", 0)]
)
def test_a_missing_package_fails_whatever_the_limit(tmp_path, module, code):
    """A whole module of tests may be missing, which counts as one skip. Packages for benches alone may be missing."""
    (tmp_path / "pytest.log").write_text(
        f"SKIPPED [1] test_some.py:1: could not import '{module}': No module named '{module}'\n"
    )
    told = skips(99, tmp_path / "pytest.log")
    assert told.returncode == code and f"could not import '{module}'" in told.stdout


def test_a_log_that_is_not_there_is_no_success(tmp_path):
    assert skips(9, tmp_path / "none").returncode == 1
    assert skips(9).returncode != 0
