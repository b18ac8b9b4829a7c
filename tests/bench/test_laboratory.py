"""bench/run_gpu.py files what the laboratory's commands leave, and bench/report makes tables of it."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
sys.path.append(str(BENCH))
import machine as bench_machine
import runs
from laboratory_runs import FOREIGN
from report import ages, docs, verdicts

# A program that leaves what the laboratory's commands leave. The card "hangs" makes it wait for a child that leads a
# group of its own, as those under a profiler do, after its first results; "crashes" ends it there.
STAND_IN = """#!{python}
import json, os, pathlib, subprocess, sys
words = sys.argv[1:]
if words == ["--version"]:
    sys.exit(print("fovea 0.1.0\\ncommit     decaf"))
def after(option): return pathlib.Path(words[words.index(option) + 1])
def misbehave():
    if "crashes" in words:
        sys.exit(3)
    if "hangs" in words:
        child = subprocess.Popen(["sleep", "60"], preexec_fn=os.setpgrp)
        (pathlib.Path(__file__).parent / "child").write_text(str(child.pid))
        child.wait()
machine = {{"date": "2026-11-24", "commit": "c0ffee", "gpu": {{"name": "a GPU", "arch": 90}}}}
if words[1] == "list":
    print("pool  pooling\\n  case\\nlayer_norm  rows")
elif "--gate" in words:
    gates = [{{"figure": "matrix_units", "sense": "at_least", "limit": 0.4, "model": "half of the roof", "reading": 0.087, "passed": False,
              "words": "matrix_units 8.7%, at least 40.0% asked"}},
             {{"figure": "dram_bytes", "sense": "at_most", "limit": 2e8, "model": "once", "reading": 1e8, "passed": True}},
             {{"figure": "registers", "sense": "at_most", "limit": 128, "model": "fit", "reading": 96, "passed": True}}]
    level = {{"card": "attention", "case": "b2", "level": "wmma", "kernel": "k", "passed": False, "seconds": 5e-6, "gates": gates}}
    record = json.dumps({{"kind": "gates", "machine": machine, "levels": [level]}})
    if "--record" in words:
        if "--sources" in words:
            sys.exit("a record is of this program's kernels")
        after("--record").write_text(record)
    misbehave()
    if "fails" not in words:
        pathlib.Path(words[-1].removeprefix("--json=")).write_text(record)
    sys.exit(1)
elif words[1] == "profile":
    found = [{{"rule": "r", "seen": {{"barrier": 0.43}}, "means": "Roles are out of step.", "try": "stages"}}]
    text = json.dumps({{"kind": "profile", "machine": machine, "card": words[2], "case": "c", "kernel": "k", "level": "", "plan": "",
                        "seconds": 5e-6, "figures": {{"dram": 0.31}}, "stalls": {{"barrier": 0.43}}, "findings": found}})
    pathlib.Path(str(after("--output")) + ".json").write_text(text)
    pathlib.Path(str(after("--output")) + ".ncu-rep").write_text("large")
elif words[1] == "sanitize":
    run = {{"tool": "memcheck", "card": "pool", "passed": True, "seconds": 12.0, "errors": 0, "log": "",
            "cases": {{"a": ["pool_mean"]}}}}
    (after("--output") / "memcheck-pool.log").write_text(sys.argv[0])
    text = json.dumps({{"kind": "sanitizers", "machine": {{"gpu": machine["gpu"]}}, "tools": [run]}})
    (after("--output") / "sanitizers.json").write_text(text)
elif words[1] == "compare":
    text = {{"kind": "compare", "machine": machine, "a": {{"what": "this"}}, "b": {{"what": words[4] + ", level mma"}},
             "verdict": "SLOWER", "ratio": 1.021, "interval": [1.019, 1.023], "rounds": 16,
             "counters": [{{"name": "l2_hits", "a": 0.5, "b": 40, "work": False}}]}}
    if words[-1] == "--json":
        print(json.dumps(text))
    else:
        pathlib.Path(words[-1].removeprefix("--json=")).write_text(json.dumps(text))
elif words[1] == "run":
    print('{{"ready": true}}', flush=True)
    for line in sys.stdin:
        print(json.dumps({{"seconds": {slower} if "--sources" in words else 1e-4, "sm_mhz": 1980}}), flush=True)
