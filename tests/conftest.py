"""Fixtures shared by the Python tests: the program under test."""

import json
import os
import pathlib
import subprocess
import sys

import clean_environment  # noqa: F401
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "scripts"))


@pytest.fixture(scope="session")
def fovea_bin():
    """Path of the program: $FOVEA_BIN, else the release build's."""
    path = pathlib.Path(os.environ.get("FOVEA_BIN", ROOT / "build/release/bin/fovea"))
    assert path.is_file(), f"{path} is not there: run scripts/build or set FOVEA_BIN"
    return path


@pytest.fixture(scope="session")
def model(run_fovea, tmp_path_factory):
    """A tiny model for all tests; `fovea calibrate` writes into its model, so it needs a copy."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    assert str(folder) in run_fovea("init", "--preset", "tiny", "-o", folder).stderr
    before = sorted(folder.iterdir())
    yield folder
    assert sorted(folder.iterdir()) == before


@pytest.fixture(scope="session")
def gpu(run_fovea, tmp_path_factory):
    """Name of the machine's GPU; tests that ask for it are skipped where there is none."""
    folder = tmp_path_factory.mktemp("gpu") / "tiny"  # not `model`, which modules have of their own
    run_fovea("init", "--preset", "tiny", "-o", folder)
    gpus = json.loads(run_fovea("info", folder, "--json").stdout)["gpus"]
    if not gpus:
        pytest.skip("no GPU on this machine")
    return gpus[0].split(" (")[0]


@pytest.fixture(scope="session")
def run_fovea(fovea_bin):
    """run_fovea(*arguments, code=0, env=None, timeout=300, **popen) -> CompletedProcess.

    Asserts the exit code (None: any). stdout and stderr are text; bytes that are not UTF-8
    are kept as surrogates. `env` adds to the environment.
    """

    def run(*arguments, code=0, env=None, timeout=300, **popen):
        result = subprocess.run(
            [fovea_bin, *arguments],
            env=os.environ | (env or {}),
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=timeout,
            check=False,
            **popen,
        )
        assert code is None or result.returncode == code, result.stderr + result.stdout
        return result

    return run
