"""Children of `fovea kernel`: signals and failures leave neither processes nor files behind."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

SLEEPS = """echo $$ >> {file}
sleep 600 &
echo $! >> {file}
wait
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def started(fovea_bin):
    """started(file, count, *arguments, env): a running program, once its children have written `count` numbers."""
    running = []

    def start(file, count, *arguments, env=None):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [fovea_bin, "kernel", *arguments]
        running.append(subprocess.Popen(command, env=os.environ | (env or {}), text=True, **pipes))
        deadline = time.monotonic() + 60
        while not file.exists() or file.read_text().count("\n") < count:
            assert running[-1].poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def runs(number):
    """Whether the process runs; whoever takes over an orphan may leave it a zombie."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


def all_end(file):
    deadline = time.monotonic() + 10
    while left := [number for number in file.read_text().split() if runs(number)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_sanitizers(started, with_gpu, tool, temporary, tmp_path, how):
    file = tmp_path / "numbers"
    env = with_gpu | tool("compute-sanitizer", SLEEPS.format(file=file))
    running = started(file, 8, "sanitize", "layer_norm", "pool", "row_norm", "pixels_repeat", "--jobs", "4", env=env)
    running.send_signal(how)
    _, errors = running.communicate(timeout=60)
    all_end(file)
    if how != signal.SIGKILL:
        assert running.returncode == 130 and "stopping" in errors
        assert not list(temporary.iterdir())
        assert file.read_text().count("\n") == 8  # no other was started


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
@pytest.mark.parametrize("gate", [[], ["--gate", "--level", "wmma"]])
def test_a_signal_ends_the_profiler(started, with_gpu, tool, temporary, tmp_path, gate):
    file = tmp_path / "numbers"
    env = with_gpu | tool("ncu", SLEEPS.format(file=file))
    running = started(file, 2, "profile", "attention", *gate, "--case", "b2_h8_n512_d64_f16", env=env)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130 and "stopping" in errors
    all_end(file)
    assert not list(temporary.iterdir())


TO_ITS_FILE = 'while [ "$1" != -o ]; do test $# != 0 || exit 1; shift; done; : > "$2.ncu-rep"'


@pytest.mark.parametrize("script", [TO_ITS_FILE + "; exit 1", TO_ITS_FILE], ids=["itself", "its pages"])
def test_a_profiler_that_fails_leaves_no_report_behind(run_fovea, with_gpu, tool, temporary, script):
    message = run_fovea("kernel", "profile", "layer_norm", env=with_gpu | tool("ncu", script), code=1).stderr
    assert "ncu failed with exit code 1" in message
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_the_profiles_of_a_comparison(started, tmp_path, how):
    """The sides' own programs lead groups of their own, and so do the profilers below them."""
    file = tmp_path / "numbers"
    sample = {"seconds": 1e-4, "sm_mhz": 1980, "watts": 400.0, "slowed": False}
    program = tmp_path / "program"
    program.write_text(f"""#!/bin/sh
if test $2 = profile; then
{SLEEPS.format(file=file)}
fi
echo '{json.dumps({"ready": {"card": "layer_norm"}})}'
while read line; do echo '{json.dumps(sample)}'; done
""")
    program.chmod(0o755)
    sides = ["--program", program, "--with-program", program]
    running = started(file, 2, "compare", "layer_norm", *sides, "--profile")
    running.send_signal(how)
    running.communicate(timeout=60)
    all_end(file)
    assert running.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_what_children_have_started(started, fovea_bin, with_gpu, tool, tmp_path, how):
    """compare runs `fovea kernel profile`, and that runs ncu, in a group of its own."""
    file = tmp_path / "numbers"
    env = with_gpu | tool("ncu", SLEEPS.format(file=file))
    sample = {"seconds": 1e-4, "sm_mhz": 1980, "watts": 400.0, "slowed": False}
    program = tmp_path / "program"
    program.write_text(f"""#!/bin/sh
test $2 != profile || exec {fovea_bin} "$@"
echo '{json.dumps({"ready": {"card": "layer_norm"}})}'
while read line; do echo '{json.dumps(sample)}'; done
""")
    program.chmod(0o755)
    sides = ["--program", program, "--with-program", program]
    running = started(file, 2, "compare", "layer_norm", *sides, "--profile", env=env)
    running.send_signal(how)
    running.communicate(timeout=60)
    all_end(file)


def test_a_candidate_ends_by_itself(fovea_bin):
    """Whatever keeps it: here it waits for lines that do not come."""
    attempt = [fovea_bin, "kernel", "try", "attention", "--level", "wmma", "--batch", "--most-seconds", "1"]
    with subprocess.Popen(attempt, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
        running.wait(timeout=60)
    assert running.returncode == -signal.SIGALRM
