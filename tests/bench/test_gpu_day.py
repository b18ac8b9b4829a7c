"""bench/gpu_day.py keeps what each step gave, and says which failed."""

import base64
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A program that leaves what the laboratory's commands leave; profiles fail.
STAND_IN = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
if words[1] == "check":
    pathlib.Path(words[-1].removeprefix("--json=")).write_text(json.dumps({{"checks": [{{"card": "pool", "passed": True}}]}}))
elif words[1] == "capture":
    pathlib.Path(words[-1]).write_bytes(b"\\0outputs")
elif words[1] == "list":
    print("pool  pooling")
elif words[1] == "bench":
    pathlib.Path(words[-1].removeprefix("--json=")).write_text(json.dumps({{"kernels": {{"figures": [{{"card": "pool"}}]}}}}))
elif words[1] == "sanitize":
    machine = {{"gpu": {{"name": "a GPU", "arch": 100}}}}
    folder = pathlib.Path(words[words.index("--output") + 1])
    (folder / "sanitizers.json").write_text(json.dumps({{"kind": "sanitizers", "machine": machine, "runs": 3}}))
else:
    sys.exit("no profiler here")
"""


@pytest.fixture
def program(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "fovea"
    path.write_text(STAND_IN.format(python=sys.executable))
    path.chmod(0o755)
    return path


def day(program: pathlib.Path, out: pathlib.Path, *words: str) -> tuple[int, dict]:
    command = [sys.executable, ROOT / "bench/gpu_day.py", "--out", out, "--fovea", program, *words]
    code = subprocess.run(command, capture_output=True, check=False).returncode
    return code, json.loads(out.read_text())


def test_keeps_what_each_step_gave(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    code, found = day(program, tmp_path / "new/day.json", "check", "capture", "kernels", "sanitizers")
    assert code == 0 and found["kind"] == "gpu_day"
    steps = found["steps"]
    assert list(steps) == ["check", "capture", "kernels", "sanitizers"]
    assert steps["check"]["check"]["checks"][0]["passed"]
    assert base64.b64decode(steps["capture"]["captures_base64"]) == b"\0outputs"
    assert steps["kernels"]["kernels"]["figures"] == [{"card": "pool"}]
    assert steps["sanitizers"]["documents"]["sanitizers.json"]["runs"] == 3
    assert all(step["exit"] == 0 and step["said"] == [] for step in steps.values())


def test_a_step_that_fails_says_so_and_the_others_go_on(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    code, found = day(program, tmp_path / "day.json", "profiles", "check")
    assert code == 1
    assert found["steps"]["profiles"]["exit"] != 0
    assert any("no profiler here" in line for line in found["steps"]["profiles"]["said"])
    assert found["steps"]["check"]["exit"] == 0


def test_a_step_without_its_result_has_failed(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    program.write_text(program.read_text().replace('json.dumps({"checks"', '"{" + json.dumps({"checks"'))
    code, found = day(program, tmp_path / "day.json", "check", "capture")
    assert code == 1
    assert found["steps"]["check"]["exit"] == "left no check"
    assert found["steps"]["capture"]["exit"] == 0


def test_an_unknown_step_is_refused(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    command = [sys.executable, ROOT / "bench/gpu_day.py", "--out", tmp_path / "day.json", "--fovea", program, "chek"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "unknown step: chek" in done.stderr
