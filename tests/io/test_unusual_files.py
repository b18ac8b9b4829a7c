"""Things that are not regular files, and files that shrink: refused at once with their name, without a signal."""

import json
import os
import resource
import socket
import subprocess
import time

import numpy as np
import pytest
from PIL import Image

SECONDS = 20  # of patience; refusing takes milliseconds
DIMENSION = 64


@pytest.fixture(scope="module")
def model(run_fovea, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    run_fovea("init", "--preset", "tiny", "-o", folder)
    return folder


@pytest.fixture
def copied(run_fovea, tmp_path):
    """A model in several files, of the test's own."""
    run_fovea("init", "--preset", "tiny", "--images-only", "--max-shard-bytes", "500000", "-o", tmp_path / "m")
    return tmp_path / "m"


def write_output(folder, sources, vectors, shard_rows=10**9):
    """What `fovea embed` leaves, made by hand."""
    folder.mkdir()
    for shard, first in enumerate(range(0, len(sources), shard_rows)):
        part = slice(first, first + shard_rows)
        np.save(folder / f"embeddings-{shard:05}.npy", vectors[part])
        lines = [json.dumps({"row": i, "source": name}) for i, name in enumerate(sources[part])]
        (folder / f"index-{shard:05}.jsonl").write_text("".join(line + "\n" for line in lines))
    (folder / "manifest.json").write_text('{"finished": true, "model": {"name": "m", "sha256": ""}}')


@pytest.fixture
def output(tmp_path):
    vectors = np.random.default_rng(1).normal(size=(5, DIMENSION)).astype(np.float32)
    write_output(tmp_path / "out", [f"{i}.png" for i in range(5)], vectors)
    return tmp_path / "out"


def make_pipe(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def make_socket(path):
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(os.path.relpath(path))


def make_device(path):
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "preprocessor_config.json",
        "model.safetensors",
        "model.safetensors.index.json",
        "model-00002-of-*.safetensors",
    ],
)
def test_a_pipe_in_a_model_is_refused(run_fovea, copied, tmp_path, name):
    path = next(copied.glob(name), copied / name)
    make_pipe(path)
    for command in (
        ["info", copied],
        ["embed", "--synthetic", "1", "-m", copied, "-o", tmp_path / "out"],
    ):
        result = run_fovea(*command, code=1, timeout=SECONDS)
        assert f"{path}: not a regular file" in result.stderr


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("preprocessor_config.json", "info"),
        ("preprocessor_config.json", "embed"),
        ("model.safetensors", "info"),
        ("model.safetensors", "embed"),
    ],
)
def test_a_link_to_itself_in_a_model_is_refused(run_fovea, copied, tmp_path, name, command):
    (copied / name).unlink(missing_ok=True)
    (copied / name).symlink_to(name)
    arguments = {
        "info": ["info", copied],
        "embed": ["embed", "--synthetic", "1", "-m", copied, "-o", tmp_path / "out"],
    }[command]
    result = run_fovea(*arguments, code=1, timeout=SECONDS)
    assert f"{copied / name}: cannot open: Too many levels of symbolic links" in result.stderr


def test_weights_that_say_they_are_huge_are_refused_at_once(run_fovea, copied, tmp_path):
    for file in copied.glob("*.safetensors*"):
        file.unlink()
    with open(copied / "model.safetensors", "wb") as file:
        file.truncate(1 << 40)
    result = run_fovea("embed", "--synthetic", "1", "-m", copied, "-o", tmp_path / "out", code=1, timeout=SECONDS)
    assert "model.safetensors" in result.stderr


@pytest.mark.parametrize("make", [make_pipe, make_socket, make_device])
@pytest.mark.parametrize("name", ["manifest.json", "embeddings-00000.npy", "index-00000.jsonl"])
def test_what_is_no_file_in_an_output_is_refused(run_fovea, output, name, make):
    make(output / name)
    result = run_fovea("similar", "--in", output, code=1, timeout=SECONDS)
    if make is make_socket:
        assert f"{output / name}: cannot open" in result.stderr
    else:
        assert f"{output / name}: not a regular file" in result.stderr


def test_a_pipe_of_queries_is_refused(run_fovea, output, tmp_path):
    make_pipe(tmp_path / "q.npy")
    result = run_fovea("similar", tmp_path / "q.npy", "--in", output, code=1, timeout=SECONDS)
    assert f"{tmp_path / 'q.npy'}: not a regular file" in result.stderr


def test_a_pipe_as_the_manifest_of_a_job_is_refused(run_fovea, model, tmp_path):
    (tmp_path / "out").mkdir()
    make_pipe(tmp_path / "out/manifest.json")
    command = ["embed", "--synthetic", "1", "-m", model, "-o", tmp_path / "out"]
    result = run_fovea(*command, code=1, timeout=SECONDS)
    assert "manifest.json: not a regular file" in result.stderr