elif words[1] == "evolve" and words[-1] == "honest":
    lines = [{{"kind": "run", "machine": machine}}]
    for number in range(3):
        gate = "process" if words[-2] == "endless" else "proposal"
        lines.append({{"kind": "candidate", "number": number, "valid": number != 1, "failed_at": gate, "why": "<\\x1b> " + sys.argv[0]}})
    lines.append({{"kind": "end", "why": "exhausted", "words": "that was all"}})
    after("--ledger").write_text("".join(json.dumps(line) + "\\n" for line in lines))
elif words[1] == "evolve":
    one = {{"kind": "candidate", "number": 1, "generation": 0, "valid": True, "speed_up": 1.25, "parameters": {{"stages": 4}},
            "cost_seconds": 2, "kept": True}}
    run = {{"kind": "run", "machine": machine, "card": words[2], "case": "c", "level": "wmma", "population": "best",
            "proposer": ["/usr/bin/python3", "{root}/examples/proposer.py"]}}
    after("--ledger").write_text(json.dumps(run) + "\\n" + json.dumps(one) + "\\n" + '{{"kind": "candidate", "num')
    misbehave()
else:
    sys.exit(2)
"""


def program_of(folder, slower=1.02e-4):
    """The stand-in; `slower` is the time of its kernels from other sources."""
    program = folder / "fovea"
    program.write_text(STAND_IN.format(python=sys.executable, root=ROOT, slower=slower))
    program.chmod(0o755)
    return program


@pytest.fixture
def stand_in(tmp_path):
    return program_of(tmp_path)


@pytest.fixture(autouse=True)
def young(monkeypatch):
    """Whatever commit a result names, three others came since."""
    monkeypatch.setattr(ages, "commits", lambda measured, until, folders: 3)


def pages():
    return "\n".join(docs.machine_page(machine, "HEAD") for machine in docs.machines("HEAD"))


def tables(folder):
    return "".join(docs.LABORATORY[kind](group) for kind, group in docs.documents(folder).items())


def command_of(stand_in, *words):
    place = stand_in.parent / "results" / "nvidia-x" / "2026-11-24-1-c0ffee.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    return place, [sys.executable, BENCH / "run_gpu.py", "--fovea", stand_in, "--json", place, *words]


def run_gpu(stand_in, *words, code=0, **variables):
    place, command = command_of(stand_in, *words)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=os.environ | variables)
    assert done.returncode == code, done.stderr
    return place, done.stderr


def ended(stand_in):
    """Whether the child of a program that hung is no more."""
    stat = pathlib.Path(f"/proc/{(stand_in.parent / 'child').read_text()}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_sections_are_filed_and_become_tables(stand_in, monkeypatch):
    place, _ = run_gpu(
        stand_in,
        "profiles",
        "gates",
        "sanitizers",
        "compare",
        "evolve",
        "--evolve",
        "attention --level wmma --budget 1m",
    )
    folder = place.with_suffix("")
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert found == [
        "compare/attention.json",
        "compare/gemm_qkv_bf16.json",
        "compare/saved_profiles.json",
        "evolve/1.jsonl",
        "gates.json",
        "profiles/layer_norm.json",
        "profiles/pool.json",
        "sanitizers.json",
    ]
    assert not place.exists()  # a file without a section is none
    machine = json.loads((folder / "sanitizers.json").read_text())["machine"]
    assert machine["commit"] == "decaf" and machine["cpu"]
    assert (
        json.loads((folder / "gates.json").read_text())["machine"]["commit"] == "c0ffee"
    )  # what the program says counts
    monkeypatch.setattr(docs, "RESULTS", place.parent.parent)
    page = pages()
    for part in (
        "| attention | b2 | wmma, k | matrix units | at least 40% | 8.7% | MISSED | half of the roof |",
        "0 of 1 kernels",
        "| attention | b2 | wmma, k | dram bytes | at most 200 MB | 100 MB | passed | once |",
        "what was reached of: registers (1);",
        "| pool | c |  | 5.00 µs | dram 31% | barrier 43% | Roles are out of step. (barrier 0.430) |",
        "| this | this program, level mma | SLOWER | 1.0210 | 1.0190 to 1.0230 | 16 | l2 hits new |",
        "| memcheck | 1 | 1/1",
        "| attention | c | wmma | proposer.py | 1 | 100% | 1.250x | 1.250x | - | stages 4 | 2 | it was interrupted |",
    ):
        assert part in page


@pytest.mark.parametrize("other", [{"commit": "beef"}, {"host": "12345678"}])
def test_nothing_is_added_to_what_another_program_or_host_measured(stand_in, other):
    place, _ = command_of(stand_in)
    place.write_text(json.dumps({"machine": {"commit": "decaf", "host": bench_machine.host()} | other}))
    _, told = run_gpu(stand_in, "gates", code=2)
    assert f"{place.name} was measured by {{" in told and next(iter(other.values())) in told


def test_nothing_that_is_filed_names_a_folder_of_the_machine(stand_in, tmp_path):
    other = tmp_path / "other" / "fovea"
    words = ["--cards", "attention", "--against", other, "--evolve", "attention"]
    place, _ = run_gpu(stand_in, "compare", "evolve", *words)
    folder = place.with_suffix("")
    assert json.loads((folder / "compare/attention.json").read_text())["b"]["what"] == "another program, level mma"
    run = json.loads((folder / "evolve/1.jsonl").read_text().splitlines()[0])
    assert run["proposer"] == ["python3", "examples/proposer.py"]


def test_no_committed_result_names_a_folder_of_a_machine():
    for path in BENCH.glob("results/**/*"):
        assert path.suffix in ("", ".json", ".jsonl"), f"{path} is no result"
        assert path.is_dir() or not FOREIGN.search(path.read_text()), path


def test_planted_causes_and_verdicts_become_tables(stand_in, monkeypatch):
    place, _ = run_gpu(stand_in, "verdicts", "--runs", "2", "--slower", stand_in)
    slower = place.with_suffix("") / "verdicts/gemm_qkv_bf16-2.json"
    assert json.loads(slower.read_text())["what"] == "a build that is 2% slower"
    place, _ = run_gpu(stand_in, "planted", "verdicts", "--runs", "2")
    monkeypatch.setattr(docs, "RESULTS", place.parent.parent)
    page = pages()
    assert "| banks | bank conflicts | r | SLOWER | 1.021 | l2 hits 0.500 to 40 |" in page
    assert page.count("| SLOWER | 1.021 |") == 5 and "## Profiles" not in page and "## Comparisons" not in page
    for b, truth in (("the program against itself", "SAME"), ("sources that are 2% slower", "SLOWER by 2.00%")):
        assert f"| gemm_qkv_bf16 | {b} | {truth} | 2 | SLOWER 2 | 1.0210 to 1.0210 |" in page


def test_each_hostile_proposer_costs_one_candidate(stand_in, monkeypatch):
    place, _ = run_gpu(stand_in, "hostile")
    folder = place.with_suffix("")
    assert sorted(path.name for path in (folder / "hostile").iterdir()) == [
        "endless.jsonl",
        "garbage.jsonl",
        "hang.jsonl",
    ]
    monkeypatch.setattr(docs, "RESULTS", place.parent.parent)
    page = pages()
    assert "## Evolution" not in page
    for how, gate in (("hang", "proposal"), ("garbage", "proposal"), ("endless", "process")):
        assert re.search(
            rf"\| {how} \| passed \| 1 \| {gate}: &lt;\\x1b> this program \| 1 \| that was all \| 0 \| [\d.]+ \| 2026",
            page,
        )
    # A candidate that should be invalid and is not; a run that did not go on.
    for old, new in (
        ('"valid": number != 1', '"valid": True'),
        ("range(3)", "range(2)"),
        ('"exhausted"', '"interrupted"'),
    ):
        changed = stand_in.with_name("changed")
        changed.write_text(stand_in.read_text().replace(old, new))
        changed.chmod(0o755)
        run_gpu(changed, "hostile", code=1)
        assert not any(one["passed"] for one in json.loads((folder / "hostile.json").read_text())["misdeeds"])


def test_gates_and_a_planted_slow_down(stand_in, tmp_path, monkeypatch):
    """With a copy of the scripts, where another script than torch's and the GPU's says what is chosen."""
    shutil.copytree(BENCH, tmp_path / "bench", ignore=shutil.ignore_patterns("results", "__pycache__"))
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/cpus.py", tmp_path / "scripts")
    shutil.copytree(
        ROOT / "python/fovea/lab", tmp_path / "python/fovea/lab", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "bench/gate_choice.py").write_text(
        "import json, os\nrecord = os.environ['FOVEA_GATE_RECORD']\nours = record == 'none'\n"
        "assert ours or json.load(open(record))['levels']\n"
        "print(json.dumps({'level': 'wgmma' if ours else 'mma', 'kernel': 'k', 'runs': 5, 'notices': [] if ours else ['it runs at mma']}))"
    )
    place, command = command_of(stand_in, "gate_planted")
    command[1] = tmp_path / "bench/run_gpu.py"
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads((place.with_suffix("") / "gate_planted.json").read_text())
    assert found["gates"]["after"]["exit_code"] == 1 and found["gates"]["after"]["levels"][0]["passed"] is False
    monkeypatch.setattr(docs, "RESULTS", place.parent.parent)
    page = pages()
    for row in (
        '| gemm_qkv_bf16 | sources with the planted cause "store" | 1 | wmma: matrix_units 8.7%, at least 40.0% asked |',
        "| none | wgmma | `k` | 5 | 0 | - |",
        "| with that slow-down | mma | `k` | 5 | 1 | it runs at mma |",
    ):
        assert row in page, page


def test_a_speed_up_within_the_spread_is_ambiguous():
    figures = {"speed_up_over_model": 0.8, "seconds": 1e-4, "spread": 0.1, "model_seconds": 8e-5, "model_spread": 0.3}
    assert verdicts.speed_up(figures) == "0.80x AMBIGUOUS (spread 10%, Model's 30%)"
    assert verdicts.speed_up(figures | {"model_spread": 0.05}) == "0.80x (spread 10%, Model's 5.0%)"
    assert verdicts.speed_up({}) == "-"


def test_the_first_that_moved_are_of_both_kinds():
    def counters(work, count):
        return [{"name": f"{work} {number}", "work": work} for number in range(count)]

    names = [one["name"] for one in verdicts.leading_counters(counters(True, 6) + counters(False, 6))]
    assert names == ["True 0", "True 1", "True 2", "False 0", "False 1"]
    assert len(verdicts.leading_counters(counters(False, 6))) == 5


def test_verdicts_are_of_every_card_and_of_nothing_that_is_not_what_it_is_called(stand_in, tmp_path):
    place, _ = run_gpu(stand_in, "verdicts", "--runs", "1", "--cards", "gemm_qkv_bf16,pool")
    found = sorted(path.name for path in place.with_suffix("").rglob("*.json"))
    assert found == ["gemm_qkv_bf16-1.json", "gemm_qkv_bf16-2.json", "pool-1.json", "pool-2.json"]
    (tmp_path / "off").mkdir()
    off = program_of(tmp_path / "off", slower=1.05e-4)
    place, told = run_gpu(off, "verdicts", "profiles", "--cards", "pool", code=1)
    assert "cannot reach a slow-down of 2%" in told and "the closest was 5.00%" in told
    assert [path.name for path in place.with_suffix("").rglob("*.json")] == ["pool.json"]  # of profiles


@pytest.mark.nightly
def test_a_cause_that_no_longer_fits_costs_no_other(stand_in, tmp_path):
    """With a copy of the scripts whose kernels have changed."""
    shutil.copytree(BENCH, tmp_path / "bench", ignore=shutil.ignore_patterns("results", "__pycache__"))
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/cpus.py", tmp_path / "scripts")
    shutil.copytree(
        ROOT / "python/fovea/lab", tmp_path / "python/fovea/lab", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "kernels/attention/row_tile.cuh").write_text("// nothing of it\n")
    place, command = command_of(stand_in, "planted", "profiles", "--cards", "pool")
    command[1] = tmp_path / "bench/run_gpu.py"
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1 and "banks: attention/row_tile.cuh: the text to replace must occur once" in done.stderr
    found = [str(path.relative_to(place.with_suffix(""))) for path in place.with_suffix("").rglob("*.json")]
    assert "profiles/pool.json" in found and len(found) == 9 and not any("banks" in name for name in found)


def test_only_the_chosen_section_runs(stand_in):
    place, _ = run_gpu(stand_in, "profiles", "--cards", "pool")
    assert [path.name for path in place.with_suffix("").rglob("*.json")] == ["pool.json"]


def test_a_command_that_leaves_nothing_has_failed(stand_in):
    stand_in.write_text("#!/bin/sh\nexit 3\n")
    place, told = run_gpu(stand_in, "gates", code=1)
    assert "failed (exit code 3) and left no results" in told and not place.with_suffix("").exists()


def test_what_did_not_end_is_partial_and_leaves_nothing_running(stand_in, monkeypatch):
    place, told = run_gpu(stand_in, "evolve", "--evolve", "hangs", "--evolve", "crashes", "--seconds", "4", code=1)
    assert "failed (timed out after 4 s) and left ledger.jsonl" in told and ended(stand_in)
    for number, why in ((1, "timed out after 4 s"), (2, "exit code 3")):
        lines = (place.with_suffix("") / f"evolve/{number}.jsonl").read_text().splitlines()
        assert [json.loads(line)["kind"] for line in lines] == ["run", "candidate"]
        assert json.loads(lines[0])["partial"] == why
    monkeypatch.setattr(docs, "RESULTS", place.parent.parent)
    assert "2026-11-24 at c0ffee, stopped early: timed out after 4 s, 3 commits ago |" in pages()


def test_gates_that_are_stopped_keep_what_they_measured(stand_in):
    place, command = command_of(stand_in, "gates", "--cards", "hangs")
    record = place.with_suffix("") / "gates.json"
    with subprocess.Popen(command) as process:
        until = time.monotonic() + 30
        while not record.exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    assert json.loads(record.read_text())["partial"] == "it was stopped" and ended(stand_in)


def test_an_error_is_no_missed_gate(stand_in):
    place, told = run_gpu(stand_in, "gates", "--cards", "fails", code=1)
    assert "failed (exit code 1) and left gates.json" in told
    assert json.loads((place.with_suffix("") / "gates.json").read_text())["partial"] == "exit code 1"


def test_answers_are_judged_and_become_a_table(fovea_bin, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    answers = tmp_path / "answers"
    answers.mkdir()
    for name in ("task.py", "right_plain.py"):
        shutil.copy(ROOT / "tests/lab/answers" / name, answers)
    package = {"PYTHONPATH": str(ROOT / "python"), "FOVEA_LIBRARY": str(fovea_bin.parents[1] / "lib/libfovea.so")}
    place, _ = run_gpu(tmp_path / "fovea", "judge", "--answers", answers, "--device", "cpu", **package)
    verdict = json.loads((place.with_suffix("") / "judge/right_plain.json").read_text())
    assert (verdict["task"], verdict["answer"]) == ("task.py", "right_plain.py")
    monkeypatch.setattr(docs, "RESULTS", place.parent.parent)
    assert re.search(
        r"\| `task.py` \| `right_plain.py` \| cpu \| RIGHT \| - \| \d[\d.]*x.* \(spread [\d.]+%, Model's [\d.]+%\) \| 20",
        pages(),
    )


@pytest.mark.parametrize(
    "words, told",
    [(["bench"], "--model is required"), (["evolve"], "needs --evolve"), (["gate"], "unknown section: gate")],
)
def test_what_is_missing_is_told_before_anything_runs(stand_in, words, told):
    assert told in run_gpu(stand_in, *words, code=2)[1]


def write(path, document):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def sanitized(kernels, tools=verdicts.TOOLS, **more):
    """Runs under these tools of one card each, as `fovea kernel sanitize` files them."""
    run = {"card": "pool", "passed": True, "seconds": 1, "errors": 0, "cases": {"a": list(kernels)}} | more
    return [{"tool": tool} | run for tool in tools]


def document_of(tools, date="2026-11-24"):
    return {"kind": "sanitizers", "machine": {"date": date, "gpu": {"arch": 90}}, "tools": tools}


def test_the_newest_counts_and_errors_of_sanitizers_are_no_figures(tmp_path):
    for day, passed in ((2, True), (1, False)):
        folder = tmp_path / f"run-{3 - day}"  # not in the order of their names
        tools = sanitized([], ["memcheck"], passed=passed, seconds=day)
        write(folder / "sanitizers.json", document_of(tools, f"2026-11-0{day}"))
    assert re.search(r"\| memcheck \| 1 \| 0/\d+ \| 0 \| 2 \|", tables(tmp_path))
    (tmp_path / "run-1" / "sanitizers.json").unlink()
    with pytest.raises(SystemExit, match="memcheck pool"):
        tables(tmp_path)


def test_within_a_day_the_tenth_run_is_after_the_second(tmp_path):
    for run in (2, 10):
        write(tmp_path / f"2026-11-24-{run}-ab12/sanitizers.json", document_of(sanitized([], seconds=run)))
        write(tmp_path / f"2026-11-24-{run}-ab12.json", {"machine": {}, "memory": run})
    found = docs.documents(tmp_path)["sanitizers"]
    assert [document.json["tools"][0]["seconds"] for document in found] == [2, 10]
    assert runs.newest(tmp_path)["memory"] == (10, {})


@pytest.mark.parametrize(
    "name, text",
    [
        ("a.json", "[]"),
        ("a.json", "{"),
        ("a.jsonl", "[]\n"),
        ("a.jsonl", ""),
        ("a.json", '{"seconds": NaN}'),
        ("a.json", '{"seconds": 1e300}'),
        ("a.jsonl", '{"kind": "run", "seconds": -Infinity}\n'),
    ],
)
def test_what_is_no_result_is_named(tmp_path, name, text):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).write_text(text)
    with pytest.raises(SystemExit, match=f"run/{name} is not a valid result"):
        docs.documents(tmp_path)


def test_kernels_that_no_sanitizer_saw_are_named_when_they_are_added(tmp_path, monkeypatch):
    shipped = verdicts.variants.shipped_for(90)
    write(tmp_path / "run/sanitizers.json", document_of(sanitized(shipped)))
    text = tables(tmp_path)
    assert f"| racecheck | 1 | {len(shipped)}/{len(shipped)} | 0 |" in text and "Not launched" not in text
    monkeypatch.setattr(verdicts.variants, "shipped_for", lambda arch: shipped | {"new_kernel"})
    assert "Not launched under every tool: `new_kernel`.\n" in tables(tmp_path)
    monkeypatch.setattr(
        verdicts.variants, "shipped_for", lambda arch: shipped | {f"new_{number}" for number in range(20)}
    )
    told = tables(tmp_path)
    assert f"Not launched under every tool: 20 of {len(shipped) + 20} kernels.\n" in told and "new_1" not in told


@pytest.mark.parametrize(
    "confirmation, shown",
    [
        ({"number": 8, "valid": True, "speed_up": 1.48}, "1.500x | 1.480x | stages 3 |"),
        ({"number": 8, "valid": False, "speed_up": 0}, "1.000x | - | stages 2 |"),
        ({"number": 0, "valid": True, "speed_up": 1.01}, "1.000x | 1.010x | stages 2 |"),
        (None, "1.500x | - | stages 3 |"),
    ],
)
def test_the_best_of_an_evolution_is_the_one_that_was_measured_again(tmp_path, confirmation, shown):
    def candidate(number, speed_up, stages, kept):
        return {
            "kind": "candidate",
            "number": number,
            "generation": number,
            "valid": True,
            "speed_up": speed_up,
            "kept": kept,
            "cost_seconds": 1,
            "parameters": {"stages": stages},
        }

    lines = [
        {"kind": "run", "card": "pool", "case": "c", "population": "best", "proposer": ["built-in"]},
        candidate(0, 1.0, 2, True),
        candidate(8, 1.5, 3, True),
        candidate(9, 1.52, 4, False),
    ]
    lines += [{"kind": "confirmation"} | confirmation] if confirmation else []
    (tmp_path / "run").mkdir()
    (tmp_path / "run/1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert f"| 1.500x | {shown}" in tables(tmp_path)
