"""`fovea merge` joins outputs: shards of one job give the output of the whole job, byte for byte."""

import json
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from pipeline_support import contents, jpeg, read_output, write_photos
from update_trial import rows_by_source

# What a merge leaves of these two is whole, but checksums.jsonl holds fewer states.
OWN = {"checksums.jsonl", "manifest.json"}


@pytest.fixture
def place(embed, run_fovea, tmp_path):
    """Folders of photos, of which some are damaged; embed(...) and merge(...) in them."""
    rng = random.Random(3)
    for folder, first in (("b", 0), ("a", 100), ("c", 200)):
        write_photos(tmp_path / folder, 40, first)
        for path in rng.sample(sorted((tmp_path / folder).iterdir()), 3):
            path.write_bytes(b"damaged " + path.name.encode())

    class Place:
        folder = tmp_path

        def embed(self, out, *flags, inputs=("b", "a", "c"), code=None, shard_rows="16"):
            flags = ["--shard-rows", shard_rows, *flags]
            return embed(*inputs, out=out, flags=flags, code=code, cwd=tmp_path)

        def merge(self, *outputs, out, flags=(), code=0):
            return run_fovea("merge", *outputs, "-o", out, *flags, code=code, cwd=tmp_path)

    return Place()


def same_files(one, other):
    one, other = contents(one), contents(other)
    assert one.keys() == other.keys()
    return [name for name in one if name not in OWN and one[name] != other[name]] == []


def state(out):
    manifest = json.loads((out / "manifest.json").read_text())
    for key in ("checksums_bytes", "checksums_sum"):
        del manifest["resume"][key]
    del manifest["check"]
    return manifest


@pytest.mark.parametrize("count", [2, 5])
def test_shards_become_the_whole(place, run_fovea, count):
    place.embed("whole", code=3)
    for shard in range(count):
        place.embed(f"part-{shard}", "--shard", f"{shard}/{count}")
    parts = [f"part-{shard}" for shard in range(count)]
    random.Random(count).shuffle(parts)
    result = place.merge(*parts, out="merged")
    assert "in the order of a run without --shard" in result.stderr
    folder = place.folder
    assert same_files(folder / "merged", folder / "whole")
    assert state(folder / "merged") == state(folder / "whole")
    run_fovea("check", folder / "merged")
    # It goes on like any other: nothing to do, retried, updated.
    assert "already done" in place.embed("merged", code=3).stderr
    (folder / "a/00100.jpg").write_bytes(jpeg(999))
    (folder / "c/00201.jpg").unlink()
    place.embed("merged", "--update", code=None)
    place.embed("fresh", code=None)
    assert rows_by_source(folder / "merged") == rows_by_source(folder / "fresh")
    before = contents(folder / "merged")
    assert "holds another output already" in place.merge(*parts, out="merged", code=1).stderr
    assert contents(folder / "merged") == before


def test_shards_of_a_list_in_any_order(place):
    names = sorted(str(p.relative_to(place.folder)) for p in place.folder.glob("?/*.jpg"))
    random.Random(1).shuffle(names)
    (place.folder / "list").write_text("\n".join(names[:100]))
    place.embed("whole", inputs=["@list"], code=3)
    for shard in range(3):
        place.embed(f"part-{shard}", "--shard", f"{shard}/3", inputs=["@list"])
    place.merge("part-0", "part-1", "part-2", out="merged")
    assert same_files(place.folder / "merged", place.folder / "whole")


def test_other_outputs_come_one_after_the_other(place, run_fovea):
    for folder in "bac":
        place.embed(folder.upper(), inputs=[folder], code=3)
    result = place.merge("B", "A", "C", out="merged", flags=["--shard-rows", "50"])
    assert "one output after the other" in result.stderr
    place.embed("whole", shard_rows="50", code=3)
    merged, whole = (read_output(place.folder / out) for out in ("merged", "whole"))
    assert merged[0] == whole[0] and np.array_equal(merged[2], whole[2]) and merged[3] == whole[3]
    run_fovea("check", place.folder / "merged")
    again = place.merge("B", "A", "C", out="merged", flags=["--shard-rows", "50"])
    assert "already merged" in again.stderr
    again = place.merge("B", "A", "C", out="merged", flags=["--overwrite", "--shard-rows", "7"])
    assert "merged 3 outputs: 111 rows, 9 failed" in again.stderr


