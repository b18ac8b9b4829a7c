"""Jobs that are interrupted, killed, starved of disk space or run twice lose nothing."""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest
from pipeline_support import contents, read_output, write_photos

SLOW = ["--threads", "1", "--decode-threads", "1", "--batch-size", "8"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """400 photos, four of them damaged."""
    folder = write_photos(tmp_path_factory.mktemp("many") / "p", 400)
    for seed in (3, 150, 151, 399):
        (folder / f"{seed:05}.jpg").write_bytes(b"damaged")
    return folder


@pytest.fixture(scope="module")
def whole(embed, photos, tmp_path_factory):
    """What an uninterrupted job leaves."""
    out = tmp_path_factory.mktemp("whole") / "out"
    embed(photos, out=out, flags=[*SLOW, "--shard-rows", "150"], code=3)
    return contents(out)


@pytest.fixture
def start(embed, photos):
    """start(out) begins the job in the background."""
    processes = []

    def start(out, *flags, inputs=None, stdin=None):
        arguments = embed.arguments(*(inputs or [photos]), out=out, flags=[*SLOW, "--shard-rows", "150", *flags])
        process = subprocess.Popen([embed.fovea_bin, *arguments], stderr=subprocess.PIPE, text=True, stdin=stdin)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stderr.close()


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


def state(out):
    return json.loads((out / "manifest.json").read_text())


def test_killed_at_random_moments(start, embed, photos, whole, tmp_path):
    out = tmp_path / "out"
    rng = random.Random(7)
    kills = 0
    while True:
        process = start(out)
        time.sleep(rng.uniform(0, 0.3) if kills else 0.01)  # at least one comes in time on any machine
        process.kill()
        process.communicate()
        if process.returncode != -signal.SIGKILL:
            break
        kills += 1
        if kills == 60:  # a slow machine: let it end
            embed(photos, out=out, flags=[*SLOW, "--shard-rows", "150"], code=3)
            break
    assert kills > 0
    assert contents(out) == whole
    assert len(read_output(out)[3]) == 4


def slow_input(tmp_path, photos):
    """A pipe to list photos through, one by one, so that a job lasts as long as the test likes."""
    names = sorted(os.fspath(p) for p in photos.iterdir())
    read_end, write_end = os.pipe()
    return names, read_end, os.fdopen(write_end, "w")


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_signal_leaves_a_resumable_state(start, embed, photos, whole, tmp_path, which):
    out = tmp_path / "out"
    names, read_end, pipe = slow_input(tmp_path, photos)
    process = start(out, inputs=["-"], stdin=read_end)
    os.close(read_end)
    pipe.write("\n".join(names[:203]) + "\n")
    pipe.flush()
    # 25 batches are whole; the 26th waits for names.
    wait_for(lambda: (out / "manifest.json").exists() and state(out)["resume"]["inputs"] >= 192)
    process.send_signal(which)
    # The job sits in a read of its list, and ends nevertheless.
    stderr = process.communicate(timeout=20)[1]
    assert process.returncode == 130
    assert "resumes" in stderr
    pipe.close()
    left = state(out)
    assert not left["finished"] and left["resume"]["inputs"] == 200
    embed(photos, out=out, flags=[*SLOW, "--shard-rows", "150"], code=3)
    assert contents(out) == whole


def test_second_signal_kills(start, photos, tmp_path):
    names, read_end, pipe = slow_input(tmp_path, photos)
    process = start(tmp_path / "out", inputs=["-"], stdin=read_end)
    os.close(read_end)
    print(names[0], file=pipe, flush=True)
    wait_for(lambda: (tmp_path / "out/manifest.json").exists())
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode in (-signal.SIGINT, -signal.SIGTERM, 130)
    pipe.close()


def test_second_run_on_one_output_is_refused(start, embed, photos, tmp_path):
    out = tmp_path / "out"
    names, read_end, pipe = slow_input(tmp_path, photos)
    process = start(out, inputs=["-"], stdin=read_end)
    os.close(read_end)
    print(names[0], file=pipe, flush=True)
    wait_for(lambda: (out / "manifest.json").exists())
    for flags in ([], ["--overwrite"]):
        result = embed(photos, out=out, flags=flags, code=1)
        assert "another run" in result.stderr
    process.kill()  # the lock goes with the process
    process.communicate()
    pipe.close()
    embed(photos, out=out, code=3)


def test_killed_while_retrying(start, embed, photos, tmp_path):
    folder = tmp_path / "in"
    shutil.copytree(photos, folder)
    damaged = [p for p in folder.iterdir() if p.read_bytes() == b"damaged"]
    good = (folder / "00000.jpg").read_bytes()
    straight, out = tmp_path / "straight", tmp_path / "out"
    for target in (straight, out):
        embed(folder, out=target, flags=[*SLOW, "--shard-rows", "150"], code=3)
    for file in damaged[:3]:
        file.write_bytes(good)
    retry = [*SLOW, "--shard-rows", "150", "--retry-failed"]
    embed(folder, out=straight, flags=retry, code=3)
    rng = random.Random(3)
    for _ in range(15):
        process = start(out, "--retry-failed", inputs=[folder])
        time.sleep(rng.uniform(0, 0.12))
        process.kill()
        process.communicate()
        done = state(out)["finished"] and state(out)["counts"]["failed"] == 1
        if done:
            break  # before it was killed; once more would be another retry
    embed(folder, out=out, flags=retry[:-1] if done else retry, code=3)
    assert contents(out) == contents(straight)
    assert len(read_output(out)[3]) == 1


class Mount:
    """A small file system in memory, for as long as the block lasts."""

    def __init__(self, path, options):
        self.path = path
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", path]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("mounting a tmpfs is not permitted here")

    def __enter__(self):
        return self

    def remount(self, options):
        subprocess.run(["mount", "-o", f"remount,{options}", self.path], check=True)

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=True)


