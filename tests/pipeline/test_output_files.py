"""What stands in the way of an output's files: links, other outputs, its own inputs, foreign lines."""

import hashlib
import json
import os
import shutil
import subprocess
import time

import numpy as np
import pytest
from pipeline_support import contents, jpeg, read_lines, read_output, write_photos


@pytest.fixture
def three(tmp_path):
    """Three photos, one of them damaged."""
    folder = write_photos(tmp_path / "in", 3)
    (folder / "00001.jpg").write_bytes(b"damaged")
    return folder


@pytest.fixture
def preprocess(run_fovea, model):
    def preprocess(*inputs, out, code=0, **run):
        return run_fovea("preprocess", *inputs, "-m", model, "-o", out, code=code, **run)

    return preprocess


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


# --- A retry reads its list before it changes anything.


@pytest.mark.parametrize("line", ["no JSON\n", "{}\n", '{"source": 3}\n', '{"source": "\\\\q", "error": ""}\n'])
def test_retry_of_a_foreign_list_changes_nothing(embed, run_fovea, three, tmp_path, line):
    out = tmp_path / "out"
    embed(three, out=out, code=3)
    good = contents(out)
    errors = (out / "errors.jsonl").read_text()
    (out / "errors.jsonl").write_text(errors + line)
    before = contents(out)
    refused = embed(three, out=out, flags=["--retry-failed"], code=1).stderr
    assert f"{out}/errors.jsonl" in refused and "check" in refused
    assert contents(out) == before
    assert "not finished" not in run_fovea("similar", three / "00000.jpg", "--in", out).stderr
    # A list of the same length is named by its line.
    (out / "errors.jsonl").write_text("x" * (len(errors) - 1) + "\n")
    refused = embed(three, out=out, flags=["--retry-failed"], code=1).stderr
    assert f"{out}/errors.jsonl" in refused and "line 1" in refused
    (out / "errors.jsonl").write_text(errors)
    assert contents(out) == good
    embed(three, out=out, flags=["--retry-failed"], code=3)


def test_retry_without_a_list_changes_nothing(embed, three, tmp_path):
    out = tmp_path / "out"
    embed(three, out=out, code=3)
    (out / "errors.jsonl").unlink()
    before = contents(out)
    refused = embed(three, out=out, flags=["--retry-failed"], code=1).stderr
    assert "errors.jsonl" in refused and "missing" in refused
    assert contents(out) == before


def test_retry_reads_the_longest_lines_that_fovea_writes(embed, three, tmp_path):
    """A name of 900 kB that is not UTF-8 is a line of 3.6 MB."""
    names = tmp_path / "list"
    names.write_bytes(b"\xff" * 900_000 + b"\n" + os.fsencode(three / "00000.jpg") + b"\n")
    out = tmp_path / "out"
    embed(f"@{names}", out=out, code=3)
    assert (out / "errors.jsonl").stat().st_size > 3_600_000
    embed(f"@{names}", out=out, flags=["--retry-failed"], code=3)
    assert json.loads((out / "manifest.json").read_text())["finished"]
    assert len(read_lines(out / "errors.jsonl")) == 1


# --- Nothing is written through a link, and nothing else in the place of a file is touched.


def obstruct(kind, place, victim):
    if kind == "link":
        place.symlink_to(victim)
    elif kind == "dangling link":
        place.symlink_to("nowhere")
    elif kind == "hard link":
        os.link(victim, place)
    else:
        os.mkfifo(place)


OBSTACLES = ["link", "dangling link", "hard link", "pipe"]


@pytest.mark.parametrize("kind", OBSTACLES)
@pytest.mark.parametrize("name", [".lock", "manifest.json.partial", "errors.jsonl.partial"])
def test_no_link_in_an_output_folder_is_written_through(embed, three, tmp_path, kind, name):
    out, victim = tmp_path / "out", tmp_path / "victim"
    out.mkdir()
    victim.write_text("precious")
    obstruct(kind, out / name, victim)
    assert f"{out / name}:" in embed(three, out=out, code=1, timeout=20).stderr
    assert victim.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists() and not (out / "nowhere").exists()


