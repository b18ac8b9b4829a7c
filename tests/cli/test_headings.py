"""Tables have a heading on a terminal, and none where a program reads them."""

import os
import pty
import shutil
import subprocess

import pytest


def on_terminal(*arguments):
    """What a terminal shows of the standard output, as lines."""
    terminal, program = pty.openpty()
    process = subprocess.Popen([*map(str, arguments)], stdout=program, stderr=subprocess.DEVNULL)
    os.close(program)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the program has ended
            break
        if not part:
            break
        shown += part
    assert process.wait(60) == 0
    return shown.decode().replace("\r\n", "\n").splitlines()


@pytest.fixture(scope="module")
def output(run_fovea, model, photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("headings")
    copy = shutil.copy(photos / "0.png", folder / "copy.png")
    run_fovea("embed", photos, copy, "-m", model, "--device", "cpu", "-o", folder / "out")
    return folder / "out"


@pytest.mark.parametrize(
    ("arguments", "heading"),
    [
        (["search", "a cat"], ["rank", "prob.", "score", "pixels", "file", "date", "photo"]),
        (["search", "a cat", "--not", "dogs"], ["rank", "score", "pixels", "file", "date", "photo"]),
        (["similar", "PHOTO"], ["rank", "score", "pixels", "file", "date", "photo"]),
        (["similar", "--duplicates"], ["class", "score", "pixels", "file", "date", "photo"]),
        (["label", "PHOTO"], ["prob.", "label"]),
    ],
)
def test_a_heading_stands_over_its_columns(arguments, heading, fovea_bin, run_fovea, model, photos, output):
    arguments = [str(photos / "0.png") if word == "PHOTO" else word for word in arguments]
    ends = ["-m", model, "--labels", "cat,dog"] if arguments[0] == "label" else ["--in", output]
    ends += [] if "--duplicates" in arguments else ["--device", "cpu"]
    shown = on_terminal(fovea_bin, *arguments, *ends)
    plain = run_fovea(*arguments, *ends).stdout.splitlines()
    assert shown[0].split() == heading
    assert shown[1:] == plain
    # The last column begins where the heading's last word does.
    rows = [line for line in plain if line.startswith("  ")]
    assert rows and all(line[shown[0].index(heading[-1]) - 1] == " " for line in rows)
    assert all(line[shown[0].index(heading[-1])] != " " for line in rows)
