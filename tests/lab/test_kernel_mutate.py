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
    for mutant in mutants:
        assert mutant["kernel"] == KERNEL[-1] and mutant["schedules"] <= 10
        assert mutant["fate"] == "caught" and mutant["reason"], mutant
    drawn = run_fovea("kernel", "mutate", *KERNEL, "--most", "24", "--seed", "1", "--schedules", "10", "--json")
    assert drawn.stdout == result.stdout


def test_the_table_and_the_exit_code(run_fovea):
    command = ["kernel", "mutate", "layer_norm", "--kernel", "layer_norm_bf16_3", "--schedules", "10"]
    printed = run_fovea(*command, "--least", "100", "--caught").stdout
    assert re.search(r"^no bar\.sync +1 +1 +0$", printed, re.M)
    assert re.search(r"^caught layer_norm_bf16_3, line \d+: no bar\.sync: schedule \d+ of .*: race: ", printed, re.M)
    assert printed.endswith("100.0% caught\n")


@pytest.mark.nightly
def test_survivors_are_named_and_counted(run_fovea, tmp_path):
    # Each of its three roles ends with a bar.warp.sync before the cluster's barrier, which the emulator's lanes do not
    # need.
    kernel = "gemm_sm100_pair_bf16_bias_bf16_64"
    command = ["kernel", "mutate", "gemm_qkv_bf16", "--device", "emu:sm_100a", "--kernel", kernel, "--schedules", "6"]
    found = tmp_path / "found.json"
    printed = run_fovea(*command, "--most", "110", "--least", "100", f"--json={found}", code=1).stdout
    mutants = json.loads(found.read_text())["mutants"]
    syncs = [mutant for mutant in mutants if mutant["kind"] == "no bar.warp.sync"]
    left = [mutant for mutant in syncs if mutant["fate"] == "survived"]
    assert len(left) == 3 and all(mutant["schedules"] == 6 and not mutant["reason"] for mutant in left)
    for mutant in left:
        assert re.search(
            rf"^survived {kernel}, line {mutant['line']} .*: no bar\.warp\.sync: .* \[6 schedules of gemm_qkv_bf16 ",
            printed,
            re.M,
        )
    assert re.search(rf"^no bar\.warp\.sync +{len(syncs) - 3} +{len(syncs)} +0$", printed, re.M)
    share = sum(mutant["fate"] == "caught" for mutant in mutants) / len(mutants)
    assert printed.endswith(f"{100 * share:.1f}% caught\n")
    run_fovea(*command, "--line", str(left[0]["line"]), "--least", "0.1", code=1)
    caught = next(mutant for mutant in syncs if mutant["fate"] == "caught")
    run_fovea(*command, "--line", str(caught["line"]), "--least", "100")


def test_what_is_not_there_is_named(run_fovea):
    command = ["kernel", "mutate", "layer_norm"]
    assert "no mutants" in run_fovea(*command, "--kernel", "layer_norm_bf16_4", code=1).stderr
    assert "no mutants" in run_fovea(*command, "--line", "1", code=1).stderr
