"""Nothing that a folder holds is left out in silence: read + failed + left out = files."""

import io
import json
import os
import pathlib
import random
import re
import subprocess
import tarfile

import pytest
from pipeline_support import contents, jpeg, read_output, write_photos

ENDINGS = [
    "jpg",
    "JPG",
    "png",
    "heic",
    "cr2",
    "mov",
    "mp4",
    "m4a",
    "svg",
    "psd",
    "xmp",
    "aae",
    "json",
    "txt",
    "pdf",
    "zip",
    "tar",
    "tar.gz",
    "parquet",
    "npy",
    "xyz",
] + [""]
SYSTEM = ["Thumbs.db", "desktop.ini", ".DS_Store", "._a.jpg", "Icon\r"]
FOLDERS = ["2019", "new\nline", "x.jpg", "sp ace", "é", ".git", "@eaDir", ".thumbnails", "#recycle"]


def grow(folder, rng, depth=3):
    """A tree of odd files: kinds, sizes, names, links."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(rng.randrange(2, 9)):
        ending = rng.choice(ENDINGS)
        name = rng.choice(["", ".", "a\nb", "caf\udce9", "x"]) + f"{number}.{ending}"
        content = rng.choice([b"", b"?", jpeg(rng.randrange(100))])
        (folder / name.rstrip(".")).write_bytes(content)
    for name in rng.sample(SYSTEM, 2):
        (folder / name).write_bytes(b"x")
    (folder / "link.jpg").symlink_to(rng.choice(["nowhere.jpg", "0.jpg", "/dev/null"]))
    (folder / "link").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    if depth:
        for name in rng.sample(FOLDERS, 4):
            grow(folder / name, rng, depth - 1)


def files_of(folder):
    """As `find -L` counts them, everything that is not a folder; the tree has no link to one."""
    found = subprocess.run(["find", "-L", folder, "!", "-type", "d", "-printf", "x"], capture_output=True, check=True)
    return len(found.stdout)


def report(result):
    return json.loads(result.stderr.splitlines()[-1])


@pytest.fixture
def embed_as_json(embed):
    def run(*inputs, out, flags=(), code=3):
        result = embed(*inputs, out=out, flags=["--progress", "json", *flags], code=code)
        return report(result)

    return run


@pytest.mark.parametrize("flags", [[], ["--hidden"], ["--exclude=x*", "--include=*.[jp]*"]])
@pytest.mark.parametrize("seed", range(2))
def test_what_is_read_failed_and_left_out_adds_up(embed_as_json, tmp_path, seed, flags):
    grow(tmp_path / "p", random.Random(seed))
    write_photos(tmp_path / "p/@eaDir", 1)  # what each tree must have
    for name in ("good.jpg", "x.jpg", ".h.jpg"):
        (tmp_path / "p/more" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "p/more" / name).write_bytes(jpeg(seed))
    for name in ("bad.jpg", "a.mov", "a.xyz"):
        (tmp_path / "p/more" / name).write_bytes(b"")
    done = embed_as_json(tmp_path / "p", out=tmp_path / "out", flags=flags)
    left_out = done["left_out"]
    assert done["rows"] + done["failed"] + sum(left_out.values()) == files_of(tmp_path / "p")
    assert done["rows"] > 0 and done["failed"] > 0
    assert ("hidden" in left_out) == ("thumbnails" in left_out) == ("--hidden" not in flags)
    assert ("excluded" in left_out) == ("--exclude=x*" in flags)
    assert {"system", "video", "other"} <= left_out.keys()
    assert json.loads((tmp_path / "out/manifest.json").read_text())["left_out"] == left_out


def test_the_last_line_says_so(embed, photos, tmp_path):
    folder = write_photos(tmp_path / "p", 3)
    for name in ["a.mov", "b.MP4", "c.mp4", "x.svg", "y.json", "z.json", ".a.jpg", ".b"]:
        (folder / name).write_bytes(b"x")
    text = "8 files left out (3 video, 2 hidden, 2 json, 1 svg)"
    out = tmp_path / "out"
    assert text in embed(folder, out=out).stderr.splitlines()[-1]
    before = contents(out)
    assert text in embed(folder, out=out).stderr.splitlines()[-1]  # it was already done
    assert contents(out) == before
    (folder / "d.mp4").write_bytes(b"x")  # does not make it another job
    assert "9 files left out (4 video," in embed(folder, out=out).stderr.splitlines()[-1]
    assert json.loads((out / "manifest.json").read_text())["left_out"]["video"] == 4
    assert "left out" not in embed(photos, out=tmp_path / "none").stderr


def test_preprocess_counts_alike(run_fovea, model, tmp_path):
    folder = write_photos(tmp_path / "p", 2)
    (folder / "a.mov").write_bytes(b"x")
    arguments = ["preprocess", folder, "-m", model, "-o"]
    assert "1 file left out (1 video)" in run_fovea(*arguments, tmp_path / "x.npy").stderr
    # Also when its own files lie among the photos.
    for _ in range(2):
        said = run_fovea(*arguments, folder / "x.npy").stderr
        assert "1 file left out (1 video)" in said and "lie among the photos" in said
    # By relative names, of an output that is not there yet.
    said = run_fovea("embed", ".", "-m", model, "-o", "out", cwd=folder).stderr
    assert "the output out is in the input folder ., so its files lie among the photos" in said


def test_resumed_and_retried_jobs_count_once(embed, embed_as_json, tmp_path):
    folder = write_photos(tmp_path / "p", 30)
    for number in range(30):
        (folder / f"{number:05}.mov").write_bytes(b"x")
        (folder / f".{number:05}").write_bytes(b"x")
    (folder / "00020.jpg").write_bytes(b"bad")
    whole, out = tmp_path / "whole", tmp_path / "out"
    flags = ["--batch-size", "4"]
    expected = {"hidden": 30, "video": 30}
    assert embed_as_json(folder, out=whole, flags=flags)["left_out"] == expected
    embed(folder, out=out, flags=[*flags, "--strict"], code=1)
    assert json.loads((out / "manifest.json").read_text())["left_out"] == {}
    done = embed_as_json(folder, out=out, flags=flags)
    assert done["resumed"] and done["left_out"] == expected
    assert contents(out) == contents(whole)
    done = embed_as_json(folder, out=out, flags=["--retry-failed"])
    assert done["left_out"] == expected
    # Every shard sees the whole walk.
    for shard in ("0/2", "1/2"):
        done = embed_as_json(folder, out=tmp_path / shard[0], flags=["--shard", shard], code=None)
        assert done["left_out"] == expected


def test_other_filters_are_another_job(embed, tmp_path):
    folder = write_photos(tmp_path / "p", 6)
    (folder / ".hidden.jpg").write_bytes(jpeg(7))
    out = tmp_path / "out"
    embed(folder, out=out)
    for flags in (["--hidden"], ["--exclude", "*3.jpg"], ["--include", "*[12].jpg"]):
        assert "have changed since" in embed(folder, out=out, flags=flags, code=1).stderr
    (folder / "00003.jpg").write_bytes(b"bad")
    cut = tmp_path / "cut"
    embed(folder, out=cut, flags=["--strict", "--batch-size", "1"], code=1)
    refused = embed(folder, out=cut, flags=["--exclude", "00001.jpg"], code=1).stderr
    assert "have other names or another order" in refused
    embed(folder, out=cut, flags=["--exclude", "00003.jpg"])  # all that was done is among the inputs


def test_lists_and_archives_count_too(embed, embed_as_json, tmp_path):
    folder = write_photos(tmp_path / "p", 2)
    (folder / "a.mov").write_bytes(b"x")
    with tarfile.open(tmp_path / "w.tar", "w") as archive:
        for name, content in (("1.jpg", jpeg(1)), ("1.json", b"{}"), ("1.txt", b"cat")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    names = f"{folder}\n{tmp_path / 'w.tar'}\n"
    (tmp_path / "list").write_text(names)
    expected = {"json": 1, "txt": 1, "video": 1}
    done = embed_as_json(f"@{tmp_path / 'list'}", out=tmp_path / "a", code=0)
    assert (done["rows"], done["left_out"]) == (3, expected)
    result = embed("-", out=tmp_path / "b", flags=["--progress", "json"], input=names)
    assert report(result)["left_out"] == expected
    assert embed_as_json("--synthetic", "3", out=tmp_path / "c", code=0)["left_out"] == {}


def test_without_any_image_nothing_is_made(embed, run_fovea, model, tmp_path):
    folder = tmp_path / "wds"
    folder.mkdir()
    with tarfile.open(folder / "00.tar", "w") as archive:
        for name in ("1.jpg", "1.json", "1.txt"):
            archive.addfile(tarfile.TarInfo(name))
    (folder / "01.tar").write_bytes((folder / "00.tar").read_bytes())
    out = tmp_path / "out"

    def refusal(*inputs, flags=()):
        said = embed(*inputs, out=out, flags=flags, code=1).stderr
        assert not out.exists()
        return said

    said = refusal(folder)
    assert "left out: 2 archives" in said and f"name them: {folder}/*.tar" in said
    said = refusal(folder / "00.tar", flags=["--image-key", "webp"])
    assert "no member has the --image-key" in said and "end in jpg, json, txt" in said
    hidden = write_photos(tmp_path / ".h" / ".i", 1).parent
    assert "--hidden reads" in refusal(hidden)
    assert "1 excluded" in refusal(folder / "../.h/.i", flags=["--exclude", "*.jpg"])
    embed("-", out=out, input="", code=1)
    assert not out.exists()
    run_fovea("preprocess", folder, "-m", model, "-o", tmp_path / "x.npy", code=1)
    assert not list(tmp_path.glob("x.*"))
    # An older output is not removed for it.
    embed(hidden / ".i", out=out)
    before = contents(out)
    embed(folder, out=out, flags=["--overwrite"], code=1)
    assert contents(out) == before


def test_outputs_that_would_be_files_are_wrong_usage(embed, run_fovea, model, photos, tmp_path):
    for name in ("e.parquet", "e.jsonl", "e.csv", "e.tar.gz", "e.JSON"):
        said = embed(photos, out=tmp_path / name, code=2).stderr
        assert "a folder, or one file that ends in .npy" in said
        assert not (tmp_path / name).exists()
    said = run_fovea("preprocess", photos, "-m", model, "-o", tmp_path / "px", code=2).stderr
    assert "must end in .npy" in said
    for name in ("v1.5", "photos.old"):  # folders may have dots in their names
        embed(photos / "00000.jpg", out=tmp_path / name)
    (tmp_path / "e.parquet").mkdir()
    embed(photos / "00000.jpg", out=tmp_path / "e.parquet")


def test_an_output_among_the_photos(embed, tmp_path):
    for place in (".", "out"):
        folder = write_photos(tmp_path / f"p{len(place)}", 2)
        (folder / "mine.json").write_text("{}")
        for _ in range(2):
            said = embed(folder, out=folder / place).stderr
            assert "lie among the photos" in said and "1 file left out (1 json)" in said
        assert len(read_output(folder / place)[0]) == 2
    assert "lie among" not in embed(folder, out=tmp_path / "p").stderr


def test_invalid_patterns_are_refused(embed, photos, tmp_path):
    for flag in ("--exclude", "--include"):
        assert "has no name" in embed(photos, out=tmp_path / "o", flags=[flag, "/"], code=1).stderr
    assert not (tmp_path / "o").exists()


def test_kinds_are_those_of_the_document(embed_as_json, tmp_path):
    text = (pathlib.Path(__file__).parents[2] / "docs/output.md").read_text("utf-8")
    table = text.split("### What folders hold")[1].split("### Limits")[0]
    rows = re.findall(r"^\| (.*) \| ([\w :;]+?)(?:\. .*)? \|$", table, re.M)
    rows = {kind: endings.replace("RAW:", "").replace(";", "").split() for kind, endings in rows}
    for words in ("kind", "`other`", "`json`, `xml`, `txt`"):
        del rows[words]
    expected = {"json": 1, "xml": 1, "txt": 1, "other": 1, "system": 1}
    for kind, endings in rows.items():
        if "each a kind" in kind:
            expected |= dict.fromkeys(endings, 1)
        elif kind.startswith("`") and "," not in kind:
            expected[kind.strip("`")] = len(endings)
    assert expected["video"] > 20 and expected["data"] > 10 and expected["svg"] == 1
    (images,) = (endings for kind, endings in rows.items() if kind.startswith("image, "))
    folder = tmp_path / "p"
    folder.mkdir()
    for ending in {*sum(rows.values(), []), "json", "xml", "txt", "unknown"}:
        (folder / f"a.{ending.upper()}").write_bytes(b"")
    (folder / "Thumbs.db").write_bytes(b"")
    done = embed_as_json(folder, out=tmp_path / "out")
    assert done["failed"] == len(images)
    assert done["left_out"] == expected
