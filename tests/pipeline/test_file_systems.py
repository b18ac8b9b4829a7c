"""File systems without locks or that cannot sync, and repairs that are killed, by calls put before libc's; and outputs
that are no regular files."""

import json
import os
import shutil
import signal
import stat
import subprocess
import threading

import pytest
from pipeline_support import contents, write_photos

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static int number(const char* name) { const char* text = getenv(name); return text ? atoi(text) : 0; }
static int refused(const char* name) { errno = number(name); return errno ? -1 : 0; }
int flock(int fd, int operation) {
  int (*next)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
  return refused("NO_FLOCK") ? -1 : next(fd, operation);
}
int fsync(int fd) { (void)fd; return refused("NO_FSYNC"); }
int fdatasync(int fd) { (void)fd; return refused("NO_FSYNC"); }
static int calls;
static void count(void) { if (++calls == number("KILL_AT")) raise(SIGKILL); }
int renameat(int from_fd, const char* from, int to_fd, const char* to) {
  count();
  return ((int (*)(int, const char*, int, const char*))dlsym(RTLD_NEXT, "renameat"))(from_fd, from, to_fd, to);
}
int unlinkat(int fd, const char* name, int flags) {
  count();
  return ((int (*)(int, const char*, int))dlsym(RTLD_NEXT, "unlinkat"))(fd, name, flags);
}
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """The environment of a program whose calls are replaced; variables say how."""
    folder = tmp_path_factory.mktemp("calls")
    (folder / "calls.c").write_text(SOURCE)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "calls.so", folder / "calls.c", "-ldl"], check=True)
    return {"LD_PRELOAD": str(folder / "calls.so")}


def work(run_fovea, model, photos, place, env=None):
    """Everything that locks or syncs; what was said. Two runs write the same bytes."""
    place.mkdir()
    shutil.copytree(photos, place / "photos")
    copy = place / "copy"
    shutil.copytree(model, copy)
    said = []

    def run(*arguments):
        said.append(run_fovea(*arguments, cwd=place, env=env).stderr)

    embed = ["embed", "-m", model, "photos", "--device", "cpu"]
    run(*embed, "-o", "out", "--shard-rows", "3")
    run(*embed, "-o", "array.npy")
    for part in range(2):
        run(*embed, "-o", f"part-{part}", "--shard", f"{part}/2")
    run("merge", "part-0", "part-1", "-o", "merged")
    write_photos(place / "photos", 2, first=90)
    run(*embed, "-o", "out", "--shard-rows", "3", "--update")
    run("check", "out")
    run("check", "out", "--repair")
    run("calibrate", "-m", copy, "photos")
    run("info", model, "--json=info.json")
    return said


def kept(place):
    """The bytes of what was written, but for what tells when and where."""
    return {
        path.relative_to(place): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.suffix in (".npy", ".safetensors") or path.name == "info.json"
    }


# ENOSYS, ENOLCK, EOPNOTSUPP, EINVAL
@pytest.mark.parametrize("code", [38, 37, 95, 22])
def test_a_file_system_without_locks(run_fovea, calls, model, tmp_path, code):
    photos = write_photos(tmp_path / "photos", 8)
    work(run_fovea, model, photos, tmp_path / "whole")
    said = work(run_fovea, model, photos, tmp_path / "unlocked", calls | {"NO_FLOCK": str(code)})
    assert kept(tmp_path / "unlocked") == kept(tmp_path / "whole") != {}
    notes = [text.count("does not support locks") for text in said]
    assert max(notes) == 1 and sum(notes) >= 6


@pytest.mark.parametrize("code", [22, 95])
def test_a_file_system_that_cannot_sync(run_fovea, calls, model, tmp_path, code):
    photos = write_photos(tmp_path / "photos", 8)
    work(run_fovea, model, photos, tmp_path / "whole")
    work(run_fovea, model, photos, tmp_path / "unsynced", calls | {"NO_FSYNC": str(code)})
    assert kept(tmp_path / "unsynced") == kept(tmp_path / "whole")


def test_a_lock_or_a_sync_that_fails_is_an_error(run_fovea, calls, model, tmp_path):
    photos = write_photos(tmp_path / "photos", 2)
    embed = ["embed", "-m", model, photos, "--device", "cpu", "-o", tmp_path / "out"]
    for variable in ("NO_FLOCK", "NO_FSYNC"):
        assert "Input/output error" in run_fovea(*embed, code=1, env=calls | {variable: "5"}).stderr  # EIO


def test_a_device_and_a_pipe_are_written_to_and_a_link_is_followed(run_fovea, model, tmp_path):
    info = ["info", model]
    printed = run_fovea(*info, "--json").stdout
    null = tmp_path / "null"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        null.write_text("something")
    except OSError:  # no device can be made or opened here
        null.unlink(missing_ok=True)
    else:
        run_fovea(*info, f"--json={null}")
        assert stat.S_ISCHR(null.stat().st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    run_fovea(*info, f"--json={pipe}")
    reader.join(60)
    assert got == [printed] and stat.S_ISFIFO(pipe.stat().st_mode)
    (tmp_path / "far").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to("far/file.json")
    for _ in range(2):
        run_fovea(*info, f"--json={link}")
        assert link.is_symlink() and (tmp_path / "far/file.json").read_text() == printed


@pytest.mark.parametrize("damaged", ["errors.jsonl", "index-00003.jsonl", "checksums.jsonl", "manifest.json"])
def test_a_repair_that_is_killed_leaves_nothing(embed, run_fovea, fovea_bin, calls, tmp_path, damaged):
    photos = write_photos(tmp_path / "photos", 5)
    out = tmp_path / "damaged"
    embed(photos, out=out, flags=["--shard-rows", "1", "--batch-size", "1"])
    with open(out / damaged, "ab") as file:
        file.write(b"a diary\n")
    shutil.copytree(out, tmp_path / "expected")
    run_fovea("check", tmp_path / "expected", "--repair")
    expected = contents(tmp_path / "expected")
    killed = 0
    for at in range(1, 100):
        place = tmp_path / "trial"
        shutil.copytree(out, place)
        done = subprocess.run(
            [fovea_bin, "check", place, "--repair"],
            env=os.environ | calls | {"KILL_AT": str(at)},
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        killed += 1
        run_fovea("check", place, "--repair")
        assert contents(place) == expected, f"killed at call {at}"
        assert not json.loads(run_fovea("check", place, "--json").stdout)["problems"]
        shutil.rmtree(place)
    assert killed >= 1
