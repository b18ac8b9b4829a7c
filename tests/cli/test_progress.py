"""The progress line on pseudo-terminals of several widths, and --progress json, which is alone on stderr."""

import codecs
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import unicodedata

import PIL.Image
import pytest

EVENTS = {
    "device": {"stage", "device"},
    "note": {"note"},
    "progress": {"rows", "failed", "total", "seconds", "images_per_second", "seconds_left",
                 "decode_share", "compute_share", "write_share"},
    "failure": {"source", "error"},
    "interrupting": set(),
    "error": {"error"},
    "done": {"output", "rows", "new_rows", "failed", "left_out", "images_with_lost_range", "update", "resumed", "already_done",
             "interrupted", "seconds", "images_per_second", "decode_share", "compute_share", "write_share", "decode_utilisation"},
}  # fmt: skip
STAGE = {"stage", "unit", "done", "total", "seconds", "per_second", "seconds_left"}


def resize(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def on_terminal(arguments, columns, then=None, cwd=None):
    """What the program writes to a terminal as (text, columns at that time), and its exit code. It is interrupted after
    eight rewritten lines, of which the last counts something; or the terminal gets `then` columns after them, and
    eight more are waited for."""
    terminal, program = pty.openpty()
    resize(terminal, columns)
    process = subprocess.Popen(arguments, stderr=program, stdout=subprocess.DEVNULL, cwd=cwd)
    os.close(program)
    decoder = codecs.getincrementaldecoder("utf-8")()
    parts, interrupted, end = [("", columns)], False, time.monotonic() + 60
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            part = decoder.decode(os.read(terminal, 65536))
        except OSError:  # the program has ended
            break
        parts[-1] = (parts[-1][0] + part, columns)
        states = list(rewritten(parts[-1:]))
        if interrupted or len(states) < 8 or states[-1][0].startswith("0 "):
            continue
        if not then:
            interrupted = True
            process.send_signal(signal.SIGINT)
        elif not select.select([terminal], [], [], 0)[0]:  # all that had the former width is read
            columns, then = then, None
            resize(terminal, columns)
            parts.append(("", columns))
    os.close(terminal)
    return parts, process.wait(timeout=60)


def width(text):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def rewritten(parts):
    """The states of the progress line: what follows "clear this line" and is not ended by a newline."""
    for text, columns in parts:
        for state, end in re.findall(r"\r\x1b\[K([^\r\n]*)(\r?\n)?", text):
            if state and not end:
                yield state, columns


@pytest.mark.parametrize("columns, then", [(80, None), (40, None), (80, 40), (12, None)])
def test_the_line_never_wraps(fovea_bin, model, tmp_path, columns, then):
    arguments = [
        fovea_bin,
        "embed",
        "--synthetic",
        "10000000",
        "--batch-size",
        "1000",
        "-m",
        model,
        "-o",
        tmp_path / "out",
    ]
    parts, code = on_terminal(arguments, columns, then)
    assert code == 130
    states = list(rewritten(parts))
    shown = [limit for _, limit in states]
    assert shown.count(columns) >= 8 and (then is None or shown.count(then) >= 8)
    too_wide = [state for state, limit in states if width(state) >= limit]
    assert len(too_wide) <= (1 if then else 0)  # one may be written just before the terminal changes
    counts = [int(state.split()[0]) for state, limit in states if limit == 80]
    assert not counts or any(count % 1000 for count in counts)  # images count before their batch is done
    text = "".join(part for part, _ in parts)
    assert " of 10000000"[: columns - 8] in text
    assert (
        3 <= text.count("\n") <= 5
    )  # the device, the interruption, the summary of up to three lines: no state left one


def events_of(result):
    return [json.loads(line) for line in result.stderr.splitlines()]


def assert_known(events):
    for event in events:
        keys = set(event) - {"event"}
        assert keys == EVENTS[event["event"]] or (event["event"] == "progress" and keys == STAGE), event


def test_json_is_alone(run_fovea, model, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no photo")
    flags = ["-m", model, "--progress", "json"]
    result = run_fovea("embed", tmp_path / "broken.jpg", *flags, "-o", tmp_path / "a", code=3)
    assert_known(events_of(result))
    # Progress comes once a job lasts a second.
    assert {event["event"] for event in events_of(result)} - {"progress"} == {"device", "failure", "done"}
    result = run_fovea("embed", tmp_path / "none.jpg", *flags, "-o", tmp_path / "b", code=1)
    assert_known(events_of(result))
    assert [event["event"] for event in events_of(result)] == ["error"]  # no device before the inputs are known
    environment = run_fovea("embed", tmp_path / "none.jpg", *flags[:2], "-o", tmp_path / "b", code=1,
                            env={"FOVEA_PROGRESS": "json"})  # fmt: skip
    assert events_of(environment)[0]["environment"] == "from the environment: FOVEA_PROGRESS=json"


@pytest.mark.parametrize("flags", [["--progress", "json"], ["--quiet"], []])
def test_interruption(fovea_bin, model, tmp_path, flags):
    arguments = [fovea_bin, "embed", "--synthetic", "10000000", "-m", model, "-o", tmp_path / "out", *flags]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    manifest = tmp_path / "out/manifest.json"
    end = time.monotonic() + 30
    while not (manifest.exists() and json.loads(manifest.read_text())["counts"]["rows"]) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(1)  # before that, the summary does not tell what a job was bound by
    process.send_signal(signal.SIGINT)
    text = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    if "json" in flags:
        events = [json.loads(line) for line in text.splitlines()]
        assert_known(events)
        assert [event["event"] for event in events if event["event"] != "progress"] == [
            "device", "interrupting", "done"
        ]  # fmt: skip
        assert events[-1]["interrupted"]
    elif flags:
        assert text == ""
    else:
        assert re.search(r"fovea: stopping.*\n.*; bound by .*the same command resumes", text)


@pytest.mark.parametrize("command", ["embed", "preprocess"])
def test_an_interrupted_file_is_not_resumed(fovea_bin, model, tmp_path, command):
    """The list is so long that the signal comes before its end."""
    (tmp_path / "list.txt").write_text("broken.png\n" * 1_000_000)
    (tmp_path / "broken.png").write_bytes(b"no photo")
    arguments = [fovea_bin, command, "-m", model, "@list.txt", "-o", "x.npy"]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    while not process.stderr.readline().startswith("failed: broken.png"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    text = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert sorted(file.name for file in tmp_path.iterdir()) == ["broken.png", "list.txt"]
    assert text.endswith("; interrupted: nothing was written\n") and "(see" not in text


def test_the_summary_of_a_short_job(run_fovea, model, photos, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no photo")
    result = run_fovea("embed", tmp_path / "broken.jpg", photos, "-m", model, "-o", tmp_path / "out", code=3)
    seconds = float(re.search(r"3 images in ([\d.]+) s \(", result.stderr)[1])
    assert seconds >= 1 or "bound by" not in result.stderr
    assert result.stderr.rstrip().endswith(f"written to {tmp_path / 'out'}")


def test_verify_refuses_an_absent_device(run_fovea, model, photos):
    result = run_fovea("verify", model, photos, "--device", "cuda:63", code=1)
    assert result.stdout == "" and result.stderr.count("\n") == 1
    assert re.search("no GPU 63|NVIDIA driver", result.stderr)


def test_stages(run_fovea, model, photos, tmp_path):
    copy = shutil.copytree(model, tmp_path / "model")
    for arguments in (["verify", model, photos, "--device", "cpu"], ["calibrate", copy, photos]):
        result = run_fovea(*arguments, "--progress", "json", code=None)
        events = events_of(result)
        assert_known(events)
        kinds = [event["event"] for event in events]
        assert "device" in kinds and "progress" in kinds, arguments


def test_warnings_of_variables_are_as_messages_are(run_fovea, model, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no photo")
    arguments = ["embed", tmp_path / "broken.jpg", "-m", model, "--overwrite", "-o", tmp_path / "out"]
    assert run_fovea(*arguments, "-q", code=3, env={"FOVEA_X": "1"}).stderr == ""
    events = events_of(run_fovea(*arguments, "--progress", "json", code=3, env={"FOVEA_X": "1"}))
    assert_known(events)
    assert "FOVEA_X" in events[0]["note"]
    assert "FOVEA_X" in run_fovea(*arguments, code=3, env={"FOVEA_X": "1"}).stderr


def test_errors_before_the_work_are_events(run_fovea, tmp_path):
    arguments = ["similar", "--in", tmp_path / "out", "--progress", "json"]
    events = events_of(run_fovea(*arguments, code=1))
    assert [event["event"] for event in events] == ["error"] and str(tmp_path / "out") in events[0]["error"]


def test_bench_is_one_stage(run_fovea, model):
    arguments = [
        "bench",
        model,
        "--precision",
        "fp32",
        "--batch-size",
        "1,2,3,4",
        "--seconds",
        "0.6",
        "--device",
        "cpu",
    ]
    events = events_of(run_fovea(*arguments, "--progress", "json"))
    assert_known(events)
    events = [event for event in events if event["event"] == "progress"]
    assert {event["stage"] for event in events} == {"measuring"}
    assert events[-1]["per_second"] > 0 and events[-1]["seconds_left"] is not None


def test_no_rate_before_there_is_one(fovea_bin, model):
    arguments = [fovea_bin, "bench", model, "--precision", "fp32", "--batch-size", "1", "--seconds", "0.01"]
    states = [state for state, _ in rewritten(on_terminal(arguments, 80)[0])]
    assert "measuring: 0 of 1 figures" in states


def test_the_summary_on_a_terminal_is_three_lines_at_most(fovea_bin, model, tmp_path):
    folder = tmp_path / "p"
    folder.mkdir()
    for ending in ("mov", "json", "svg", "pdf", "zip", "xmp", "csv", "xyz"):
        (folder / f"x.{ending}").write_bytes(b"x")
    (folder / "x.jpg").write_bytes(b"no photo")
    PIL.Image.new("RGB", (20, 20)).save(folder / "y.png")
    lines = {}
    for columns in (80, 110, 1000):
        parts, code = on_terminal([fovea_bin, "embed", "p", "-m", model, "-o", f"out{columns}"], columns, cwd=tmp_path)
        assert code == 3
        text = parts[-1][0].replace("\r\n", "\n")
        lines[columns] = text[text.rindex("1 image in") :].splitlines()
    assert len(lines[1000]) == 1 and lines[1000][0].endswith("; written to out1000")
    assert len(lines[110]) == len(lines[80]) == 3 and lines[80][0].endswith(" failed (see out80/errors.jsonl)")
    assert lines[80][1].startswith("8 files left out (") and lines[80][2] == "written to out80"
    assert "1 video" in lines[110][1] and ", ...)" in lines[80][1]
    assert all(width(line) <= columns for columns in lines for line in lines[columns])


def test_a_signal_ends_the_embedding_of_labels(fovea_bin, model, photos, tmp_path):
    labels = tmp_path / "labels.txt"
    labels.write_text("".join(f"a photo of thing number {i}\n" for i in range(400_000)))
    for seconds in (0.5, 2, None):  # the last time once they are being embedded
        arguments = [fovea_bin, "label", photos, "-m", model, "--labels", f"@{labels}", "--progress", "json"]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        text = ""
        if seconds is None:
            while '"stage"' not in text and process.poll() is None:
                text += process.stderr.readline()
        else:
            time.sleep(seconds)
        process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        text += process.communicate(timeout=60)[1]
        assert time.monotonic() - begin < 10, seconds  # 2 seconds, on a machine that does nothing else
        assert process.returncode in (130, -signal.SIGTERM)  # before the job, nothing has to be ended softly
    events = [json.loads(line) for line in text.splitlines()]
    stages = [event for event in events if event["event"] == "progress" and event.get("stage")]
    assert stages and stages[0].keys() - {"event"} == STAGE
    assert stages[0]["stage"] == "embedding the labels" and stages[0]["total"] == 400_000
    assert events[-1]["event"] == "done" and events[-1]["interrupted"]