@pytest.mark.parametrize("kind", OBSTACLES)
@pytest.mark.parametrize("name", ["x.npy", "x.index.jsonl", "x.errors.jsonl"])
def test_no_link_beside_an_array_is_written_through(embed, three, tmp_path, kind, name):
    place, victim = tmp_path / f"{name}.partial", tmp_path / "victim"
    victim.write_text("precious")
    obstruct(kind, place, victim)
    assert f"{place}:" in embed(three, out=tmp_path / "x.npy", code=1, timeout=20).stderr
    assert victim.read_text() == "precious"
    assert not (tmp_path / "x.npy").exists() and not (tmp_path / "nowhere").exists()
    place.unlink()
    embed(three, out=tmp_path / "x.npy", code=3)


# --- An output must not be an input of the job.


def test_an_array_is_not_written_over_its_own_pixels(embed, preprocess, three, tmp_path):
    preprocess(three, out=tmp_path / "px.npy", code=3)
    before = files(tmp_path)
    os.link(tmp_path / "px.npy", tmp_path / "linked.npy")
    (tmp_path / "symbolic.npy").symlink_to("px.npy")
    (tmp_path / "list").write_text(f"{three}/00000.jpg\r\n{tmp_path}/./px.npy\r\n")
    inputs = ["px.npy", "./px.npy", "linked.npy", "symbolic.npy", "@list", "{px,qx}.npy", "px.index.jsonl"]
    for name in inputs:
        for run in (embed, preprocess):
            refused = run(name, out="px.npy", cwd=tmp_path, code=None)
            assert refused.returncode in (1, 2), name
            assert "is an input of th" in refused.stderr and "px." in refused.stderr, name
    embed("px.npy", out="other.npy", cwd=tmp_path)
    # Its index is read with it, and may not be replaced either.
    shutil.copyfile(tmp_path / "px.npy", tmp_path / "copy.npy")
    os.link(tmp_path / "px.index.jsonl", tmp_path / "copy.index.jsonl")
    assert "is an input" in embed("copy.npy", out="px.npy", cwd=tmp_path, code=1).stderr
    assert {name: files(tmp_path)[name] for name in before} == before


