"""bench/machine.py: a result's commit is that of the program that was measured."""

import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import machine


def test_the_commit_is_the_programs_own_whatever_a_variable_says(fovea_bin, monkeypatch):
    monkeypatch.setenv("FOVEA_BENCH_COMMIT", "decaf")
    told = subprocess.run([fovea_bin, "--version"], capture_output=True, text=True, check=True).stdout
    said = next(line.split()[1] for line in told.splitlines() if line.startswith("commit "))
    assert machine.describe(fovea_bin)["commit"] == said != "decaf"


def test_changed_sources_and_a_missing_program_are_told(tmp_path):
    program = tmp_path / "fovea"
    program.write_text("#!/bin/sh\necho 'fovea 0.1.0\ncommit     d202b96-modified'\n")
    program.chmod(0o755)
    assert machine.commit(program) == "d202b96-modified"
    assert machine.commit(tmp_path / "none") == "unknown"
