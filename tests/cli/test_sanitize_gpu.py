"""scripts/sanitize-gpu on stand-ins for the GPU's tools: what it counts as clean, and that no kernel is left out."""

import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "sanitize-gpu"
sys.path += [str(ROOT / "kernels"), str(ROOT / "bench")]

import report  # noqa: E402
import variants  # noqa: E402

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
SHIPPED = sorted(variants.shipped_for(90))

# The tool runs the program and says how many errors it found; $ERRORS_OF names the tool that finds some.
SANITIZER = """#!/bin/sh
if test "$1" = --version; then echo "Version 2025.3.1"; exit; fi
tool=$2
while test "$1" != kernel; do shift; done
"$FOVEA" "$@"
status=$?
errors=0
if test "$tool" = "$ERRORS_OF"; then errors=2; fi
if test $tool = racecheck; then echo "========= RACECHECK SUMMARY: $errors hazards displayed ($errors errors, 0 warnings)"
else echo "========= ERROR SUMMARY: $errors errors"; fi
if test $status != 0; then exit $status; fi
test $errors = 0 || exit 9
"""
# Two cards, which launch half of the kernels each.
PROGRAM = f"""#!{sys.executable}
import json, os, sys
if sys.argv[2] == "list":
    sys.exit(print("first sm_90 a card\\n    a_case check\\nsecond sm_90 another"))
kernels = {SHIPPED}
launched = kernels[:50] if sys.argv[4] == "first" else kernels[50:]
if os.environ.get("LEFT_OUT") in launched:
    launched.remove(os.environ["LEFT_OUT"])
failed = os.environ.get("FAILED") == sys.argv[4]
checks = [{{"card": sys.argv[4], "case": "a_case", "plan": "", "kernels": launched, "passed": not failed, "reason": ""}}]
json.dump({{"gpu": "a GPU", "arch": 90, "checks": checks}}, open(sys.argv[-1].removeprefix("--json="), "w"))
sys.exit(int(failed))
"""


@pytest.fixture
def sanitize(tmp_path):
    for name, text in (("compute-sanitizer", SANITIZER), ("fovea", PROGRAM)):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def start(*arguments, **environment):
        environment |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FOVEA": str(tmp_path / "fovea")}
        return subprocess.run(
            [sys.executable, SCRIPT, *arguments], env=os.environ | environment, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip

    return start


def test_every_card_runs_under_every_tool_and_is_filed(sanitize, tmp_path):
    file = tmp_path / "results" / "one.json"
    done = sanitize("--json", file, FOVEA_BENCH_COMMIT="123")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "8/8 clean"
    report = json.loads(file.read_text())
    assert report["machine"]["commit"] == "123"
    assert report["sanitizer"]["version"] == "2025.3.1"
    runs = report["sanitizer"]["runs"]
    assert sorted((run["tool"], run["card"]) for run in runs) == sorted(
        (tool, card) for tool in TOOLS for card in ("first", "second")
    )
    assert all(run["clean"] and run["errors"] == 0 for run in runs)
    assert sorted(runs[0]["cases"]["a_case"] + runs[1]["cases"]["a_case"]) == SHIPPED


@pytest.mark.parametrize("tool", TOOLS)
def test_what_a_tool_finds_fails(sanitize, tool):
    done = sanitize(ERRORS_OF=tool)
    assert done.returncode == 1
    assert f"{tool} first: NOT clean" in done.stdout
    assert done.stdout.splitlines()[-1] == "6/8 clean"


def test_wrong_results_fail(sanitize):
    done = sanitize(FAILED="second")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "4/8 clean"


def test_a_kernel_that_was_not_launched_fails(sanitize):
    done = sanitize(LEFT_OUT=SHIPPED[70])
    assert done.returncode == 1
    assert f"racecheck: 1 kernels were never launched: {SHIPPED[70]}" in done.stdout
    # Of some cards alone nobody expects every kernel.
    assert sanitize("first").returncode == 0


def test_the_page_tells_which_kernels_have_not_run(sanitize, tmp_path):
    file = tmp_path / "one.json"
    assert sanitize("--json", file).returncode == 0
    result = json.loads(file.read_text())["sanitizer"]
    text = report.sanitizer_section(result)
    assert text.count(f"{len(SHIPPED)}/{len(SHIPPED)}") == len(TOOLS)
    assert "Not run" not in text
    # As if the kernel had been added since.
    result["runs"][0]["cases"]["a_case"].remove(SHIPPED[0])
    text = report.sanitizer_section(result)
    assert f"Not run under every tool since they were added: `{SHIPPED[0]}`." in text
    result["runs"][0]["clean"] = False
    with pytest.raises(SystemExit, match="found errors"):
        report.sanitizer_section(result)
