"""fovea.pull against the hub on loopback of tests/hub, and messages in the words of Python."""

import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import fovea
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/hub"))
from hub_server import COMMIT, Hub


@pytest.fixture
def hub(model, tmp_path, monkeypatch):
    files = {path.name: path.read_bytes() for path in model.iterdir()}
    hub = Hub(files)
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    yield hub
    hub.close()


def test_a_model_is_pulled_and_loaded(hub, model, device, photos):
    progress = []
    folder = fovea.pull("org/name", progress=progress.append)
    assert folder.endswith(f"models--org--name/snapshots/{COMMIT}")
    size = (model / "model.safetensors").stat().st_size
    assert progress[-1].bytes == progress[-1].total > size
    assert progress[-1].received == progress[-1].total
    assert {news.file for news in progress} >= {"model.safetensors"}
    assert fovea.pull("org/name", revision="main") == folder
    assert len(hub.gets("model.safetensors")) == 1
    with fovea.load("org/name", device=device) as encoder:
        assert encoder.embed(photos[:1]).shape == (1, encoder.dimension)


def test_a_revision(hub):
    assert fovea.pull("org/name", revision="v1.0").endswith(COMMIT)
    with pytest.raises(fovea.Error, match="404.*Check the name of the model and revision$"):
        fovea.pull("org/name", revision="v9")


def test_a_bar(hub, capsys):
    pytest.importorskip("tqdm")
    fovea.pull("org/name", progress=True)
    assert "100%" in capsys.readouterr().err


def test_other_arguments_are_told(hub):
    with pytest.raises(TypeError, match="name must be a string, not PosixPath"):
        fovea.pull(pathlib.Path("org"))
    with pytest.raises(fovea.Error, match="not a hub id of the form org/name"):
        fovea.pull("org")
    with pytest.raises(fovea.Error, match="set HF_TOKEN"):
        fovea.pull("other/name")
    assert hub.requests


def test_what_progress_raises_ends_the_pull(hub):
    def refuse(news):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        fovea.pull("org/name", progress=refuse)
    assert all(thread.name != "fovea.pull" for thread in threading.enumerate())


def test_notices_come_at_once(hub):
    hub.statuses[""] = [503]
    notices = []
    fovea.pull("org/name", progress=lambda news: notices.append(news.notice))
    assert any("trying again in" in notice for notice in notices)


PULL = """
import signal, fovea
signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", flush=True)
try:
    fovea.pull("org/name")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_pull_that_waits(hub):
    hub.pauses["model.safetensors"] = threading.Event()
    process = subprocess.Popen([sys.executable, "-c", PULL], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    assert hub.body_started.wait(100)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=100) == ("interrupted\n", None)
    assert time.monotonic() - sent < 15  # 1 when nothing else computes; the hub would keep it for longer
    assert process.returncode == 0


def test_ctrl_c_while_another_process_pulls(hub, tmp_path):
    import fcntl

    folder = tmp_path / "cache/hub/.locks/models--org--name"
    folder.mkdir(parents=True)
    locked = (folder / f"{hub.etag('config.json')}.lock").open("w")
    fcntl.flock(locked, fcntl.LOCK_EX)
    notices = itertools.count()

    def stop(news):
        if "waiting for another pull" in news.notice and next(notices) == 0:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            fovea.pull("org/name", progress=stop)
    finally:
        signal.signal(signal.SIGINT, before)


def test_messages_name_what_python_has(hub, model, tmp_path):
    with pytest.raises(fovea.Error, match=r'run `fovea.pull\("org/name"\)`, or give a model folder'):
        fovea.load("org/name")
    with pytest.raises(fovea.Error, match='driver.*use device="cpu"|cuda:99|no GPU'):
        fovea.load(model, device="cuda:99")


def test_no_message_that_python_shows_names_an_option_of_the_program():
    """Nor one that C++ and C show. A whole command of the program may be named, because it comes with the libraries."""
    sources = (ROOT / "src").rglob("*.?pp")
    options = set()
    for path in sources:
        code = re.sub(r"//.*", "", path.read_text())
        for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', code):
            options |= {f"{path.name}: {literal}" for _ in re.findall(r"(?:^|[ (`])--[a-z]{3,}", literal)}
    assert options == {
        "wording.cpp:  --revision {}",  # the end of `fovea pull NAME`
        "wording.cpp: --features last or --features penultimate",  # Python says Encoder.features
        "shards.cpp: output of embeddings: `fovea embed` without --features",
        "gate_record.cpp: {}: not a record of gates: {}; make one by `fovea kernel profile --gate --record FILE`",
        "calibration.cpp: fovea calibrate {} PHOTOS --precision {}{}{}{}",
        "calibration.cpp:  --text @captions.txt",  # the ends of that command
        "calibration.cpp:  --calibration ",
        "shards.cpp: `fovea embed --format npy`",
        "check.cpp: `fovea embed --update` again to complete it",
        "folder_output.cpp: {}; cannot resume this output: `fovea check {} --repair` keeps what can be proven, ",
        "folder_output.cpp: {}: {}; try `fovea check {} --repair`, choose another output or pass {}",
        "folder_output.cpp: --repair`, choose another output or pass {}",  # the end of such a command
        "tar_source.cpp: --hard-dereference, or extract it and name the folder",  # of tar
        r"tar_source.cpp: is a symbolic link to \"{}\"; make the archive with tar --dereference, or extract it ",
    }
