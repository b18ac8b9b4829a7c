"""Where calibrations are written and which one is used: beside the weights, or in a place of the user's own."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PHOTOS = sorted((ROOT / "examples/photos").glob("*.jpg"))[:3]
NAME = "calibration-int8.safetensors"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def run(run_fovea, cache):
    def run(*arguments, env=None, **options):
        return run_fovea(*arguments, env={"XDG_CACHE_HOME": str(cache)} | (env or {}), **options)

    return run


@pytest.fixture
def copied_model(model, tmp_path):
    """A copy of the model that may be written."""
    return shutil.copytree(model, tmp_path / "own")


def calibrated(run, model, *options, **more):
    """The file that a calibration has written."""
    done = run("calibrate", model, *PHOTOS, "--images", "3", "--json", *options, **more)
    (written,) = json.loads(done.stdout)["files"]
    assert f"wrote {written} in" in done.stderr
    return pathlib.Path(written)


def used(run, model, *options, **more):
    return [
        pathlib.Path(path) for path in json.loads(run("info", model, "--json", *options, **more).stdout)["calibrations"]
    ]


def embed(run, model, output, *options, **more):
    return run("embed", *PHOTOS, "-m", model, "--device", "cpu", "--precision", "int8", "-o", output, *options, **more)


def test_beside_the_weights_where_they_can_be_written(run, copied_model, cache, tmp_path):
    assert calibrated(run, copied_model) == copied_model / NAME
    assert used(run, copied_model) == [copied_model / NAME]
    assert "calibrated by" not in embed(run, copied_model, tmp_path / "rows.npy").stderr
    assert not cache.exists()


def test_the_hugging_face_cache_keeps_what_came_from_the_hub(run, model, cache, tmp_path):
    snapshot = tmp_path / "hf/hub/models--org--name/snapshots" / COMMIT
    shutil.copytree(model, snapshot)
    (snapshot.parent.parent / "refs").mkdir()
    (snapshot.parent.parent / "refs/main").write_text(COMMIT)
    env = {"HF_HOME": str(tmp_path / "hf")}
    before = sorted(snapshot.iterdir())
    written = calibrated(run, "org/name", env=env)
    assert sorted(snapshot.iterdir()) == before
    assert written.parent.parent == cache / "fovea/calibrations" and written.name == NAME
    assert used(run, "org/name", env=env) == [written]
    assert f"calibrated by {written}" in embed(run, "org/name", tmp_path / "rows.npy", env=env).stderr
    # Calibrations belong to the weights and not to the folder: a copy elsewhere has them, too.
    assert used(run, model) == [written]
    # One beside the weights, as earlier versions wrote it, is used where there is none of the user's own.
    written.rename(snapshot / NAME)
    assert used(run, "org/name", env=env) == [snapshot / NAME]


def test_a_new_one_is_written_where_it_is_used(run, copied_model, cache):
    snapshot = copied_model.parent / "models--a--b/snapshots" / COMMIT
    shutil.copytree(copied_model, snapshot)
    (snapshot / NAME).write_text("of somebody else")
    cached = calibrated(run, snapshot)
    assert cached.parent.parent == cache / "fovea/calibrations"
    assert used(run, snapshot) == [cached]
    assert used(run, copied_model) == [cached]
    assert calibrated(run, copied_model) == copied_model / NAME
    assert used(run, copied_model) == [copied_model / NAME]
    assert used(run, f"{copied_model}/") == [copied_model / NAME]


def test_where_it_cannot_be_written_is_told_before_the_work(run, copied_model, tmp_path):
    (tmp_path / "file").touch()
    failed = run("calibrate", copied_model, *PHOTOS, "--calibration", tmp_path / "file/folder", code=1)
    assert f"{tmp_path / 'file/folder'}: cannot create the folder: Not a directory" in failed.stderr
    assert "photos" not in failed.stderr.replace(str(PHOTOS[0].parent), "")


def test_without_a_home_there_is_the_folder_of_the_weights(run, copied_model):
    env = {"HOME": "", "XDG_CACHE_HOME": "relative"}
    assert calibrated(run, copied_model, env=env) == copied_model / NAME
    assert used(run, copied_model, env=env) == [copied_model / NAME]


def test_a_named_folder_comes_before_all_others(run, copied_model, tmp_path):
    calibrated(run, copied_model)
    named = tmp_path / "named"
    for how in ({"env": {"FOVEA_CALIBRATION": str(named)}}, {}):
        options = [] if how else ["--calibration", named]
        failed = embed(run, copied_model, tmp_path / "rows.npy", *options, code=1, **how)
        assert f"there is no {named / NAME}" in failed.stderr
        if options:
            assert f"--precision int8 --calibration {named}" in failed.stderr
        assert used(run, copied_model, *options, **how) == []
        assert calibrated(run, copied_model, *options, **how) == named / NAME
        assert used(run, copied_model, *options, **how) == [named / NAME]
        assert (
            f"calibrated by {named / NAME}"
            in embed(run, copied_model, tmp_path / f"{bool(how)}.npy", *options, **how).stderr
        )
        shutil.rmtree(named)


def test_what_others_wrote_under_its_name_is_kept(run, copied_model, tmp_path):
    named = tmp_path / "named"
    named.mkdir()
    (named / NAME).write_text("of somebody else")
    refused = run("calibrate", copied_model, *PHOTOS, "--calibration", named, code=2)
    assert f"{named / NAME}" in refused.stderr and (named / NAME).read_text() == "of somebody else"
    assert calibrated(run, copied_model, "--calibration", named, "--overwrite") == named / NAME
    assert calibrated(run, copied_model, "--calibration", named) == named / NAME  # its own it replaces


@pytest.mark.parametrize("command", ["label", "heat", "bench", "verify"])
def test_every_command_that_computes_takes_the_folder(command, run, copied_model, tmp_path):
    named = tmp_path / "named"
    run("calibrate", copied_model, *PHOTOS, "--calibration", named, "--text", "a cat")
    arguments = {
        "label": [PHOTOS[0], "-m", copied_model, "--labels", "cat", "--precision", "int8"],
        "heat": ["a cat", PHOTOS[0], "-m", copied_model, "--json", "--precision", "int8"],
        "bench": ["-m", copied_model, "--precision", "int8", "--batch-size", "1", "--seconds", "0.01"],
        "verify": [
            copied_model,
            *PHOTOS,
            "--min-mean-cosine-8bit",
            "-1",
            "--min-cosine-8bit",
            "-1",
            "--min-recall",
            "0",
            "--json",
        ],
    }[command]
    done = run(command, *arguments, "--device", "cpu", "--calibration", named)
    assert "int8 needs a calibrated" not in done.stderr + done.stdout
    without = run(command, *arguments, "--device", "cpu", code=None)
    assert "int8 needs a calibrated" in without.stderr + without.stdout


def test_a_model_of_others_that_cannot_be_written(fovea_bin, model):
    """Runs as another user, since root writes everywhere."""
    nobody = 65534
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        shared = shutil.copytree(model, folder / "shared")
        photos = [pathlib.Path(shutil.copy(photo, folder)) for photo in PHOTOS]
        program = shutil.copy(fovea_bin, folder)
        for path in (*shared.iterdir(), *photos):
            path.chmod(0o444)
        shared.chmod(0o555)
        home = folder / "home"
        home.mkdir()
        user = {}
        if os.geteuid() == 0:
            os.chown(home, nobody, nobody)
            user = {"user": nobody, "group": nobody, "extra_groups": []}
        environment = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}

        def run(*arguments):
            done = subprocess.run(
                [program, *map(str, arguments)], env=environment | {"HOME": str(home)}, cwd=home,
                capture_output=True, text=True, timeout=300, check=False, **user,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return done

        written = calibrated(lambda *arguments: run(*arguments), shared)
        assert written.parent.parent == home / ".cache/fovea/calibrations"
        assert "calibrated by" in embed(lambda *arguments: run(*arguments), shared, home / "rows.npy").stderr
        shared.chmod(0o755)
