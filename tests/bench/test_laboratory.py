"""bench/run_gpu.py files what the laboratory's commands leave, and bench/report.py makes tables of it."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.append(str(BENCH))
import laboratory
import report

# A program that leaves what the laboratory's commands leave.
STAND_IN = '''#!{python}
import json, pathlib, sys
words = sys.argv[1:]
def after(option): return pathlib.Path(words[words.index(option) + 1])
machine = {{"date": "2026-11-24", "commit": "c0ffee", "gpu": {{"name": "a GPU"}}}}
if words[1] == "list":
    print("pool  pooling\\n  case\\nlayer_norm  rows")
elif "--gate" in words:
    gates = [{{"figure": "tensor", "sense": "at_least", "limit": 0.4, "model": "half of the roof", "reading": 0.087, "passed": False}}]
    level = {{"card": "attention", "case": "b2", "level": "wmma", "kernel": "k", "passed": False, "gates": gates}}
    after("--record").write_text(json.dumps({{"kind": "gates", "machine": machine, "levels": [level]}}))
    sys.exit(1)
elif words[1] == "profile":
    found = [{{"rule": "r", "seen": {{"barrier": 0.43}}, "means": "Roles are out of step.", "try": "stages"}}]
    text = json.dumps({{"kind": "profile", "machine": machine, "card": words[2], "case": "c", "kernel": "k", "level": "", "plan": "",
                        "seconds": 5e-6, "figures": {{"dram": 0.31}}, "stalls": {{"barrier": 0.43}}, "findings": found}})
    pathlib.Path(str(after("--output")) + ".json").write_text(text)
    pathlib.Path(str(after("--output")) + ".ncu-rep").write_text("large")
elif words[1] == "sanitize":
    run = {{"tool": "memcheck", "card": "pool", "passed": True, "seconds": 12.0, "errors": 0, "log": ""}}
    (after("--output") / "sanitizers.json").write_text(json.dumps({{"kind": "sanitizers", "machine": None, "tools": [run]}}))
elif words[1] == "compare":
    text = {{"kind": "compare", "machine": machine, "a": {{"what": "this"}}, "b": {{"what": words[4]}}, "verdict": "SLOWER",
             "ratio": 1.021, "interval": [1.019, 1.023], "rounds": 16, "counters": [{{"name": "l2_hits", "a": 0.5, "b": 40}}]}}
    if words[-1] == "--json":
        print(json.dumps(text))
    else:
        pathlib.Path(words[-1].removeprefix("--json=")).write_text(json.dumps(text))
elif words[1] == "run":
    print('{{"ready": true}}', flush=True)
    for line in sys.stdin:
        print(json.dumps({{"seconds": 1.02e-4 if "--sources" in words else 1e-4, "sm_mhz": 1980}}), flush=True)
elif words[1] == "evolve":
    one = {{"kind": "candidate", "number": 1, "valid": True, "speed_up": 1.25, "parameters": {{"stages": 4}}, "cost_seconds": 2}}
    run = {{"kind": "run", "machine": machine, "card": words[2], "case": "c", "level": "wmma", "population": "best", "proposer": ["built-in"]}}
    after("--ledger").write_text(json.dumps(run) + "\\n" + json.dumps(one) + "\\n" + '{{"kind": "candidate", "num')
else:
    sys.exit(2)
'''


@pytest.fixture
def stand_in(tmp_path):
    program = tmp_path / "fovea"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    return program


def run_gpu(stand_in, *words, code=0):
    place = stand_in.parent / "results" / "nvidia-x" / "2026-11-24-1-c0ffee.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, BENCH / "run_gpu.py", "--fovea", stand_in, "--json", place, *words]
    environment = os.environ | {"FOVEA_BENCH_COMMIT": "decaf"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert done.returncode == code, done.stderr
    return place, done.stderr


def test_sections_are_filed_and_become_tables(stand_in, monkeypatch):
    place, _ = run_gpu(stand_in, "profiles", "gates", "sanitizers", "compare", "evolve", "--evolve", "attention --level wmma --budget 1m")
    folder = place.with_suffix("")
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert found == ["compare/attention.json", "compare/gemm_qkv.json", "evolve/1.jsonl", "gates.json", "profiles/layer_norm.json",
                     "profiles/pool.json", "sanitizers.json"]
    assert not place.exists()  # a file without a section is none
    machine = json.loads((folder / "sanitizers.json").read_text())["machine"]
    assert machine["commit"] == "decaf" and machine["cpu"]
    assert json.loads((folder / "gates.json").read_text())["machine"]["commit"] == "c0ffee"  # what the program says counts
    monkeypatch.setattr(report, "RESULTS", place.parent.parent)
    page = report.page({})
    for part in ("| attention | b2 | wmma | tensor | at least 40.0% | 8.7% | MISSED | half of the roof |", "0 of 1 levels",
                 "| pool | c |  | 5 us | dram 31.0% | barrier 43% | Roles are out of step. (barrier 43.0%) |",
                 "| this | ", "| SLOWER | 1.0210 | 1.0190 to 1.0230 | 16 |", "| memcheck | 1 | 0 | 12 |",
                 "| attention | c | wmma | best | 1 | 100% | 1.250x | 1.250x | - | stages 4 | 2 | it was interrupted |"):
        assert part in page


def test_planted_causes_and_verdicts_become_tables(stand_in, monkeypatch):
    place, _ = run_gpu(stand_in, "verdicts", "--runs", "2", "--slower", stand_in)
    assert json.loads((place.with_suffix("") / "verdicts/2.json").read_text())["what"] == "a build that is 2% slower"
    place, _ = run_gpu(stand_in, "planted", "verdicts", "--runs", "2")
    monkeypatch.setattr(report, "RESULTS", place.parent.parent)
    page = report.page({})
    assert "| banks | bank conflicts | r | SLOWER | 1.021 | l2 hits 50.0% to 40 |" in page
    assert page.count("| SLOWER | 1.021 |") == 5 and "### Profiles" not in page and "### Comparisons" not in page
    for b, truth in (("the program beside itself", "SAME"), ("sources that are 2% slower", "SLOWER")):
        assert f"| gemm_qkv_bf16 | {b} | {truth} | 2 | SLOWER 2 | 1.0210 to 1.0210 |" in page


def test_only_the_chosen_section_runs(stand_in):
    place, _ = run_gpu(stand_in, "profiles", "--cards", "pool")
    assert [path.name for path in place.with_suffix("").rglob("*.json")] == ["pool.json"]


def test_a_command_that_leaves_nothing_has_failed(stand_in):
    stand_in.write_text("#!/bin/sh\nexit 3\n")
    place, told = run_gpu(stand_in, "gates", code=1)
    assert "left no results (3)" in told and not place.with_suffix("").exists()


@pytest.mark.parametrize("words, told", [(["bench"], "--model is needed"), (["evolve"], "needs --evolve"), (["gate"], "no section gate")])
def test_what_is_missing_is_told_before_anything_runs(stand_in, words, told):
    assert told in run_gpu(stand_in, *words, code=2)[1]


def test_the_newest_counts_and_errors_of_sanitizers_are_no_figures(tmp_path):
    for day, passed in ((2, True), (1, False)):
        folder = tmp_path / f"run-{3 - day}"  # not in the order of their names
        folder.mkdir()
        tools = [{"tool": "memcheck", "card": "pool", "passed": passed, "seconds": day, "errors": 0}]
        document = {"kind": "sanitizers", "machine": {"date": f"2026-11-0{day}"}, "tools": tools}
        (folder / "sanitizers.json").write_text(json.dumps(document))
    assert "| memcheck | 1 | 0 | 2 |" in laboratory.section(tmp_path)
    (tmp_path / "run-1" / "sanitizers.json").unlink()
    with pytest.raises(SystemExit, match="memcheck pool"):
        laboratory.section(tmp_path)
