"""`fovea kernel evolve` where there is no GPU: proposers of all kinds, kills and Ctrl-C, and the example's proposer."""

import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HOSTILE = pathlib.Path(__file__).with_name("hostile_proposer.py")
# The proposer that floods is ended when it is asked again, before it can do anything else.
MISDEEDS = ["garbage", "nested", "far", "escape", "broken", "again", "end", "flood", "anything", "hang", "garbage"]
HANGS = 1 + MISDEEDS.index("hang")  # the candidate

pytestmark = pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")


def command(ledger, *more, card="attention", case="b2_h8_n512_d64_f16"):
    proposer = ["--proposer", sys.executable, HOSTILE, *MISDEEDS]
    return ["kernel", "evolve", card, "--level", "wmma", "--case", case, "--ledger", ledger, *more, *proposer]


def lines(ledger):
    return [json.loads(line) for line in ledger.read_text().splitlines()]


def candidates(ledger):
    kept = ("number", "parameters", "valid", "failed_at", "reason")
    return [[line[key] for key in kept] for line in lines(ledger) if line["kind"] == "candidate"]


@pytest.fixture(scope="module")
def hostile(run_fovea, tmp_path_factory):
    """The ledger of a run with a proposer that does everything wrong, and what was printed."""
    ledger = tmp_path_factory.mktemp("evolve") / "hostile.jsonl"
    result = run_fovea(*command(ledger, "--answer-seconds", "5"), code=None)
    if "the first candidate cannot be tried" in result.stderr and "no compiler for kernels" in result.stderr:
        pytest.skip("there is no CUDA compiler")
    assert result.returncode == 0, result.stderr
    return ledger, result


def test_each_misdeed_costs_one_candidate(hostile):
    ledger, result = hostile
    assert "nothing runs" in result.stderr
    assert "1 were not judged: they have not run, and may be wrong" in result.stdout
    assert "<garbage>" in result.stdout and "\x1b" not in result.stdout + result.stderr
    run, *found, end = lines(ledger)
    assert run["machine"]["gpu"] is None and run["case"] == "b2_h8_n512_d64_f16"
    assert [line["number"] for line in found] == list(range(len(MISDEEDS) + 1))
    assert (
        found[0]["valid"] is None
        and found[0]["failed_at"] is None
        and found[0]["kept"]
        and found[0]["speed_up"] is None
    )
    expected = [
        ("proposal", "is not a JSON object"),
        ("proposal", "JSON nested more than 32 levels deep"),
        ("proposal", "to 1000000000, which is not one of"),
        ("proposal", "'../../../tmp/evil.cuh', which is not one of the sources"),
        ("compile", "error"),
        ("proposal", "the same candidate was already tried"),
        ("proposal", "ended with exit code 1: I have had enough"),
        ("proposal", "is not a JSON object: y"),
        ("proposal", "keeps writing unrequested lines"),
        ("proposal", "did not answer within 5 s"),
        ("proposal", "is not a JSON object"),
    ]
    seen = [(line["failed_at"], line["why"]) for line in found[1:]]
    for (gate, why), (seen_gate, seen_why) in zip(expected, seen, strict=True):
        assert gate == seen_gate and why in seen_why, seen
    assert end["why"] == "exhausted" and "that was all" in end["words"]
    assert end["valid_share"] == 0 and end["not_judged"] == 1 and end["best"] == 0


