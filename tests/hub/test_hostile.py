"""`fovea pull` from a hub that means harm: endless, dripping, giant, deep, and with escape sequences."""

import contextlib
import json
import os
import resource
import socket
import subprocess
import time

import pytest
from hub_server import Hub

WEIGHTS = "model.safetensors"
# What a sane hub's replies could never need; the program itself takes a fraction of it.
ADDRESS_SPACE = 600 << 20


@pytest.fixture
def hub():
    files = {"config.json": b"{}" + b" " * 1000, "preprocessor_config.json": b"{}", WEIGHTS: bytes(300_000)}
    server = Hub(files)
    yield server
    server.close()


@pytest.fixture
def pull(fovea_bin, tmp_path):
    """pull(hub, **env) -> (result that failed, seconds), in little memory."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))

    def run(hub, **extra):
        env = os.environ | {"HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": hub.endpoint} | extra
        started = time.monotonic()
        result = subprocess.run(
            [fovea_bin, "pull", "org/name", "--retries", "0"],
            env=env, capture_output=True, timeout=20, check=False, preexec_fn=limit,
        )  # fmt: skip
        assert result.returncode == 1, result.stderr
        return result.stderr.decode(), time.monotonic() - started

    return run


@pytest.mark.parametrize("status", [302, 404, 500])
@pytest.mark.parametrize("name", ["", WEIGHTS])
def test_bodies_without_end_of_refusals(hub, pull, status, name):
    hub.endless[name] = status
    error, seconds = pull(hub)
    assert str(status) in error or "the redirect has a body of more than 65536 bytes" in error
    assert seconds < 5


@pytest.mark.parametrize("name", ["", "config.json", WEIGHTS])
def test_bytes_that_come_one_by_one(hub, pull, name):
    hub.drips.add(name)
    error, seconds = pull(hub, HF_HUB_DOWNLOAD_TIMEOUT="1")
    assert "too slow" in error.lower() or "timed out" in error.lower()
    assert seconds < 8


def test_a_description_has_a_time_limit(hub, pull):
    hub.drips.add("")
    error, seconds = pull(hub, HF_HUB_ETAG_TIMEOUT="1")
    assert "timed out" in error.lower()
    assert seconds < 5


def test_times_have_to_be_numbers(hub, pull):
    error, _ = pull(hub, HF_HUB_DOWNLOAD_TIMEOUT="soon")
    assert 'HF_HUB_DOWNLOAD_TIMEOUT is "soon"; expected a whole number of seconds' in error


def test_few_bytes_a_connection_are_no_progress(fovea_bin, hub, tmp_path):
    """A connection that is cut after some bytes, again and again, is aborted like one without any."""
    hub.cuts[WEIGHTS] = [100] * 50
    env = os.environ | {"HF_HOME": str(tmp_path), "HF_ENDPOINT": hub.endpoint}
    result = subprocess.run(
        [fovea_bin, "pull", "org/name", "--retries", "2"],
        env=env, capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert "gave up after 3 attempts at 300 of 300000 bytes" in result.stderr


@pytest.mark.parametrize(
    "reply",
    [
        b"[" * (31 << 20),
        b"[" * (3 << 20),
        b'{"sha":' * (1 << 19),
        b"[" + b"{}," * (10 << 20) + b"{}]",
        b'{"sha": "' + b"a" * (40 << 20) + b'"}',
        b"",
        b"\0" * 1000,
    ],
    ids=["31 MB of brackets", "3 MB of brackets", "deep objects", "many objects", "long", "empty", "zeros"],
)
def test_replies_that_are_no_description(hub, pull, reply):
    hub.api_reply = reply
    error, seconds = pull(hub)
    assert "not from a hub" in error
    assert seconds < 5


def test_small_files_that_are_large(hub, pull):
    """Refused by the stated size, before a byte of it has come."""
    index = "model.safetensors.index.json"
    del hub.files[WEIGHTS]
    hub.files[index] = json.dumps({"weight_map": {str(i): "a.safetensors" for i in range(200_000)}}).encode()
    error, _ = pull(hub)
    assert f"{index} of {len(hub.files[index])} bytes is too large" in error
    assert not hub.gets(index)


def test_a_deep_index(hub, pull):
    del hub.files[WEIGHTS]
    hub.files["model.safetensors.index.json"] = b'{"weight_map": ' + b"[" * 1_000_000
    error, _ = pull(hub)
    assert "nested more than 32 levels deep" in error


def test_sizes_whose_sum_overflows(hub, pull):
    del hub.files[WEIGHTS]
    shards = {f"{i}.safetensors": b"x" for i in range(2)}
    index = {"weight_map": {name: name for name in shards}}
    hub.files |= shards | {"model.safetensors.index.json": json.dumps(index).encode()}
    for name in shards:
        hub.linked_sizes[name] = 1 << 63
    error, _ = pull(hub)
    assert "more are needed: free some space" in error


def test_messages_of_the_server_are_shown_without_their_escapes(hub, pull):
    hub.error_message = "\x1b]0;owned\x07\x9b31m" + "no" * 5000  # \x9b: CSI, and no UTF-8 here
    hub.statuses[""] = [403]
    error, _ = pull(hub)
    assert "\\x1b]0;owned\\x07\\x9b31mnono" in error
    assert all(c == "\n" or c.isprintable() for c in error)
    assert len(error) < 1200


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_leavings_that_are_no_files_are_not_written_to(hub, pull, tmp_path, kind):
    blobs = tmp_path / "hf" / "hub" / "models--org--name" / "blobs"
    blobs.mkdir(parents=True)
    partial = blobs / (hub.etag(WEIGHTS) + ".incomplete")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    if kind == "link":
        partial.symlink_to(victim)
    else:
        os.mkfifo(partial)
    error, seconds = pull(hub)
    assert str(partial) in error and ("symbolic link" in error or "cannot open" in error)
    assert victim.read_text() == "mine"
    assert seconds < 5


def test_locks_are_not_links(hub, pull, tmp_path):
    locks = tmp_path / "hf" / "hub" / ".locks" / "models--org--name"
    locks.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    (locks / (hub.etag(WEIGHTS) + ".lock")).symlink_to(elsewhere)
    error, _ = pull(hub)
    assert "is a link" in error
    assert not elsewhere.exists()


@pytest.mark.parametrize(
    ("connects", "limit", "waits"),
    [(True, 40, "an answer, for 30"), (False, 40, "a connection, for 20"), (False, 6, "a connection, for 6")],
)
def test_a_silent_hub_is_told_of(fovea_bin, tmp_path, connects, limit, waits):
    """A hub that says nothing, or whose queue of connections is full: the user hears what is waited for, and how
    long."""
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(0 if connects else 4):
            other = stack.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(silent.getsockname())
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        env = os.environ | {"HF_HOME": str(tmp_path), "HF_ENDPOINT": endpoint, "HF_HUB_ETAG_TIMEOUT": str(limit)}
        process = subprocess.Popen([fovea_bin, "pull", "org/name"], env=env, stderr=subprocess.PIPE, text=True)
        started = time.monotonic()
        try:
            line = process.stderr.readline()
        finally:
            process.kill()
            process.communicate()
        assert line == f"fovea: {endpoint}/api/models/org/name/revision/main: waiting for {waits} s at most\n"
        assert 3 < time.monotonic() - started < 15
