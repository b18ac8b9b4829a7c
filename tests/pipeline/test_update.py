"""`fovea embed --update`: an output follows its photos, whatever kills it on the way."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
from pipeline_support import contents, jpeg, read_lines, read_output, write_photos
from update_trial import Trial, rows_by_source


@pytest.mark.parametrize(
    "seed, flags", [(1, []), (2, ["--checksum"]), (3, ["--dtype", "f16"])], ids=["", "sums", "f16"]
)
def test_killed_while_photos_come_and_go(fovea_bin, model, tmp_path, seed, flags):
    trial = Trial(fovea_bin, model, tmp_path, 300, seed, shard_rows=64, flags=flags)
    trial.begin()
    for _ in range(20):
        trial.round(4, 6)
        if trial.kills >= 8:
            break
    assert trial.kills >= 4  # a slow machine is rarely killed in time
    assert trial.kept > 100
    trial.round(0, 6)  # those killed may all have left nothing to report
    assert (trial.totals["not_computed"] > 0) == ("--checksum" in flags)


@pytest.fixture
def place(embed, tmp_path):
    """A folder with photos, and update(*flags) in it."""
    write_photos(tmp_path / "photos", 12)

    def run(*flags, code=0, out="out", inputs=("photos",), shard_rows="5"):
        flags = ["--shard-rows", shard_rows, *flags]
        return embed(*inputs, out=out, flags=flags, code=code, cwd=tmp_path)

    run.folder = tmp_path
    return run


def done_event(result):
    return json.loads(result.stderr.splitlines()[-1])


def test_says_what_it_did(place):
    place()
    photos = place.folder / "photos"
    (photos / "00001.jpg").unlink()
    (photos / "00002.jpg").write_bytes(jpeg(1002))
    (photos / "a.jpg").write_bytes(jpeg(1003))
    (photos / "b.jpg").write_bytes(b"damaged")
    result = place("--update", code=3)
    line = "updated: 1 added, 1 re-embedded, 1 dropped, 10 unchanged, 1 failed (see out/errors.jsonl)"
    assert line in result.stderr
    manifest = json.loads((place.folder / "out/manifest.json").read_text())
    counts = {"added": 1, "reembedded": 1, "dropped": 1, "unchanged": 10, "not_computed": 0}
    assert manifest["last_update"] == counts
    again = place("--update", code=3)  # what fails as before is listed, but not told again
    assert "1 failed, 0 of them new (see out/errors.jsonl)" in again.stderr and "b.jpg" not in again.stderr
    (photos / "c.jpg").write_bytes(b"damaged")
    (photos / "b.jpg").write_bytes(b"")
    again = place("--update", code=3)  # new, and another reason
    assert "2 failed (see out/errors.jsonl)" in again.stderr and again.stderr.count("failed: photos/") == 2
    (photos / "c.jpg").unlink()
    event = done_event(place("--update", "--progress", "json", code=3))
    assert event["update"] == dict.fromkeys(counts, 0) | {"unchanged": 12}
    assert event["rows"] == 12 and event["failed"] == 1 and event["new_rows"] == 0


def test_without_an_output_it_is_a_plain_run(place):
    place("--update", out="first")
    place(out="second")
    assert contents(place.folder / "first") == contents(place.folder / "second")


def test_jsonl_outputs_are_updated(place):
    place("--format", "jsonl")
    photos = place.folder / "photos"
    (photos / "00004.jpg").unlink()
    (photos / "00007.jpg").write_bytes(jpeg(900))
    (photos / "c.jpg").write_bytes(jpeg(901))
    place("--format", "jsonl", "--update")
    place("--format", "jsonl", out="fresh")

    def rows(out):
        found = {}
        for path in sorted((place.folder / out).glob("embeddings-*.jsonl")):
            for number, line in enumerate(read_lines(path)):
                assert line.pop("row") == number
                found[line["source"]] = line
        return found

    assert rows("out") == rows("fresh")
    assert len(rows("out")) == 12


@pytest.mark.parametrize(
    "flags, what",
    [
        ({"flags": ["--dtype", "f16"]}, "dtype"),
        ({"flags": ["--no-normalize"]}, "normalisation"),
        ({"flags": ["--format", "jsonl"]}, "format"),
        ({"shard_rows": "6"}, "rows per file"),
    ],
)
def test_another_job_is_refused(place, flags, what):
    place()
    before = contents(place.folder / "out")
    (place.folder / "photos/00001.jpg").unlink()
    flags = dict(flags)
    assert what in place("--update", *flags.pop("flags", []), code=1, **flags).stderr
    assert contents(place.folder / "out") == before


def test_another_precision_is_refused(place, run_fovea, model):
    arguments = ["photos", "-m", model, "-o", "out", "--precision"]
    run_fovea("embed", *arguments, "fp32", cwd=place.folder)
    result = run_fovea("embed", *arguments, "int8", "--update", code=1, cwd=place.folder)
    assert "precision" in result.stderr or "calibrat" in result.stderr


def test_another_model_is_refused(place, run_fovea, model):
    place()
    before = contents(place.folder / "out")
    other = place.folder / "other"
    run_fovea("init", "--preset", "tiny", "--seed", "5", "-o", other)
    arguments = ["photos", "-m", other, "-o", "out", "--shard-rows", "5", "--precision", "fp32"]
    result = run_fovea("embed", *arguments, "--update", code=1, cwd=place.folder)
    assert "the model is" in result.stderr
    assert contents(place.folder / "out") == before


def test_what_cannot_be_updated_says_why(place):
    place(out="one.npy")
    assert "it does not record its model" in place("--update", out="one.npy", code=1).stderr
    for flags in (["--overwrite"], ["--retry-failed"], ["--synthetic", "3"]):
        place("--update", *flags, code=2)
    place("--max-drop", "3", code=2)


def test_a_folder_that_is_missing_or_empty_drops_nothing(place):
    place()
    before = contents(place.folder / "out")
    (place.folder / "photos").rename(place.folder / "gone")
    assert "photos" in place("--update", code=1).stderr
    (place.folder / "photos").mkdir()
    assert "no images" in place("--update", code=1).stderr
    write_photos(place.folder / "other", 2, first=50)
    result = place("--update", code=1, inputs=["other", "photos"])
    assert "not mounted" in result.stderr
    (place.folder / "photos").rmdir()
    (place.folder / "gone").rename(place.folder / "photos")
    assert place.folder.joinpath("out").is_dir()
    assert dict(contents_of_files(place.folder / "out")) == before
    place("--update", inputs=["other"])
    assert len(read_output(place.folder / "out")[0]) == 2


def contents_of_files(out):
    return {p.name: p.read_bytes() for p in out.iterdir() if p.is_file() and p.name != ".lock"}


def test_max_drop(place):
    place()
    for name in ("00001.jpg", "00002.jpg"):
        (place.folder / "photos" / name).unlink()
    before = contents(place.folder / "out")
    assert "drop 2 rows" in place("--update", "--max-drop", "1", code=1).stderr
    assert contents_of_files(place.folder / "out") == before
    place("--update", "--max-drop", "2")


def test_the_same_photos_by_another_path(embed, place):
    """Rows are found by where files are, and get the names that they have now."""
    place()
    rows = rows_by_source(place.folder / "out")[0]
    for inputs, cwd, prefix in (
        (["./photos/"], place.folder, "./photos/"),
        ([place.folder / "photos"], place.folder, f"{place.folder}/photos/"),
        (["../photos"], place.folder / "photos", "../photos/"),
        (["photos"], place.folder, "photos/"),
    ):
        flags = ["--shard-rows", "5", "--update"]
        result = embed(*inputs, out=place.folder / "out", flags=flags, cwd=cwd)
        assert "0 added, 0 re-embedded, 0 dropped, 12 unchanged" in result.stderr
        now = rows_by_source(place.folder / "out")[0]
        assert list(now) == [prefix + name.removeprefix("photos/") for name in rows]
        assert [row for row, _ in now.values()] == [row for row, _ in rows.values()]
        manifest = json.loads((place.folder / "out/manifest.json").read_text())
        assert manifest["working_folder"] == str(cwd)
        embed(*inputs, out=place.folder / "out", flags=["--shard-rows", "5"], cwd=cwd)
    assert rows_by_source(place.folder / "out")[0] == rows


def test_archives_and_lists(place):
    """Members of an archive that is written anew are embedded anew; lists may come from a pipe."""
    import tarfile

    folder = place.folder

    def pack(names):
        with tarfile.open(folder / "x.tar", "w") as tar:
            for name in names:
                tar.add(folder / "photos" / name, name)

    names = sorted(p.name for p in (folder / "photos").iterdir())
    pack(names[:4])
    place(inputs=["x.tar", "photos"])
    assert "16 unchanged" in place("--update", inputs=["x.tar", "photos"]).stderr
    pack(names[1:6])
    result = place("--update", inputs=["x.tar", "photos"])
    assert "2 added, 3 re-embedded, 1 dropped, 12 unchanged" in result.stderr
    place(inputs=["x.tar", "photos"], out="fresh")
    assert rows_by_source(folder / "out") == rows_by_source(folder / "fresh")
    listed = "\n".join(["x.tar", *(f"photos/{name}" for name in names[:3])]).encode()
    (folder / "list").write_bytes(listed)
    with open(folder / "list", "rb") as stdin:
        command = [place_bin(place), "embed", "-", "-m", place_model(place), "-o", "out"]
        flags = ["--shard-rows", "5", "--precision", "fp32", "--update"]
        result = subprocess.run([*command, *flags], cwd=folder, stdin=stdin, capture_output=True, text=True, check=True)
    assert "0 added, 0 re-embedded, 9 dropped, 8 unchanged" in result.stderr
    os.truncate(folder / "x.tar", 700)  # the rest of its members cannot be read now, so they stay
    result = place("--update", inputs=["x.tar", "photos"], code=3)
    assert "9 added" in result.stderr
    sources = read_output(folder / "out")[0]
    assert sum(source.startswith("x.tar#") for source in sources) >= 4


def place_bin(place):
    return place.__closure__[0].cell_contents.fovea_bin


def place_model(place):
    return place.__closure__[0].cell_contents.model


def test_outputs_of_shards_are_updated(place):
    for shard in ("0/2", "1/2"):
        place("--shard", shard, out=shard[0])
    photos = place.folder / "photos"
    (photos / "000000.jpg").write_bytes(jpeg(77))  # every other photo gets another number
    (photos / "00009.jpg").unlink()
    for shard in ("0/2", "1/2"):
        place("--shard", shard, "--update", out=shard[0])
    place(out="whole")
    rows = rows_by_source(place.folder / "0")[0] | rows_by_source(place.folder / "1")[0]
    assert rows == rows_by_source(place.folder / "whole")[0]
    assert not rows_by_source(place.folder / "0")[0].keys() & rows_by_source(place.folder / "1")[0].keys()


def test_an_output_among_the_photos(place):
    """Neither its files nor what an update prepares count as photos or as left out."""
    place(out="photos/out")
    (place.folder / "photos/00001.jpg").unlink()
    place("--update", out="photos/out")
    manifest = json.loads((place.folder / "photos/out/manifest.json").read_text())
    assert manifest["left_out"] == {}
    assert manifest["counts"]["rows"] == 11


def test_retry_and_overwrite_after_an_update(place):
    place()
    bad = place.folder / "photos/bad.jpg"
    bad.write_bytes(b"damaged")
    place("--update", code=3)
    bad.write_bytes(jpeg(99))
    place("--retry-failed")
    assert len(read_output(place.folder / "out")[0]) == 13
    assert "13 unchanged" in place("--update").stderr
    (place.folder / "photos/00003.jpg").unlink()
    place("--update")
    place(out="fresh")
    rows = rows_by_source(place.folder / "out")
    assert rows == rows_by_source(place.folder / "fresh")
    place("--overwrite")
    assert contents(place.folder / "out") == contents(place.folder / "fresh")


def test_damage_is_refused_before_anything_is_changed(place):
    place()
    (place.folder / "photos/00003.jpg").unlink()
    array = place.folder / "out/embeddings-00001.npy"
    data = bytearray(array.read_bytes())
    data[-1] ^= 1
    array.write_bytes(data)
    before = contents(place.folder / "out")
    assert "checksum" in place("--update", code=1).stderr
    assert contents(place.folder / "out") == before


def test_full_disk(place, fovea_bin, model):
    """An update that finds no room says so, changes nothing, and comes to its end later."""
    place()
    before = contents(place.folder / "out")
    write_photos(place.folder / "photos", 30, first=100)
    arguments = ["embed", "photos", "-m", model, "-o", "out", "--shard-rows", "5"]
    result = subprocess.run(
        ["prlimit", "--fsize=2000", fovea_bin, *arguments, "--precision", "fp32", "--update"],
        cwd=place.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    assert contents_of_files(place.folder / "out") == before
    place("--update")
    place(out="fresh")
    assert rows_by_source(place.folder / "out") == rows_by_source(place.folder / "fresh")


def test_two_updates_at_once(place, fovea_bin, model):
    place()
    read_end, write_end = os.pipe()
    arguments = ["embed", "-", "-m", model, "-o", "out", "--shard-rows", "5", "--precision", "fp32"]
    first = subprocess.Popen(
        [fovea_bin, *arguments, "--update"], cwd=place.folder, stdin=read_end, stderr=subprocess.PIPE
    )
    os.write(write_end, b"photos/00001.jpg\n")
    while not (place.folder / "out/.update").exists():
        assert first.poll() is None
    assert "another run is writing" in place("--update", code=1).stderr
    first.kill()
    first.communicate()
    os.close(read_end)
    os.close(write_end)
    assert "12 unchanged" in place("--update").stderr


def test_the_index_says_what_it_says_elsewhere(place):
    """A row of which a part of the range was lost is counted wherever it goes."""
    import io

    from PIL import Image

    buffer = io.BytesIO()
    wide = (np.arange(40 * 30, dtype=np.uint32) * 50 % 65536).astype(np.uint16).reshape(30, 40)
    Image.fromarray(wide).save(buffer, "PNG")
    (place.folder / "photos/wide.png").write_bytes(buffer.getvalue())
    place()
    manifest = json.loads((place.folder / "out/manifest.json").read_text())
    if "lost_range" not in manifest["counts"]:
        pytest.skip("this image keeps its range")
    assert manifest["counts"]["lost_range"] == 1
    (place.folder / "photos/00001.jpg").unlink()
    place("--update")
    manifest = json.loads((place.folder / "out/manifest.json").read_text())
    assert manifest["counts"]["lost_range"] == 1
    (place.folder / "photos/wide.png").unlink()
    place("--update")
    manifest = json.loads((place.folder / "out/manifest.json").read_text())
    assert "lost_range" not in manifest["counts"]
    shutil.rmtree(place.folder / "out")


def test_copied_rows_are_told_beside_those_that_came(place):
    place("--checksum")
    (place.folder / "photos/00003.jpg").rename(place.folder / "photos/z.jpg")
    said = place("--update").stderr
    assert (
        "updated: 1 added, 0 re-embedded (1 of them copied from rows with the same contents), 1 dropped, 11 unchanged"
        in said
    )