def cut_before(ledger, copy, number):
    """The ledger as it is when candidate `number` is being tried, with a line that a kill has cut."""
    kept = ledger.read_text().splitlines(keepends=True)[: number + 1]
    copy.write_text("".join(kept) + '{"kind":"candidate","num')


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_it_goes_on_after_a_signal(hostile, fovea_bin, run_fovea, tmp_path, how):
    whole, _ = hostile
    ledger = tmp_path / "cut.jsonl"
    cut_before(whole, ledger, HANGS)
    slow = [fovea_bin, *command(ledger, "--resume", "--answer-seconds", "600")]
    with subprocess.Popen(slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        while f" {HANGS - 1} (ledger)" not in running.stdout.readline():
            assert running.poll() is None
        began = time.monotonic()
        running.send_signal(how)
        printed, _ = running.communicate(timeout=60)
    assert time.monotonic() - began < 30
    if how == signal.SIGINT:
        assert running.returncode == 130
        assert "ended: it was interrupted" in printed and "candidates are valid" in printed
        assert lines(ledger)[-1]["why"] == "interrupted"
    run_fovea(*command(ledger, "--resume", "--answer-seconds", "5"))
    assert candidates(ledger) == candidates(whole)


def test_a_ledger_is_of_one_run(hostile, run_fovea, tmp_path):
    whole, _ = hostile
    assert "exists; use --resume to continue" in run_fovea(*command(whole), code=1).stderr
    message = run_fovea(*command(whole, "--resume", "--seed", "8"), code=1).stderr
    assert "whose seed is 1 instead of 8" in message
    message = run_fovea(*command(whole, "--resume", case="b2_h8_n2048_d64_f16"), code=1).stderr
    assert "whose case is" in message
    again = tmp_path / "again.jsonl"
    again.write_text("of somebody else\n")
    assert "cannot be used with --resume" in run_fovea(*command(again, "--overwrite", "--resume"), code=2).stderr
    question = ["attention", "--level", "wmma", "--case", "b2_h8_n512_d64_f16"]
    run_fovea("kernel", "evolve", *question, "--ledger", again, "--overwrite", "--proposer", tmp_path / "none", code=1)
    assert again.read_text() == "of somebody else\n"
    run_fovea(*command(again, "--overwrite", "--answer-seconds", "5"))
    assert candidates(again) == candidates(whole)
    missing = tmp_path / "none" / "ledger.jsonl"
    assert str(missing) in run_fovea(*command(missing), code=2).stderr


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["--budget", "0"], 2, "--budget takes a time"),
        (["--budget", "20x"], 2, "--budget takes a time"),
        (["--budget", "1.5"], 2, "--budget takes a time"),
        (["--start", "[]"], 2, "--start takes a JSON object"),
        (["--start", '{"stages": 99}'], 1, "cannot start with stages = 99"),
        (["--kernel", "none"], 1, "no kernel 'none'"),
        (["--population", "all"], 2, "all"),
        (["--level", "fast"], 2, "no level 'fast'"),
        (["--proposer", "/no/such/program"], 1, "the proposer '/no/such/program' cannot be run"),
    ],
)
def test_a_wrong_question_is_told_at_once(run_fovea, tmp_path, options, code, told):
    ledger = tmp_path / "ledger.jsonl"
    level = [] if "--level" in options else ["--level", "wmma"]
    result = run_fovea("kernel", "evolve", "attention", *level, *options, "--ledger", ledger, code=code)
    assert told in result.stderr
    assert not ledger.exists()


def speed_up(parameters):
    return 1.4 - 0.1 * abs(parameters["stages"] - 4) - 0.1 * abs(parameters["warps"] - 8) / 2


def test_the_example_climbs_from_a_poor_start():
    """examples/proposer.py, over a landscape that is known."""
    kernel = {"kernel": "k", "values": {}, "parameters": {"stages": [2, 3, 4, 5], "warps": [2, 4, 6, 8, 10]}}
    found = [{"number": 0, "parameters": {"stages": 2, "warps": 2}, "valid": True, "kernel": "k", "speed_up": 0.7}]
    with subprocess.Popen(
        [sys.executable, ROOT / "examples/proposer.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as proposer:
        message = {"kind": "task", "history": list(found), "kernels": [kernel]}
        while True:
            proposer.stdin.write(json.dumps(message) + "\n")
            proposer.stdin.flush()
            answer = json.loads(proposer.stdout.readline())
            if "stop" in answer:
                break
            parameters = found[answer["parent"]]["parameters"] | answer["parameters"]
            assert parameters not in [candidate["parameters"] for candidate in found]
            valid = parameters["warps"] != 10
            speed = speed_up(parameters) if valid else None
            found.append({"number": len(found), "parameters": parameters, "valid": valid, "speed_up": speed})
            message = {"kind": "result", "candidate": found[-1]}
        proposer.stdin.close()
    assert max(candidate["speed_up"] or 0 for candidate in found) == speed_up({"stages": 4, "warps": 8})
    assert len(found) <= 20