def test_shards_that_were_updated_or_retried(place):
    """Their rows are no longer in input order, and nobody pretends that they are."""
    for shard in range(2):
        place.embed(f"part-{shard}", "--shard", f"{shard}/2", inputs=["a"])
    damaged = [p for p in (place.folder / "a").iterdir() if p.read_bytes().startswith(b"damaged")]
    for number, path in enumerate(damaged):
        path.write_bytes(jpeg(500 + number))
    for shard in range(2):
        place.embed(f"part-{shard}", "--shard", f"{shard}/2", "--retry-failed", inputs=["a"])
    result = place.merge("part-0", "part-1", out="merged")
    assert "one output after the other" in result.stderr
    place.embed("fresh", inputs=["a"])
    fresh = rows_by_source(place.folder / "fresh")
    assert rows_by_source(place.folder / "merged") == fresh
    assert "40 unchanged" in place.embed("merged", "--update", inputs=["a"]).stderr


def test_photos_in_several_outputs(place):
    place.embed("ab", inputs=["a", "b"])
    place.embed("bc", inputs=["b", "c"])
    result = place.merge("ab", "bc", out="merged", code=1)
    assert "40 photos are in several of the outputs" in result.stderr
    assert not (place.folder / "merged").exists() or not list((place.folder / "merged").glob("emb*"))
    place.merge("ab", "bc", out="merged", flags=["--keep-first"])
    place.embed("whole", inputs=["a", "b", "c"])
    assert rows_by_source(place.folder / "merged") == rows_by_source(place.folder / "whole")
    # A row counts more than a failure.
    damaged = next(p for p in (place.folder / "b").iterdir() if p.read_bytes()[:3] == b"dam")
    damaged.write_bytes(jpeg(700))
    place.embed("later", inputs=["b"])
    place.merge("ab", "later", out="mended", flags=["--keep-first"])
    sources, _, _, errors = read_output(place.folder / "mended")
    assert f"b/{damaged.name}" in sources and f"b/{damaged.name}" not in errors
    assert len(sources) + len(errors) == 80


def test_other_working_folders(place, embed):
    place.embed("A", inputs=["a"])
    flags = ["--shard-rows", "16"]
    embed(".", out=place.folder / "B", flags=flags, code=3, cwd=place.folder / "b")
    place.merge("A", "B", out="merged")
    sources, _, _, errors = read_output(place.folder / "merged")
    both = [*sources, *errors]
    assert sum(name.startswith(f"{place.folder}/b/") for name in both) == 40
    place.embed("merged", "--update", inputs=["a", "b"], code=3)
    place.embed("fresh", inputs=["a", "b"], code=3)
    assert rows_by_source(place.folder / "merged") == rows_by_source(place.folder / "fresh")


def test_what_does_not_belong_together(place, run_fovea):
    place.embed("A", inputs=["a"])
    place.embed("half", "--dtype", "f16", inputs=["b"])
    assert "dtype" in place.merge("A", "half", out="merged", code=1).stderr
    run_fovea("init", "--preset", "tiny", "--seed", "9", "-o", place.folder / "other")
    arguments = ["b", "-m", "other", "-o", "B", "--precision", "fp32"]
    run_fovea("embed", *arguments, code=3, cwd=place.folder)
    assert "the model is" in place.merge("A", "B", out="merged", code=1).stderr
    assert "given twice" in place.merge("A", "./A", out="merged", code=1).stderr
    assert "one of the outputs to merge" in place.merge("A", out="A", code=1).stderr
    manifest = place.folder / "A/manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"finished": true', '"finished": false'))
    assert "altered" in place.merge("A", out="merged", code=1).stderr
    manifest.write_text(text)
    array = place.folder / "A/embeddings-00000.npy"
    data = bytearray(array.read_bytes())
    data[-3] ^= 4
    array.write_bytes(data)
    assert "checksum" in place.merge("A", out="merged", code=1).stderr


