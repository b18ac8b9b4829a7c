"""Outputs of features: files, index and manifest, resumed, updated, merged and refused."""

import json
import random
import signal
import subprocess
import time

import numpy as np
import pytest
from pipeline_support import contents, name_of, read_output, write_photos

FEATURES = ("--features", "penultimate")


@pytest.fixture(scope="module")
def whole(embed, photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("features") / "out"
    embed(photos, out=out, flags=[*FEATURES, "--shard-rows", "16"])
    return out


def manifest_of(out):
    return json.loads((out / "manifest.json").read_text())


def test_files(embed, photos, whole, tmp_path):
    sources, _, rows, errors = read_output(whole)
    config = json.loads((embed.model / "config.json").read_text())["vision_config"]
    tokens = (config["image_size"] // config.get("patch_size", 16)) ** 2
    assert rows.shape == (40, tokens, config["hidden_size"])
    assert rows.dtype == np.float16
    assert not errors
    assert [name_of(s) for s in sources] == sorted(str(p).encode() for p in photos.iterdir())
    assert len(list(whole.glob("embeddings-*.npy"))) == 3
    manifest = manifest_of(whole)
    assert manifest["features"] == {"layer": "penultimate", "tokens": tokens}
    assert (manifest["dtype"], manifest["normalize"]) == ("f16", False)
    embed(photos, out=tmp_path / "one.npy", flags=FEATURES)
    assert np.array_equal(np.load(tmp_path / "one.npy"), rows)


def test_pooled_rows_are_the_embeddings_before_they_are_scaled(embed, photos, tmp_path):
    embed(photos, out=tmp_path / "pooled", flags=["--features", "pooled", "--dtype", "f32"])
    embed(photos, out=tmp_path / "plain", flags=["--no-normalize"])
    assert np.array_equal(read_output(tmp_path / "pooled")[2], read_output(tmp_path / "plain")[2])
    assert manifest_of(tmp_path / "pooled")["features"] == {"layer": "pooled"}
    assert "features" not in manifest_of(tmp_path / "plain")


def test_shards_are_not_too_large(embed, photos, tmp_path):
    embed(photos, out=tmp_path / "out", flags=FEATURES)
    manifest = manifest_of(tmp_path / "out")
    row = manifest["features"]["tokens"] * manifest["dimension"] * 2
    assert manifest["shard_rows"] == min(65536, (256 << 20) // row)


def test_a_job_killed_at_random_moments_goes_on(embed, tmp_path):
    photos = write_photos(tmp_path / "p", 400)
    flags = [*FEATURES, "--shard-rows", "40", "--batch-size", "8", "--threads", "1", "--decode-threads", "1"]
    embed(photos, out=tmp_path / "whole", flags=flags)
    out, source, halfway = tmp_path / "out", random.Random(3), set()
    while len(halfway) < 30:
        arguments = embed.arguments(photos, out=out, flags=flags)
        process = subprocess.Popen([embed.fovea_bin, *arguments], stderr=subprocess.DEVNULL)
        time.sleep(source.uniform(0.02, 0.2))
        process.kill()
        process.wait()
        if process.returncode != -signal.SIGKILL:
            break
        if (out / "manifest.json").is_file():
            halfway.add(manifest_of(out)["counts"]["rows"])
    embed(photos, out=out, flags=flags)
    assert halfway & set(range(1, 400)), "no kill came in time"
    assert contents(out) == contents(tmp_path / "whole")


def test_update_and_check(embed, run_fovea, tmp_path):
    photos = write_photos(tmp_path / "p", 12)
    flags = [*FEATURES, "--shard-rows", "5"]
    embed(photos, out=tmp_path / "out", flags=flags)
    (photos / "00003.jpg").unlink()
    write_photos(photos, 4, first=50)
    embed(photos, out=tmp_path / "out", flags=[*flags, "--update"])
    embed(photos, out=tmp_path / "fresh", flags=flags)
    got, want = read_output(tmp_path / "out"), read_output(tmp_path / "fresh")
    by_name = dict(zip(got[0], got[2], strict=True))
    assert sorted(got[0]) == sorted(want[0])
    assert all(np.array_equal(by_name[name], row) for name, row in zip(want[0], want[2], strict=True))
    run_fovea("check", tmp_path / "out")
    shard = tmp_path / "out" / "embeddings-00000.npy"
    damaged = bytearray(shard.read_bytes())
    damaged[-5] ^= 1
    shard.write_bytes(damaged)
    assert "embeddings-00000.npy" in run_fovea("check", tmp_path / "out", code=None).stdout


def test_merge(embed, run_fovea, whole, photos, tmp_path):
    for part in "01":
        embed(photos, out=tmp_path / part, flags=[*FEATURES, "--shard-rows", "16", "--shard", f"{part}/2"])
    run_fovea("merge", tmp_path / "0", tmp_path / "1", "-o", tmp_path / "all")
    got, want = read_output(tmp_path / "all"), read_output(whole)
    rows = dict(zip(got[0], got[2], strict=True))
    assert all(np.array_equal(rows[name], row) for name, row in zip(want[0], want[2], strict=True))
    assert manifest_of(tmp_path / "all")["features"] == manifest_of(whole)["features"]
    embed(photos, out=tmp_path / "other", flags=["--features", "last"])
    said = run_fovea("merge", whole, tmp_path / "other", "-o", tmp_path / "mixed", code=1).stderr
    assert "penultimate" in said


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--features", "last"], 'features "penultimate" there and features "last" now'),
        ([], 'features "penultimate" there and embeddings now'),
        ([*FEATURES, "--dtype", "f32"], "the dtype is f16 there and f32 now"),
    ],
)
def test_another_job_is_refused(embed, photos, whole, flags, words):
    before = contents(whole)
    said = embed(photos, out=whole, flags=[*flags, "--shard-rows", "16"], code=1).stderr
    assert words in said
    assert contents(whole) == before


@pytest.mark.parametrize("command", [["search", "a dog"], ["similar", "00000.jpg"], ["similar", "--duplicates"]])
def test_features_are_not_searched(run_fovea, whole, command):
    said = run_fovea(*command, "--in", whole, code=1).stderr
    assert "holds features of patches" in said
    assert "without --features" in said


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--no-normalize"], "--no-normalize"),
        (["--format", "jsonl"], "--format"),
        (["--text", "a dog"], "--text"),
    ],
)
def test_options_that_make_no_sense(embed, photos, tmp_path, flags, words):
    inputs = [] if "--text" in flags else [photos]
    assert words in embed(*inputs, out=tmp_path / "out.npy", flags=[*FEATURES, *flags], code=2).stderr


def test_naflex_models_have_pooled_features_alone(run_fovea, photos, tmp_path):
    model = tmp_path / "naflex"
    run_fovea("init", "--preset", "tiny-naflex", "-o", model)
    command = ("embed", photos, "-m", model, "--device", "cpu", "--quiet")
    said = run_fovea(*command, "--features", "last", "-o", tmp_path / "a", code=1).stderr
    assert "different numbers of tokens" in said
    run_fovea(*command, "--features", "pooled", "--dtype", "f32", "-o", tmp_path / "b.npy")
    run_fovea(*command, "--no-normalize", "-o", tmp_path / "c.npy")
    assert np.array_equal(np.load(tmp_path / "b.npy"), np.load(tmp_path / "c.npy"))