def test_full_disk(embed, photos, whole, tmp_path):
    with Mount(tmp_path / "small", "size=160k") as disk:
        out = disk.path / "out"
        result = embed(photos, out=out, flags=[*SLOW, "--shard-rows", "150"], code=1)
        assert "No space left on device" in result.stderr
        assert ".partial" in result.stderr
        done = state(out)["resume"]["inputs"]
        disk.remount("size=10m")
        embed(photos, out=out, flags=[*SLOW, "--shard-rows", "150"], code=3)
        assert contents(out) == whole
        assert done > 0 and "the same command resumes" in result.stderr


def test_read_only_output(embed, photos, tmp_path):
    with Mount(tmp_path / "disk", "size=1m") as disk:
        disk.remount("ro")
        result = embed(photos, out=disk.path / "out", code=1)
        assert "Read-only file system" in result.stderr and str(disk.path) in result.stderr
    # Without a mount: a folder that nobody may write to, not even root.
    assert "/proc" in embed(photos, out="/proc/out", code=1).stderr
    (tmp_path / "file").write_text("")
    embed(photos, out=tmp_path / "file", code=1)
    embed(photos, out=tmp_path / "file/out", code=1)


def test_lost_partial_file_is_an_error_not_a_gap(start, embed, photos, tmp_path):
    out = tmp_path / "out"
    names, read_end, pipe = slow_input(tmp_path, photos)
    process = start(out, inputs=["-"], stdin=read_end)
    os.close(read_end)
    pipe.write("\n".join(names[:100]) + "\n")
    pipe.flush()
    wait_for(lambda: (out / "manifest.json").exists() and state(out)["resume"]["inputs"] >= 64)
    process.kill()
    process.communicate()
    pipe.close()
    (out / "index-00000.jsonl.partial").unlink()
    result = embed(photos, out=out, flags=[*SLOW, "--shard-rows", "150"], code=1)
    assert "index-00000.jsonl.partial" in result.stderr and "--overwrite" in result.stderr
