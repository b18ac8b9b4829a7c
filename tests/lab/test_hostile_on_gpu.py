"""What `fovea kernel evolve` does about a candidate that never ends, which only a GPU can show."""

import json
import pathlib
import shutil
import sys

import pytest

HOSTILE = pathlib.Path(__file__).with_name("hostile_proposer.py")

pytestmark = pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="this machine has no GPU")


def test_a_kernel_that_never_ends_costs_one_candidate(run_fovea, tmp_path):
    ledger = tmp_path / "endless.jsonl"
    limits = ["--candidate-seconds", "20", "--answer-seconds", "5"]
    case = ["--level", "wmma", "--case", "b2_h8_n512_d64_f16"]
    proposer = ["--proposer", sys.executable, HOSTILE, "endless", "honest"]
    run_fovea("kernel", "evolve", "attention", *case, *limits, "--ledger", ledger, *proposer)
    _, start, endless, honest, *_, end = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert start["valid"] and start["seconds"] > 0
    assert not endless["valid"] and endless["failed_at"] == "process" and "did not end within 20 s" in endless["why"]
    # The GPU is free again: the next candidate is compiled, right and timed.
    assert honest["valid"] and honest["seconds"] > 0, honest["why"]
    assert end["why"] == "exhausted"
