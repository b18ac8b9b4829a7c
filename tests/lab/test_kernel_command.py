"""`fovea kernel` on machines without a GPU, and without the tools it runs."""

import shutil

import pytest

has_gpu = shutil.which("nvidia-smi") is not None


@pytest.fixture
def with_kernels(run_fovea):
    if "without the CUDA compiler" in run_fovea("kernel", "resources", code=None).stderr:
        pytest.skip("built without the CUDA compiler")


def test_list_names_cards_and_their_cases(run_fovea):
    listed = run_fovea("kernel", "list").stdout
    assert "layer_norm" in listed
    assert "mutants" in listed and "bench" in listed


@pytest.mark.skipif(has_gpu, reason="this machine has a GPU")
@pytest.mark.parametrize("command", [["check"], ["bench"], ["run", "layer_norm"]])
def test_without_a_driver_the_message_says_so(run_fovea, command):
    result = run_fovea("kernel", *command, code=1)
    assert result.stderr.startswith("fovea: ")
    assert "NVIDIA driver" in result.stderr
    assert "passed" not in result.stdout


def test_unknown_cards_are_answered_with_the_known(run_fovea):
    message = run_fovea("kernel", "check", "no_such_kernel", code=1).stderr
    assert "no_such_kernel" in message
    assert "layer_norm" in message


def test_usage_errors_exit_2(run_fovea):
    run_fovea("kernel", code=2)
    run_fovea("kernel", "check", "--no-such-option", code=2)


def test_profile_without_ncu_says_what_is_missing(run_fovea, tmp_path):
    message = run_fovea("kernel", "profile", "layer_norm", code=1, env={"PATH": str(tmp_path)}).stderr
    assert "ncu is not on the PATH" in message


def test_resources_of_one_card_are_within_its_limits(run_fovea, with_kernels):
    printed = run_fovea("kernel", "resources", "layer_norm").stdout
    assert "within their limits" in printed
    assert "gemm" not in printed


def test_sass_without_a_disassembler_says_what_is_missing(run_fovea, with_kernels, tmp_path):
    message = run_fovea("kernel", "sass", "layer_norm", code=1, env={"PATH": str(tmp_path)}).stderr
    assert "nvdisasm" in message
