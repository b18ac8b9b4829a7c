"""`fovea kernel mutate`: what the emulator notices of mutants of kernels."""

import json
import re

import pytest

pytestmark = pytest.mark.usefixtures("with_kernels")

# A pipeline of copies and products in few lines.
KERNEL = ("gemm_qkv_bf16", "--kernel", "gemm_sm90_cooperative_bf16_bias_bf16_1x64_v4")


def test_drawn_mutants_of_a_kernel_are_caught(run_fovea):
    result = run_fovea("kernel", "mutate", *KERNEL, "--most", "24", "--seed", "1", "--schedules", "10", "--json")
    found = json.loads(result.stdout)
    mutants = found["mutants"]
    assert len(mutants) == 24
    # Its warps are of one group: there is no other for a barrier to be shared with.
    assert {one["kind"] for one in mutants if one["fate"] != "caught"} <= {"barrier of all groups"}
    for one in mutants:
        assert one["kernel"] == KERNEL[-1] and one["schedules"] <= 10
        assert (one["reason"] != "") == (one["fate"] == "caught"), one
    drawn = run_fovea("kernel", "mutate", *KERNEL, "--most", "24", "--seed", "1", "--schedules", "10", "--json")
    assert drawn.stdout == result.stdout


def test_the_table_and_the_exit_code(run_fovea):
    command = ["kernel", "mutate", "layer_norm", "--kernel", "layer_norm_bf16_3", "--schedules", "10"]
    printed = run_fovea(*command, "--least", "100", "--caught").stdout
    assert re.search(r"^no bar\.sync +1 +1 +0$", printed, re.M)
    assert re.search(r"^caught layer_norm_bf16_3, line \d+: no bar\.sync: schedule \d+ of .*: race: ", printed, re.M)
    assert printed.endswith("100.0% caught\n")


def test_survivors_are_named_and_counted(run_fovea):
    command = ["kernel", "mutate", *KERNEL, "--most", "24", "--seed", "1", "--schedules", "10"]
    printed = run_fovea(*command, "--least", "100", code=1).stdout
    assert re.search(rf"^survived {KERNEL[-1]}, line \d+ .*: barrier of all groups: ", printed, re.M)
    assert re.search(r"^barrier of all groups +0 +[12] +0$", printed, re.M)
    run_fovea(*command, "--least", "80")


def test_what_is_not_there_is_named(run_fovea):
    command = ["kernel", "mutate", "layer_norm"]
    assert "no mutants" in run_fovea(*command, "--kernel", "layer_norm_bf16_4", code=1).stderr
    assert "no mutants" in run_fovea(*command, "--line", "1", code=1).stderr
