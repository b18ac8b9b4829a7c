"""Runs `fovea emulate` on kernels and launches that a test writes."""

import json
import pathlib
import shutil

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def emulate(run_fovea, tmp_path):
    """emulate(ptx, launch, *options, code=0): its JSON, or with a code of 2 its message."""

    def run(ptx, launch, *options, code=0, **popen):
        (tmp_path / "kernels.ptx").write_text(ptx)
        (tmp_path / "launch.json").write_text(json.dumps(launch))
        done = run_fovea(
            "emulate",
            tmp_path / "kernels.ptx",
            "--launch",
            tmp_path / "launch.json",
            *options,
            "--json",
            code=code,
            **popen,
        )
        return done.stderr if code == 2 else json.loads(done.stdout)

    return run


@pytest.fixture
def nvcc():
    found = shutil.which("nvcc") or ROOT / "build/cuda/bin/nvcc"
    if not pathlib.Path(found).exists():
        pytest.skip("there is no CUDA compiler here: scripts/setup --test installs one")
    return found