def test_a_pipe_of_pixels_is_a_failed_input(run_fovea, model, tmp_path):
    make_pipe(tmp_path / "x.npy")
    Image.new("RGB", (9, 8)).save(tmp_path / "good.png")
    (tmp_path / "list").write_text(f"{tmp_path}/x.npy\n{tmp_path}/good.png\n")
    for number, given in enumerate(([f"@{tmp_path}/list"], [tmp_path / "x.npy", tmp_path / "good.png"])):
        out = tmp_path / str(number)
        run_fovea("embed", *given, "-m", model, "-o", out, code=3, timeout=SECONDS)
        errors = [json.loads(line) for line in (out / "errors.jsonl").read_text().splitlines()]
        assert [error["source"] for error in errors] == [f"{tmp_path}/x.npy"]
        assert "not a regular file" in errors[0]["error"]


def test_photos_of_a_page_that_are_no_files_are_placeholders(run_fovea, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_pipe(tmp_path / "0.png")
    make_socket(tmp_path / "1.png")
    make_device(tmp_path / "2.png")
    (tmp_path / "3.png").mkdir()
    (tmp_path / "4.png").symlink_to("/proc/self/mem")
    Image.new("RGB", (9, 8)).save(tmp_path / "5.png")
    write_output(tmp_path / "out", [f"{i}.png" for i in range(6)], np.eye(6, DIMENSION, dtype=np.float32))
    result = run_fovea("similar", "--in", "out", "--html", "page.html", timeout=SECONDS)
    assert "5 pictures could not be read" in result.stderr
    page = (tmp_path / "page.html").read_text()
    assert "0.png: no picture, not a regular file" in page
    assert "3.png: no picture, is a folder" in page


def test_an_escape_that_is_none_names_file_and_line(run_fovea, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vectors = np.eye(3, DIMENSION, dtype=np.float32)
    write_output(tmp_path / "out", ["a.png", "C:\\photos/b.png", "c.png"], vectors)
    (tmp_path / "b.png").write_bytes(b"a photo of that name")
    for command in (["--html", "page.html"], ["--json"], ["b.png"]):
        result = run_fovea("similar", "--in", "out", *command, code=1)
        assert 'index-00000.jsonl, line 2: "source": malformed escape at byte 2' in result.stderr


def test_many_files_of_embeddings_need_few_descriptors(run_fovea, tmp_path):
    vectors = np.random.default_rng(1).normal(size=(60, DIMENSION)).astype(np.float32)
    write_output(tmp_path / "out", [f"{i}.png" for i in range(60)], vectors, shard_rows=1)

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))

    result = run_fovea("similar", "--in", tmp_path / "out", "--json", preexec_fn=few)
    queries = json.loads(result.stdout)["queries"]
    assert [query["query"] for query in queries] == [f"{i}.png" for i in range(60)]
    run_fovea("similar", "--duplicates", "--in", tmp_path / "out", preexec_fn=few)


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def truncate_at_work(command, path, to_bytes, begun):
    """Runs a command, cuts `path` when begun(process), and returns what the command said."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + SECONDS
        while not begun(process):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline, "it did not begin"
            time.sleep(0.001)
        os.truncate(path, to_bytes)
        stderr = process.communicate(timeout=60)[1]
    finally:
        process.kill()
        process.wait()
    return process.returncode, stderr


def test_embeddings_that_shrink_while_they_are_searched(fovea_bin, tmp_path):
    # Several seconds of work; after half a second it has long begun.
    vectors = np.random.default_rng(1).normal(size=(50_000, 128)).astype(np.float32)
    write_output(tmp_path / "out", [f"{i}.png" for i in range(50_000)], vectors)
    array = tmp_path / "out/embeddings-00000.npy"
    command = [fovea_bin, "similar", "--duplicates", "--threads", "1", "--in", tmp_path / "out"]
    code, stderr = truncate_at_work(command, array, 5000, lambda p: cpu_seconds(p) >= 0.5)
    assert code == 1, stderr
    assert f"{array}: " in stderr and "while it was read" in stderr


def test_pixels_that_shrink_while_they_are_embedded(fovea_bin, model, tmp_path):
    # The job reads a few batches ahead of seconds of work.
    size = json.loads((model / "preprocessor_config.json").read_text())["size"]["height"]
    pixels = np.zeros((6000, size, size, 3), np.uint8)
    np.save(tmp_path / "p.npy", pixels)
    out = tmp_path / "out"
    command = [fovea_bin, "embed", tmp_path / "p.npy", "-m", model, "-o", out, "--batch-size", "4",
               "--threads", "1", "--decode-threads", "1", "--precision", "fp32"]  # fmt: skip
    partial = out / "index-00000.jsonl.partial"

    def begun(_):
        return partial.exists() and partial.stat().st_size > 0

    code, stderr = truncate_at_work(command, tmp_path / "p.npy", 5000, begun)
    assert code == 3, stderr
    rows = np.load(out / "embeddings-00000.npy")
    errors = [json.loads(line) for line in (out / "errors.jsonl").read_text().splitlines()]
    assert 0 < len(rows) < 6000 and len(rows) + len(errors) == 6000
    first = f"{tmp_path}/p.npy: shrank to 5000 bytes while it was read (it had "
    assert all(error["error"].startswith(first) for error in errors)
    assert errors[0]["source"] == f"{tmp_path}/p.npy#{len(rows)}"
