"""Duplicates of which one cannot be read or decoded, or is the same file: nothing may go that would lose a photo."""

import json
import os
import shutil
import subprocess
import tarfile

import pytest
from duplicates import classes, find, names, near, print0, save, write_rows


def test_files_that_cannot_be_read_are_similar_at_most(run_fovea, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save("a.png", seed=1)
    write_rows(tmp_path, [(name, near(0, 1), (40, 30)) for name in ("gone.png", "a.png")])
    result = run_fovea("similar", "--duplicates", "--in", "out", "--json")
    assert "1 photo could not be read or decoded, so it is unknown" in result.stderr
    groups = json.loads(result.stdout)["groups"]
    assert names(groups) == [["a.png", "gone.png"]]
    member = groups[0]["members"][1]
    assert member["class"] == "similar" and not member["may_go"] and member["error"]
    assert find(run_fovea, "--only", "identical-files") == []


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A kept photo whose second half is lost, a copy of its bytes, and photos that are like it."""
    monkeypatch.chdir(tmp_path)
    save("kept.png", (400, 300), 1, compress_level=0)
    with open("kept.png", "r+b") as file:
        file.truncate(os.path.getsize("kept.png") // 2)
    shutil.copy("kept.png", "copy.png")
    save("other.png", (400, 300), 1)
    save("small.png", (40, 30), 1)
    return ["kept.png", "copy.png", "other.png", "small.png"]


@pytest.mark.parametrize("score", [1, 0.99])  # alike enough to be decoded anyway, or not
def test_a_kept_photo_that_cannot_be_decoded_lets_only_copies_of_its_bytes_go(run_fovea, tmp_path, damaged, score):
    vectors = [near(0, 1), near(0, 1), near(0, score), near(0, score)]
    sizes = [(400, 300)] * 3 + [(40, 30)]
    write_rows(tmp_path, list(zip(damaged, vectors, sizes)))
    assert print0(run_fovea) == ["copy.png"]
    assert print0(run_fovea, "--only", "similar") == []
    assert print0(run_fovea, "--only", "identical-files") == ["copy.png"]
    assert print0(run_fovea, "--only", "identical-pixels") == []
    result = run_fovea("similar", "--duplicates", "--in", "out", "--json")
    assert "2 duplicates not to be deleted: the file of the kept photo cannot be decoded" in result.stderr
    members = {m["source"]: m for m in json.loads(result.stdout)["groups"][0]["members"]}
    assert "PNG" in members["kept.png"]["error"] and members["kept.png"]["keep"]
    assert [members[name]["class"] for name in damaged[1:]] == ["identical-files", "similar", "similar"]
    assert [members[name]["may_go"] for name in damaged[1:]] == [True, False, False]
    if score == 1:
        assert "2 photos could not be read or decoded" in result.stderr
    # When it is whole again, the others may go.
    save("kept.png", (400, 300), 1, compress_level=0)
    write_rows(tmp_path, list(zip(damaged, vectors, sizes)), "again")
    listed = run_fovea("similar", "--duplicates", "--in", "again", "--print0").stdout.split("\0")
    assert set(listed) >= {"other.png", "small.png"}


def test_a_photo_that_cannot_be_decoded_is_a_copy_of_nothing_but_its_bytes(run_fovea, tmp_path, damaged):
    save("whole.png", (400, 300), 1, compress_level=0)  # larger: kept
    names_and_sizes = [("whole.png", (400, 300)), ("kept.png", (400, 300)), ("copy.png", (400, 300))]
    write_rows(tmp_path, [(name, near(0, 1), size) for name, size in names_and_sizes])
    result = run_fovea("similar", "--duplicates", "--in", "out", "--print0")
    assert result.stdout == ""
    assert "2 duplicates not to be deleted: its file cannot be decoded" in result.stderr
    assert classes(find(run_fovea)) == {"kept.png": "similar", "copy.png": "identical-files"}


def preload(folder, source):
    """The environment in which these functions replace those of the system."""
    (folder / "replaced.c").write_text(source)
    library = folder / "replaced.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / "replaced.c"], check=True)
    return {"LD_PRELOAD": str(library)}


# The system's calls, but every read beyond 64 KiB from a file that is named "bad..." fails.
FAILING_READS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static ssize_t (*next)(int, void*, size_t);
ssize_t read(int file, void* to, size_t count) {
  if (!next) next = (ssize_t(*)(int, void*, size_t))dlsym(RTLD_NEXT, "read");
  char link[64], path[4096] = {0};
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/bad")) {
    if (lseek(file, 0, SEEK_CUR) >= 65536) { errno = EIO; return -1; }
    if (count > 65536) count = 65536;
  }
  return next(file, to, count);
}
"""


@pytest.mark.parametrize("score", [1, 0.99])
def test_a_kept_photo_on_a_failing_disk_lets_nothing_go(run_fovea, tmp_path, monkeypatch, score):
    monkeypatch.chdir(tmp_path)
    save("bad.png", (400, 300), 1, compress_level=0)
    shutil.copy("bad.png", "same.png")
    save("other.png", (400, 300), 1)
    save("small.png", (40, 30), 1)
    write_rows(
        tmp_path,
        [
            ("bad.png", near(0, 1), (400, 300)),
            ("same.png", near(0, 1), (400, 300)),
            ("other.png", near(0, score), (400, 300)),
            ("small.png", near(0, score), (40, 30)),
        ],
    )
    assert len(print0(run_fovea)) == 3
    environment = preload(tmp_path, FAILING_READS)
    result = run_fovea("similar", "--duplicates", "--in", "out", "--print0", env=environment)
    assert result.stdout == ""
    assert "3 duplicates not to be deleted: the file of the kept photo cannot be read" in result.stderr
    # It is told also when nothing would be deleted for its sake.
    with tarfile.open("x.tar", "w") as tar:
        tar.add("small.png")
    write_rows(tmp_path, [("bad.png", near(0, 1), (400, 300)), ("x.tar#small.png", near(0, score), (40, 30))], "tar")
    result = run_fovea("similar", "--duplicates", "--in", "tar", "--json", env=environment)
    assert "output error" in json.loads(result.stdout)["groups"][0]["members"][0]["error"]


# The system's stat(), but what is below "mount/" is on another device.
TWO_DEVICES = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>
int stat(const char* path, struct stat* info) {
  int (*next)(const char*, struct stat*) = (int (*)(const char*, struct stat*))dlsym(RTLD_NEXT, "stat");
  int result = next(path, info);
  if (result == 0 && strstr(path, "mount/")) info->st_dev += 1;
  return result;
}
"""


def test_a_file_that_is_seen_through_two_mounts_stays(run_fovea, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save("a.png", seed=1)
    os.mkdir("mount")
    os.link("a.png", "mount/a.png")
    shutil.copy2("a.png", "mount/copy.png")
    names_there = ["a.png", "mount/a.png", "mount/copy.png"]
    write_rows(tmp_path, [(name, near(0, 1), (40, 30)) for name in names_there])
    environment = preload(tmp_path, TWO_DEVICES)
    result = run_fovea("similar", "--duplicates", "--in", "out", "--print0", env=environment)
    assert result.stdout == "mount/copy.png\0"
    assert "1 duplicate not to be deleted: it may be the same file as another photo" in result.stderr