def test_an_output_folder_does_not_take_its_own_files(embed, preprocess, three, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    preprocess(three, out=out / "embeddings-00000.npy", code=3)
    before = contents(out)
    assert "is an input" in embed(out / "embeddings-00000.npy", out=out, code=1).stderr
    # Before anything is removed.
    assert "is an input" in embed(out / "embeddings-00000.npy", out=out, flags=["--overwrite"], code=1).stderr
    assert contents(out) == before
    shutil.rmtree(out)
    embed(three, out=three, code=3)  # beside the photos: none of its files is an image
    assert "already done" in embed(three, out=three, code=3).stderr
    assert "is an input" in embed(three / "errors.jsonl", out=three, code=1).stderr


# --- The folder stays the one that was opened.


@pytest.mark.parametrize("by", ["link", "folder"])
def test_a_folder_replaced_while_the_job_runs(embed, three, tmp_path, by):
    out, other = tmp_path / "out", tmp_path / "other"
    embed(three, out=other, code=3)
    untouched = contents(other)
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [embed.fovea_bin, *embed.arguments("-", out=out, flags=["--batch-size", "1"])],
        stdin=read_end, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(read_end)
    with os.fdopen(write_end, "w") as pipe:
        pipe.write(f"{three}/00000.jpg\n")
        pipe.flush()
        deadline = time.monotonic() + 30
        while not (out / "manifest.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        out.rename(tmp_path / "moved")
        if by == "link":
            out.symlink_to("other")
        else:
            other.rename(out)
        pipe.write(f"{three}/00002.jpg\n")
    stderr = process.communicate(timeout=30)[1]
    assert process.returncode == 1
    assert "moved or replaced" in stderr and str(out) in stderr
    assert contents(out) == untouched
    assert len(read_output(tmp_path / "moved")[0]) == 2


# --- Finished outputs are what they were, or not called done.


def test_finished_files_are_read_again_only_when_touched(embed, three, tmp_path):
    out = tmp_path / "out"
    embed(three, out=out, code=3)
    time.sleep(0.1)
    embed(three, out=out, code=3)  # remembers what it has read
    remembered = (out / ".lock").read_text()
    assert "embeddings-00000.npy" in remembered and "index-00000.jsonl" in remembered
    array = out / "embeddings-00000.npy"
    data = array.read_bytes()
    times = array.stat()
    for at in (len(data) - 1, len(data) // 2, 70):
        with open(array, "r+b") as file:  # the same inode and length
            file.seek(at)
            file.write(bytes([data[at] ^ 1]))
        os.utime(array, ns=(times.st_atime_ns, times.st_mtime_ns))
        refused = embed(three, out=out, code=1).stderr
        assert str(array) in refused and "--overwrite" in refused and "--repair" in refused
        array.write_bytes(data)
        assert "already done" in embed(three, out=out, code=3).stderr
    os.truncate(array, len(data) - 4)
    assert str(array) in embed(three, out=out, code=1).stderr


def test_a_copied_output_is_the_same_output(embed, three, tmp_path):
    embed(three, out=tmp_path / "out", code=3)
    subprocess.run(["cp", "-r", tmp_path / "out", tmp_path / "copy"], check=True)
    assert "already done" in embed(three, out=tmp_path / "copy", code=3).stderr
    (tmp_path / "copy/.lock").unlink()
    assert "already done" in embed(three, out=tmp_path / "copy", code=3).stderr


def as_version_1(out):
    """The output as the first version of Fovea would have left it."""
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["check"]
    manifest["format_version"] = 1
    del manifest["left_out"]
    for key in ("retries", "data_sum", "index_sum", "errors_sum", "checksums_bytes", "checksums_sum"):
        del manifest["resume"][key]
    if manifest["finished"]:
        manifest["resume"]["errors_bytes"] = 0
    (out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    for path in out.glob("checksums.jsonl*"):
        path.unlink()
    (out / ".lock").write_text("")


def test_outputs_of_the_first_version(embed, run_fovea, three, tmp_path):
    out = tmp_path / "out"
    embed(three, out=out, code=3)
    as_version_1(out)
    before = contents(out)
    assert "already done" in embed(three, out=out, code=3).stderr
    assert run_fovea("similar", three / "00000.jpg", "--in", out).stdout
    assert "no checksums" in run_fovea("check", out).stdout
    assert "earlier version" in embed(three, out=out, flags=["--retry-failed"], code=1).stderr
    assert contents(out) == before
    os.truncate(out / "embeddings-00000.npy", 200)
    assert "embeddings-00000.npy" in embed(three, out=out, code=1).stderr
    assert "embeddings-00000.npy" in run_fovea("check", out, code=1).stdout
    assert "nothing was changed" in run_fovea("check", out, "--repair", code=1).stdout
    unfinished = tmp_path / "unfinished"
    embed(three, out=unfinished, flags=["--strict", "--batch-size", "1"], code=1)
    as_version_1(unfinished)
    before = contents(unfinished)
    refused = embed(three, out=unfinished, code=1).stderr
    assert "earlier version" in refused and "--overwrite" in refused
    assert contents(unfinished) == before
    embed(three, out=unfinished, flags=["--overwrite"], code=3)


def as_version_2(out):
    """The output as the second version of Fovea would have left it."""
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["check"], manifest["left_out"]
    manifest["format_version"] = 2
    text = json.dumps(manifest, indent=2)
    manifest["check"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    (out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def test_outputs_of_the_second_version(embed, run_fovea, three, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "out"
    (three / "a.mov").write_bytes(b"x")
    flags = ["--batch-size", "1"]
    embed(three, out=whole, flags=flags, code=3)
    embed(three, out=out, flags=[*flags, "--strict"], code=1)
    as_version_2(out)
    run_fovea("check", out)
    embed(three, out=out, flags=flags, code=3)  # resumed, and of the newest version now
    assert contents(out) == contents(whole)
    as_version_2(out)
    before = contents(out)
    run_fovea("check", out)
    assert "1 file left out" in embed(three, out=out, flags=flags, code=3).stderr
    assert contents(out) == before
    embed(three, out=out, flags=["--retry-failed"], code=3)
    assert json.loads((out / "manifest.json").read_text())["left_out"] == {"video": 1}
    (three / "a.mov").unlink()


# --- fovea check.


def test_check_says_what_is_wrong(embed, run_fovea, three, tmp_path):
    out = tmp_path / "out"
    embed(three, out=out, code=3, flags=["--shard-rows", "1", "--batch-size", "1"])
    said = run_fovea("check", out).stdout
    assert "finished" in said and "2 rows in 2 complete files, 1 failed" in said
    before = contents(out)
    (out / "index-00001.jsonl").write_text('{"row": 0}\n')
    with open(out / "errors.jsonl", "a") as file:
        file.write("more\n")
    said = run_fovea("check", out, code=1).stdout
    assert "wrong: " in said and "index-00001.jsonl" in said and "errors.jsonl" in said
    assert f"fovea check {out} --repair" in said
    report = json.loads(run_fovea("check", out, "--json", code=1).stdout)
    assert report["finished"] and report["rows"] == 2 and report["failed"] == 1
    assert len(report["problems"]) == 2 and report["can_repair"] and not report["repaired"]
    assert not report["kept_finished"] and report["kept_rows"] == 1
    assert "Repaired" in run_fovea("check", out, "--repair").stdout
    assert "not finished" in run_fovea("check", out).stdout
    embed(three, out=out, code=3, flags=["--shard-rows", "1", "--batch-size", "1"])
    assert contents(out) == before
    assert "as it was written" in run_fovea("check", out, "--repair").stdout
    assert contents(out) == before


def test_check_without_a_manifest(embed, run_fovea, three, tmp_path):
    out = tmp_path / "out"
    embed(three, out=out, code=3)
    before = contents(out)
    (out / "manifest.json").unlink()
    assert "check" in embed(three, out=out, code=1).stderr
    assert "manifest.json: the file is missing" in run_fovea("check", out, code=1).stdout
    run_fovea("check", out, "--repair")
    assert "images" in embed(three, out=out, code=3).stderr
    assert contents(out) == before


def test_check_of_what_is_no_output(run_fovea, tmp_path):
    assert "no output" in run_fovea("check", tmp_path, code=1).stderr
    assert "absent" in run_fovea("check", tmp_path / "absent", code=1).stderr
    (tmp_path / "file").write_text("")
    assert "file" in run_fovea("check", tmp_path / "file", code=1).stderr
    (tmp_path / "manifest.json").write_text("{" * 100000)
    said = run_fovea("check", tmp_path, "--repair", code=1).stdout
    assert "manifest.json" in said and "nothing was changed" in said


def test_check_beside_a_running_job(embed, run_fovea, three, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen(
        [embed.fovea_bin, *embed.arguments("-", out=out)], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    process.stdin.write(f"{three}/00000.jpg\n".encode())
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not (out / "manifest.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for flags in ([], ["--repair"]):
        assert "another run" in run_fovea("check", out, *flags, code=1).stderr
    process.kill()
    process.communicate()
    run_fovea("check", out)


def test_checksums_are_those_of_the_files(embed, three, tmp_path):
    """As docs/output.md says how to compute them."""
    out = tmp_path / "out"
    embed(three, out=out, code=3)
    (line,) = [line for line in read_lines(out / "checksums.jsonl") if "file" in line]
    rows = np.load(out / "embeddings-00000.npy").tobytes()
    index = (out / "index-00000.jsonl").read_bytes()
    assert line["rows"] == 2
    assert line["data_sum"] == hashlib.sha256(rows).hexdigest()[:16]
    assert line["index_sum"] == hashlib.sha256(index).hexdigest()[:16]


def test_retry_after_a_repair_of_a_retry(embed, run_fovea, three, tmp_path):
    """A repair cannot go back to the first pass once a retry has begun, but it can go back within the
    retry while its list exists."""
    for seed in (3, 4, 5):
        (three / f"{seed:05}.jpg").write_bytes(b"damaged")
    straight, out = tmp_path / "straight", tmp_path / "out"
    flags = ["--batch-size", "1", "--shard-rows", "1"]
    for target in (straight, out):
        embed(three, out=target, flags=flags, code=3)
    for seed in (1, 3, 5):
        (three / f"{seed:05}.jpg").write_bytes(jpeg(seed))
    flags.append("--retry-failed")
    embed(three, out=straight, flags=flags, code=3)
    embed(three, out=out, flags=[*flags, "--strict"], code=1)  # at 4, with 1 and 3 done
    assert len(list(out.glob("embeddings-*.npy"))) == 4
    (out / "embeddings-00003.npy").write_bytes(b"")
    report = json.loads(run_fovea("check", out, "--json", code=1).stdout)
    assert report["can_repair"] and report["kept_rows"] == 3
    run_fovea("check", out, "--repair")
    embed(three, out=out, flags=flags, code=3)
    assert contents(out) == contents(straight)
    (out / "embeddings-00000.npy").write_bytes(b"")
    before = contents(out)
    assert "nothing was changed" in run_fovea("check", out, "--repair", code=1).stdout
    assert contents(out) == before
