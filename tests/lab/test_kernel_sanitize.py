"""`fovea kernel sanitize` on a stand-in for compute-sanitizer: it hangs, reports, fails, and counts as clean what is
clean."""

import json
import re

import pytest

CASES = '{"gpu": "a GPU", "arch": 90, "checks": [{"case": "a", "kernels": ["layer_norm_bf16_3"], "passed": true}]}'
WRONG_CASES = (
    '{"checks": [{"case": "a", "kernels": ["layer_norm_bf16_3"], "passed": false, "reason": "two values differ"}]}'
)
SANITIZER = f"""#!/bin/sh
if test "$1" = --version; then echo "Version 2025.3.1"; exit; fi
tool=$2
cases='{CASES}'
for last; do :; done
if test "$tool" = "$HANGS"; then sleep 60; fi
if test "$tool" = "$BREAKS"; then echo "Error: cannot connect to the driver"; exit 1; fi
if test "$tool" = "$WRONG"; then cases='{WRONG_CASES}'; fi
if test "$tool" != "$EMPTY"; then echo "$cases" > "${{last#--json=}}"; fi
echo $tool >> "$ORDER"
errors=0
if test "$tool" = "$FINDS"; then errors=2; fi
if test $tool = racecheck; then echo "========= RACECHECK SUMMARY: $errors hazards displayed ($errors errors, 0 warnings)"
else echo "========= ERROR SUMMARY: $errors errors"; fi
test $errors = 0 || exit 9
if test "$tool" = "$WRONG"; then exit 1; fi
if test "$tool" = "$EXITS"; then echo "it broke"; exit 3; fi
"""
TOOLS = ["synccheck", "racecheck", "memcheck", "initcheck"]


@pytest.fixture
def sanitize(run_fovea, fovea_bin, tmp_path):
    """sanitize(arguments, code, variables): the result file, in which tools are by their names, and what was
    printed."""
    driver = fovea_bin.parents[1] / "tests/fakes"
    if not (driver / "libcuda.so.1").exists():
        pytest.skip("the stand-in for the GPU's driver was not built")
    tool = tmp_path / "bin" / "compute-sanitizer"
    tool.parent.mkdir()
    tool.write_text(SANITIZER)
    tool.chmod(0o755)

    def run(*arguments, code=0, **variables):
        env = {
            "PATH": f"{tool.parent}:/usr/bin:/bin",
            "LD_LIBRARY_PATH": str(driver),
            "ORDER": str(tmp_path / "order"),
        } | variables
        command = ("kernel", "sanitize", *(arguments or ["layer_norm"]), "--jobs", "1", "--output", tmp_path / "logs")
        printed = run_fovea(*command, code=code, env=env)
        return json.loads((tmp_path / "logs/sanitizers.json").read_text()), printed.stdout

    return run


def test_all_tools_run_hangs_first_and_are_filed(sanitize, tmp_path):
    filed, _ = sanitize()
    assert (tmp_path / "order").read_text().split() == TOOLS
    assert [filed["kind"], filed["sanitizer"], filed["not_launched"]] == ["sanitizers", "2025.3.1", {}]
    assert all(run["passed"] and run["cases"] == {"a": ["layer_norm_bf16_3"]} for run in filed["tools"])
    for tool in TOOLS:
        command = (tmp_path / f"logs/{tool}-layer_norm.log").read_text().splitlines()[0]
        leaks = " --leak-check full" if tool == "memcheck" else ""
        options = re.escape(f"--tool {tool} --error-exitcode 9{leaks}")
        check = "kernel check --small layer_norm --seeds 1 --gpu 0"
        assert re.fullmatch(rf"\S+/compute-sanitizer {options} \S+/fovea {check} --json=\S+", command), command


def test_cards_with_most_cases_begin_first(sanitize):
    filed, _ = sanitize("pool", "layer_norm", "--tool", "memcheck")
    assert [run["card"] for run in filed["tools"]] == ["layer_norm", "pool"]


def test_a_hang_ends_at_its_limit_and_costs_no_other_tool(sanitize):
    filed, _ = sanitize("layer_norm", "pool", "--most-seconds", "1", code=1, HANGS="synccheck")
    reasons = [run["reason"] for run in filed["tools"]]
    assert reasons == ["time limit of 1 s exceeded"] * 2 + ["not run because synccheck exceeded the time limit"] * 6


@pytest.mark.parametrize("tool", TOOLS)
def test_what_a_tool_finds_fails(sanitize, tool):
    filed, printed = sanitize(code=1, FINDS=tool)
    assert {run["tool"]: run["errors"] for run in filed["tools"] if not run["passed"]} == {tool: 2}
    assert "3/4 passed" in printed


def test_a_tool_without_a_summary_fails_in_its_own_words(sanitize):
    filed, _ = sanitize(code=1, BREAKS="memcheck")
    assert "cannot connect to the driver" in filed["tools"][2]["reason"] and not filed["tools"][2]["passed"]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("WRONG", "case a is wrong: two values differ"),
        ("EMPTY", "nothing was checked"),
        ("EXITS", "exit code 3: ========= ERROR SUMMARY: 0 errors\nit broke"),
    ],
)
def test_a_clean_summary_is_not_enough(sanitize, how, reason):
    filed, printed = sanitize(code=1, **{how: "initcheck"})
    assert {run["tool"]: run["reason"] for run in filed["tools"] if not run["passed"]} == {"initcheck": reason}
    assert all(run["errors"] == 0 for run in filed["tools"]) and "3/4 passed" in printed


def test_without_cards_every_kernel_has_to_be_launched(sanitize, run_fovea):
    if "without the CUDA compiler" in run_fovea("kernel", "resources", code=None).stderr:
        pytest.skip("this program has no kernels: scripts/build --test builds them")
    filed, printed = sanitize("--tool", "initcheck", code=1)
    assert "FAIL initcheck" in printed and "layer_norm_bf16_3" not in filed["not_launched"]["initcheck"]
    assert len(filed["not_launched"]["initcheck"]) > 100


def test_what_is_missing_is_told(run_fovea, tmp_path):
    message = run_fovea("kernel", "sanitize", code=1, env={"PATH": str(tmp_path)}).stderr
    assert "compute-sanitizer is neither on the PATH" in message and "install" in message
    assert "no tool 'x'; there are: synccheck" in run_fovea("kernel", "sanitize", "--tool", "x", code=2).stderr
