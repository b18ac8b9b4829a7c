"""--json of the package's own programs: what it may replace, as docs/output.md says of all outputs."""

import argparse
import json
import os
import threading

import pytest
from fovea.lab import _document

PHOTO = b"\xff\xd8\xff" + bytes(range(256))


@pytest.fixture
def check(capsys):
    """check(file, ...): what a program says of it, or "" when it would write there."""
    parser = argparse.ArgumentParser(prog="program")
    _document.add_options(parser, "a file")

    def check(file, *words, inputs=()):
        options = parser.parse_args(["--json", str(file), *words])
        try:
            _document.check(parser, options.json, options.overwrite, inputs)
        except SystemExit as ending:
            assert ending.code == 2
            return capsys.readouterr().err
        return ""

    return check


@pytest.mark.parametrize("head", [b"\xff\xd8\xff", b"\x89PNG\r\n", b"RIFF\x10\0\0\0WEBP", b"BM\x10\0\0\0", b"II*\0"])
def test_an_image_is_kept_even_with_overwrite(check, tmp_path, head):
    photo = tmp_path / "noname"
    photo.write_bytes(head + bytes(range(200)))
    for words in ([], ["--overwrite"]):
        assert f"{photo}: is an image or other binary data" in check(photo, *words)


def test_what_others_wrote_is_replaced_with_overwrite_alone(check, tmp_path):
    file = tmp_path / "notes"
    file.write_text("Grüße aus dem Süden, " * 20)
    assert f"{file}: exists, and is not JSON that Fovea wrote" in check(file)
    assert not check(file, "--overwrite")
    _document.write(str(file), "judge", {"passed": True})
    assert json.loads(file.read_text()) == {"kind": "fovea.judge", "version": 1, "passed": True}


@pytest.mark.parametrize("text", ['{"a": 1}', "[]", "kind"])
def test_json_of_others_is_kept(check, tmp_path, text):
    file = tmp_path / "a.json"
    file.write_text(text)
    assert "is not JSON that Fovea wrote" in check(file)


def test_its_own_and_what_is_empty_or_absent_it_replaces(check, tmp_path):
    file = tmp_path / "a.json"
    assert not check(file)
    file.touch()
    assert not check(file)
    _document.write(str(file), "accept", {"lines": []})
    assert not check(file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json"]


def test_an_input_is_kept_even_with_overwrite(check, tmp_path):
    file, link = tmp_path / "answer.py", tmp_path / "link"
    file.write_text("x = 1\n")
    link.symlink_to(file)
    for name in (file, link):
        assert "is an input" in check(name, "--overwrite", inputs=[tmp_path / "other", file])


def test_folders_links_pipes_and_devices(check, tmp_path):
    assert "is a folder" in check(tmp_path, "--overwrite")
    link, pipe = tmp_path / "link.json", tmp_path / "pipe"
    link.symlink_to(tmp_path / "far.json")
    _document.write(str(link), "judge", {})
    assert link.is_symlink() and json.loads((tmp_path / "far.json").read_text())["kind"] == "fovea.judge"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    assert not check(pipe)
    _document.write(str(pipe), "judge", {})
    reader.join(10)
    assert json.loads(got[0])["version"] == 1 and pipe.is_fifo()
    _document.write(os.devnull, "judge", {})


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}", "link"])
def test_an_open_file_is_written_to_where_it_is(check, tmp_path, name):
    log, link = tmp_path / "log", tmp_path / "link"
    log.write_text("what was there\n")
    with open(log, "a") as opened:
        link.symlink_to(f"/dev/fd/{opened.fileno()}")
        place = str(link) if name == "link" else name.format(opened.fileno())
        assert not check(place)
        _document.write(place, "judge", {})
    assert log.read_text().startswith('what was there\n{\n "kind": "fovea.judge"')
    with open(log) as opened:
        assert "is not JSON that Fovea wrote" in check(f"/dev/fd/{opened.fileno()}")


def test_what_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    file.write_text("before")

    for failure in (OSError(28, "no space"), KeyboardInterrupt()):

        def fail(*_, failure=failure):
            raise failure

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(type(failure)) as caught:
            _document.write(str(file), "judge", {})
        assert not isinstance(failure, OSError) or str(caught.value) == f"[Errno 28] no space: '{file}'"
        assert file.read_text() == "before" and sorted(tmp_path.iterdir()) == [file]


def test_a_file_that_is_called_as_a_partial_one_is_kept(tmp_path):
    photo, partial = tmp_path / "photo", tmp_path / "a.json.partial"
    photo.write_bytes(PHOTO)
    partial.symlink_to(photo)
    _document.write(str(tmp_path / "a.json"), "judge", {})
    assert photo.read_bytes() == PHOTO and partial.is_symlink()