def test_search_in_shards_and_in_their_merge(place, run_fovea):
    """The same photos with the same scores, whether outputs are searched together or merged."""
    for shard in range(3):
        place.embed(f"part-{shard}", "--shard", f"{shard}/3", inputs=["a"])
    place.merge("part-0", "part-1", "part-2", out="merged")

    def neighbours(*outputs):
        options = [word for out in outputs for word in ("--in", out)]
        query = next(p for p in sorted((place.folder / "a").iterdir()) if p.stat().st_size > 100)
        result = run_fovea("similar", query, *options, "-k", "30", "--json", cwd=place.folder)
        found = json.loads(result.stdout)["queries"][0]["matches"]
        return {match["source"]: match["score"] for match in found}

    assert neighbours("part-0", "part-1", "part-2") == neighbours("merged")
    assert len(neighbours("merged")) == 30


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_moments(place, fovea_bin, seed):
    for shard in range(2):
        place.embed(f"part-{shard}", "--shard", f"{shard}/2")
    start = time.monotonic()
    place.merge("part-0", "part-1", out="merged")
    seconds = time.monotonic() - start
    rng = random.Random(seed)
    out = place.folder / "killed"
    for _ in range(15):
        process = subprocess.Popen([fovea_bin, "merge", "part-0", "part-1", "-o", out, "-q"], cwd=place.folder)
        time.sleep(rng.uniform(0, seconds))
        process.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM]))
        process.wait()
        if not (out / "manifest.json").exists():
            assert not list(out.glob("embeddings-*"))
    place.merge("part-0", "part-1", out=out)
    assert contents(out) == contents(place.folder / "merged")


def shards(place, count):
    for shard in range(count):
        place.embed(f"part-{shard}", "--shard", f"{shard}/{count}")
    return [f"part-{shard}" for shard in range(count)]


def test_a_shard_that_is_missing_is_an_error(place):
    parts = shards(place, 4)
    for given, said in (
        (parts[:2] + parts[3:], "shard 2/4 is missing"),
        (parts[1:3], "shards 0/4 and 3/4 are missing"),
        (parts[3:], "shards 0/4, 1/4 and 2/4 are missing"),
    ):
        result = place.merge(*given, out="merged", code=1)
        assert said in result.stderr and "--partial" in result.stderr
        assert not (place.folder / "merged").exists()
    shutil.copytree(place.folder / "part-0", place.folder / "again")
    for flags in ([], ["--partial", "--keep-first"]):
        said = place.merge("again", *parts, out="merged", flags=flags, code=1).stderr
        assert "shard 0/4 occurs 2 times, in again and part-0" in said
    place.embed("of-two", "--shard", "0/2")
    said = place.merge("of-two", *parts, out="merged", flags=["--partial", "--keep-first"]).stderr
    assert "PARTIAL: shard 1/2 is missing" in said


def test_a_partial_merge_says_so_until_it_is_whole(place, run_fovea):
    place.embed("whole", code=3)
    parts = shards(place, 4)
    result = place.merge(*parts[:2], parts[3], out="merged", flags=["--partial"])
    assert "PARTIAL: shard 2/4 is missing" in result.stderr.splitlines()[-1]
    merged = place.folder / "merged"
    assert json.loads((merged / "manifest.json").read_text())["shard"] == {
        "index": 0, "count": 1, "merged_from": 4, "missing": [2]
    }  # fmt: skip
    assert "already merged" in place.merge(*parts[:2], parts[3], out="merged", flags=["--partial"]).stderr
    assert "finished, partial: shard 2/4 is missing" in run_fovea("check", merged).stdout
    assert json.loads(run_fovea("check", merged, "--json").stdout)["missing"] == "shard 2/4 is missing"
    assert "merged: shard 2/4 is missing" in run_fovea("similar", "--in", merged, cwd=place.folder).stderr
    # Without its manifest the journal says so, too.
    shutil.copytree(merged, place.folder / "mended")
    (place.folder / "mended/manifest.json").unlink()
    run_fovea("check", place.folder / "mended", "--repair")
    assert "partial: shard 2/4 is missing" in run_fovea("check", place.folder / "mended").stdout
    # It is whole with the shard that it lacks, and only so.
    assert "shard 2/4 is missing" in place.merge("merged", out="alone", code=1).stderr
    place.merge("merged", parts[2], out="joined")
    assert "missing" not in json.loads((place.folder / "joined/manifest.json").read_text())["shard"]
    assert rows_by_source(place.folder / "joined") == rows_by_source(place.folder / "whole")
    # An update looks at all inputs, so that nothing is missing afterwards.
    place.embed("merged", "--update", code=3)
    assert "missing" not in json.loads((merged / "manifest.json").read_text())["shard"]
    assert rows_by_source(merged) == rows_by_source(place.folder / "whole")


def test_an_empty_shard_can_be_missing_and_an_update_ends_that(place):
    write_photos(place.folder / "few", 2)
    flags = {"inputs": ["few"], "code": 0}
    for shard in (0, 1):
        place.embed(f"part-{shard}", "--shard", f"{shard}/3", **flags)
    place.merge("part-0", "part-1", out="merged", flags=["--partial"])
    place.embed("merged", "--update", **flags)
    assert "missing" not in json.loads((place.folder / "merged/manifest.json").read_text())["shard"]
