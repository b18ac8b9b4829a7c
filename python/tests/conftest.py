"""Fixtures: the tiny model, sample photos, and the program whose values are expected."""

import os
import pathlib
import subprocess
import sys

import fovea
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests"))
import clean_environment  # noqa: F401


@pytest.fixture(scope="session")
def device():
    """The device of the tests: $FOVEA_TEST_DEVICE, else the CPU."""
    return os.environ.get("FOVEA_TEST_DEVICE", "cpu")


@pytest.fixture(scope="session")
def program():
    """program(*arguments) -> CompletedProcess: runs `fovea` ($FOVEA_BIN, else the release build's); fails with its
    message."""
    path = pathlib.Path(os.environ.get("FOVEA_BIN", ROOT / "build/release/bin/fovea"))
    assert path.is_file(), f"{path} is not there: run scripts/build or set FOVEA_BIN"

    def run(*arguments):
        result = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=300, check=False)
        assert result.returncode == 0, result.stderr + result.stdout
        return result

    return run


@pytest.fixture(scope="session")
def model(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    program("init", "--preset", "tiny", "-o", folder)
    return folder


@pytest.fixture(scope="session")
def encoder(model, device):
    with fovea.load(model, device=device) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def photos():
    found = sorted((ROOT / "examples" / "photos").glob("*.jpg"))
    assert len(found) >= 10
    return found


@pytest.fixture(scope="session")
def expected(program, model, device, tmp_path_factory):
    """expected(paths, *options) -> what `fovea embed` gives for the files, float32 [n, d]."""
    folder = tmp_path_factory.mktemp("expected")

    def embed(paths, *options):
        output = folder / "rows.npy"
        output.unlink(missing_ok=True)
        names = folder / "names.txt"
        names.write_text("".join(f"{path}\n" for path in paths))
        program("embed", f"@{names}", "-m", model, "--device", device, "-o", output, "--quiet", *options)
        return np.load(output)

    return embed


@pytest.fixture(scope="session")
def assert_near():
    """Rows of other batches: on the CPU they have the same bits; GPUs may sum in another order."""

    def check(found, wanted):
        apart = np.linalg.norm(found - wanted, axis=-1)
        assert (apart <= 0.005 * np.linalg.norm(wanted, axis=-1)).all(), apart

    return check
