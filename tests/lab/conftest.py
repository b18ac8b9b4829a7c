"""What stands in for a GPU and its tools in the tests of the laboratory's commands."""

import os
import shutil

import pytest


@pytest.fixture
def with_kernels(run_fovea):
    if "without the CUDA compiler" in run_fovea("kernel", "resources", code=None).stderr:
        pytest.skip("this build has no CUDA kernels; scripts/setup installs the compiler")


@pytest.fixture
def with_gpu(fovea_bin):
    """The environment in which there is a GPU, or what stands in for its driver."""
    if shutil.which("nvidia-smi"):
        return {}
    driver = fovea_bin.parents[1] / "tests/fakes"
    if not (driver / "libcuda.so.1").exists():
        pytest.skip("no GPU, and no stand-in for its driver: scripts/build --test builds one")
    return {"LD_LIBRARY_PATH": str(driver)}


@pytest.fixture
def tool(tmp_path):
    """tool(name, script): a program of that name, found before all others; returns the environment for it."""

    def make(name, script):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        return {"PATH": f"{path.parent}:{os.environ['PATH']}"}

    return make
