"""--max-pixels, on every command that decodes images of the user's."""

import json

import pytest
from PIL import Image

LARGE = (14_000, 13_000)  # above Pillow's limit


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    path = tmp_path_factory.mktemp("photo") / "photo.png"
    Image.linear_gradient("L").resize((40, 30)).convert("RGB").save(path)
    return path


COMMANDS = {
    "search": lambda model, photo, out: ["search", "cat", "--photo", photo, "--in", out / "in"],
    "similar": lambda model, photo, out: ["similar", photo, "--in", out / "in"],
    "embed": lambda model, photo, out: ["embed", photo, "-m", model, "-o", out / "o"],
    "preprocess": lambda model, photo, out: ["preprocess", photo, "-m", model, "-o", out / "o.npy"],
    "label": lambda model, photo, out: ["label", photo, "-m", model, "--labels", "cat,dog"],
    "heat": lambda model, photo, out: ["heat", "cat", photo, "-m", model, "-o", out / "o.png"],
    "calibrate": lambda model, photo, out: ["calibrate", model, photo],
    "verify": lambda model, photo, out: ["verify", model, photo, "--device", "cpu"],
}


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_lower_limit_refuses(command, run_fovea, model, photo, tmp_path):
    given = COMMANDS[command](model, photo, tmp_path)
    if command in ("search", "similar"):
        other = tmp_path / "other.png"
        Image.new("RGB", (30, 20), "red").save(other)
        run_fovea("embed", other, "-m", model, "-o", tmp_path / "in")
    done = run_fovea(*given, "--max-pixels", "1199", code=None)
    assert done.returncode in (1, 3), done.stderr
    assert "40x30 pixels, more than the limit of 1199; --max-pixels raises it" in done.stderr + done.stdout
    if command not in ("calibrate", "verify"):
        run_fovea(*given, "--max-pixels", "1200", *(["--overwrite"] if command == "embed" else []))


def test_a_higher_limit_reads_what_pillow_does_not(run_fovea, model, tmp_path):
    large = tmp_path / "large.jpg"
    Image.new("L", LARGE, 90).save(large, quality=30)
    out = tmp_path / "pixels.npy"
    refused = run_fovea("preprocess", large, "-m", model, "-o", out, code=3).stderr
    assert "more than the limit of 178956970; --max-pixels raises it" in refused
    run_fovea("preprocess", large, "-m", model, "-o", out, "--max-pixels", "182000000")
    (line,) = (tmp_path / "pixels.index.jsonl").read_text().splitlines()
    assert (json.loads(line)["width"], json.loads(line)["height"]) == LARGE
    # Memory still bounds it.
    flat = tmp_path / "large.png"
    Image.new("1", LARGE).save(flat)
    few = ["--max-pixels", "182000000", "--decode-memory", "64M"]
    assert (
        "--decode-memory raises the limit" in run_fovea("preprocess", flat, "-m", model, "-o", out, *few, code=3).stderr
    )


def test_a_page_shows_what_was_embedded(run_fovea, model, tmp_path):
    """Whatever the limit was then: memory alone bounds what a page reads again, and the heat that it draws."""
    large = tmp_path / "large.jpg"
    Image.new("L", LARGE, 90).save(large, quality=30)
    run_fovea("embed", large, "-m", model, "-o", tmp_path / "in", "--max-pixels", "182000000")
    page = tmp_path / "page.html"
    told = run_fovea("search", "cat", "--in", tmp_path / "in", "--html", page, "--heat").stderr
    assert "could not be read" not in told and page.read_text().count("data:image/jpeg") == 1


def test_where_it_would_do_nothing_it_is_refused(run_fovea, model, photo, tmp_path):
    run_fovea("embed", photo, "-m", model, "-o", tmp_path / "in")
    for words in (["search", "cat"], ["similar"], ["similar", "--duplicates"]):
        assert "--max-pixels" in run_fovea(*words, "--in", tmp_path / "in", "--max-pixels", "9", code=2).stderr
    run_fovea("search", "cat", "--in", tmp_path / "in", env={"FOVEA_MAX_PIXELS": "9"})


@pytest.mark.parametrize("wrong", ["-1", "x", "2000000000000", "1.5"])
def test_what_is_no_limit_is_refused(wrong, run_fovea, model, photo, tmp_path):
    assert (
        "--max-pixels"
        in run_fovea("embed", photo, "-m", model, "-o", tmp_path / "o", f"--max-pixels={wrong}", code=2).stderr
    )
