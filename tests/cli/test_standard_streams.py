"""Closed, full and broken standard streams: no file takes their place, and lost results are errors."""

import os
import resource
import signal
import subprocess

import numpy as np
import pytest


@pytest.fixture(scope="module")
def model(run_fovea, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    run_fovea("init", "--preset", "tiny", "-o", folder)
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Two photos, and between them one that makes the program say something on stderr."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("photos")
    for name in ("a", "c"):
        image.new("RGB", (40, 30), (ord(name), 50, 200)).save(folder / f"{name}.png")
    (folder / "b.jpg").write_bytes(b"\xff\xd8\xff no more")
    return folder


@pytest.fixture(scope="module")
def rows(run_fovea, model, photos, tmp_path_factory):
    output = tmp_path_factory.mktemp("rows") / "out"
    run_fovea("embed", photos, "-m", model, "-o", output, code=3)
    return output


def through_shell(redirections, program, *arguments):
    command = f'exec "$0" "$@" {redirections}'
    return subprocess.run(
        ["sh", "-c", command, program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-", "<&- >&- 2>&-", ">&- 2>&-"])
def test_messages_do_not_go_into_files(fovea_bin, run_fovea, model, photos, tmp_path, closed):
    expected, output = tmp_path / "expected.npy", tmp_path / "output.npy"
    run_fovea("preprocess", photos, "-m", model, "-o", expected, code=3)
    result = through_shell(closed, fovea_bin, "preprocess", photos, "-m", model, "-o", output)
    assert result.returncode == 3
    np.testing.assert_array_equal(np.load(output), np.load(expected))
    for kind in ("index", "errors"):
        written = output.with_suffix(f".{kind}.jsonl").read_bytes()
        assert written == expected.with_suffix(f".{kind}.jsonl").read_bytes()


def test_a_list_on_a_closed_input_is_an_error(fovea_bin, model, tmp_path):
    result = through_shell("<&-", fovea_bin, "embed", "-", "-m", model, "-o", tmp_path / "out")
    assert result.returncode in (1, 3) and "Bad file descriptor" in result.stderr


def commands(model, photos, rows):
    return {
        "help": ["--help"],
        "help of a command": ["embed", "--help"],
        "version": ["--version"],
        "info": ["info", model],
        "info as JSON": ["info", model, "--json"],
        "help as a command": ["help", "embed"],
        "kernel list": ["kernel", "list"],
        "kernel list as JSON": ["kernel", "list", "--json"],
        "completion": ["completion", "zsh"],
        "manual": ["manual"],
        "similar": ["similar", "--in", rows],
        "similar as JSON": ["similar", "--in", rows, "--json"],
        "duplicates": ["similar", "--in", rows, "--duplicates", "--json"],
        "names of duplicates": ["similar", "--in", rows, "--duplicates", "--threshold", "0.01", "--print0"],
        "check": ["check", rows],
        "check as JSON": ["check", rows, "--json"],
        "bench": ["bench", "-m", model, "--device", "cpu", "--precision", "fp32", "--batch-size", "1",
                  "--seconds", "0.01"],
        "bench as JSON": ["bench", "-m", model, "--device", "cpu", "--precision", "fp32", "--batch-size", "1",
                          "--seconds", "0.01", "--json"],
        "verify": ["verify", model, photos, "--device", "cpu"],
        "verify as JSON": ["verify", model, photos, "--device", "cpu", "--json"],
    }  # fmt: skip


@pytest.mark.parametrize("command", commands(None, None, None))
def test_results_that_cannot_be_written_are_an_error(fovea_bin, model, photos, rows, command):
    arguments = commands(model, photos, rows)[command]
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [fovea_bin, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert result.returncode == 1
    message = "fovea: cannot write to the standard output: No space left on device\n"
    assert result.stderr.endswith(message)
    closed = through_shell(">&-", fovea_bin, *arguments)
    assert closed.returncode == 1
    assert closed.stderr.endswith("fovea: cannot write to the standard output: Bad file descriptor\n")


def test_a_reader_that_leaves_ends_the_program_quietly(fovea_bin, model):
    """Ends as `fovea info | head -1` always did, and as shells expect."""
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run([fovea_bin, "info", model], stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (-signal.SIGPIPE, b"")


def test_want_of_memory_is_told(fovea_bin, model, tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    arguments = ["embed", "--synthetic", "70000", "--batch-size", "65536", "-m", model, "--device", "cpu"]
    arguments += ["--threads", "1", "--decode-threads", "1"]
    result = subprocess.run(
        [fovea_bin, *arguments, "-o", tmp_path / "out"],
        capture_output=True, text=True, timeout=60, check=False, preexec_fn=limit,
    )  # fmt: skip
    assert result.returncode == 1
    assert "memory" in result.stderr and "internal error" not in result.stderr
