"""What an image may cost: bombs are refused or cheap, decoding stops when asked to and takes the memory that it
announces."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

import pytest
from bombs import BOMBS, LARGE, SIDE, jpeg, png, scans, webp_sets

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEGABYTE = 1_000_000


def peak_memory(pid: int) -> int:
    """Bytes that a running process has had resident at most."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)[1]) * 1024


class Outcome:
    """One run of pixels_tool on one file, in a process of its own."""

    def __init__(self, file: pathlib.Path, *arguments: str, size: int = 224, timeout: float = 60, limit: int = 0):
        path = os.environ.get("FOVEA_PIXELS_TOOL", ROOT / "build/release/tests/pixels_tool")
        assert pathlib.Path(path).is_file(), f"{path} is not there: build the tests first"

        def prepare() -> None:
            signal.alarm(int(timeout))
            if limit:
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        start = time.monotonic()
        process = subprocess.Popen(
            [path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=prepare
        )
        with contextlib.suppress(BrokenPipeError):  # it may not even start
            process.stdin.write(f"{size} {size} 3 {file}\n".encode())
            process.stdin.flush()
        first = process.stdout.readline()
        header = first.split()
        rest = process.stdout.read(int(header[1 if header[0] == b"error" else 3])) if header else b""
        # While it waits for another line. Afterwards wait4() alone would tell, and its figure begins with the
        # memory of this very process, which forked.
        self.peak = peak_memory(process.pid) if header else 0
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds = time.monotonic() - start
        self.cpu = used.ru_utime + used.ru_stime
        assert process.returncode == 0, f"ended with {process.returncode} after {self.seconds:.1f} s"
        self.error = rest.decode() if header[0] == b"error" else ""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """files(name, make) -> the path of a file that is made once."""
    folder = tmp_path_factory.mktemp("images")

    def get(name: str, make) -> pathlib.Path:
        path = folder / name
        if not path.exists():
            path.write_bytes(make())
        return path

    return get


@pytest.fixture(scope="module")
def idle_peak(files):
    """What the program itself takes."""
    return Outcome(files("small.png", png)).peak


@pytest.fixture(scope="module")
def idle_address_space(files):
    """The least limit of address space in which the program can decode a small image."""
    small = files("small.png", png)

    def is_enough(limit: int) -> bool:
        try:
            return Outcome(small, limit=limit).error == ""
        except AssertionError:
            return False

    return next(limit for limit in range(8 * MEGABYTE, 400 * MEGABYTE, 4 * MEGABYTE) if is_enough(limit))


@pytest.mark.parametrize("name", list(BOMBS))
def test_a_bomb_is_refused_or_cheap(files, name, idle_peak):
    make, words = BOMBS[name]
    file = files(name, make)
    outcome = Outcome(file, timeout=20)
    assert words in outcome.error if words else outcome.error == ""
    assert outcome.cpu < 8, f"{outcome.cpu:.1f} CPU seconds"
    # The file itself, 400 MB of coefficients of the largest bomb, and what may be decompressed.
    allowed = idle_peak + 2 * file.stat().st_size + 450 * MEGABYTE
    assert outcome.peak < allowed, f"{outcome.peak / MEGABYTE:.0f} MB"


def test_scans_are_counted_before_any_is_decoded(files):
    """Not even the memory for their coefficients is asked for."""
    for name, make in {"jpeg-scans": BOMBS["jpeg-scans"][0], "jpeg-few": lambda: scans(4096, 4096, 3000)}.items():
        outcome = Outcome(files(name, make), "--decode-memory", "1")
        assert re.match(r"JPEG: more than \d+ scans, which is the limit", outcome.error), outcome.error
        assert outcome.cpu < 1, f"{outcome.cpu:.1f} CPU seconds"


def test_what_looks_like_scans_is_not_counted(files):
    """In segments, such as those of thumbnails, and after the end of the image."""
    whole = jpeg(64, 64, progressive=True)
    start = b"\xff\xda\0\x02"
    comment = b"\xff\xfe" + (4 * 9000 + 2).to_bytes(2, "big") + start * 9000
    assert Outcome(files("scans-in-comment", lambda: whole[:2] + comment + whole[2:])).error == ""
    assert Outcome(files("scans-after-end", lambda: whole + start * 9000)).error == ""


# libwebp cannot be stopped where it needs no more data.
@pytest.mark.parametrize("name", [name for name in LARGE if name != "webp-alpha"])
def test_decoding_stops_when_it_is_told_to(files, name):
    """Before it is done, and soon."""
    file = files(name, LARGE[name])
    start = Outcome(file, "--decode-memory", "1").seconds  # the process and the reading of the file
    outcome = Outcome(file, "--stop-after", "20")
    assert outcome.error == "interrupted"
    assert outcome.seconds - start < 2, f"{outcome.seconds:.1f} s"


@pytest.mark.parametrize("name", list(LARGE))
def test_decoding_takes_the_memory_that_it_says(files, name, idle_peak):
    file = files(name, LARGE[name])
    refused = Outcome(file, "--decode-memory", "1").error
    said = re.search(r"needs (\d+) MB of memory, more than the 0 MB .* --decode-memory", refused)
    assert said, refused
    needed = int(said[1]) * MEGABYTE
    too_little = Outcome(file, "--decode-memory", str(needed - 2 * MEGABYTE)).error
    assert f"needs {said[1]} MB of memory, more than the" in too_little
    enough = Outcome(file, "--decode-memory", str(needed))
    assert enough.error == ""
    used = enough.peak - idle_peak - file.stat().st_size
    assert used < needed * 1.02 + 4 * MEGABYTE, f"{used / MEGABYTE:.0f} MB of {said[1]}"


@pytest.mark.parametrize("sets", [1, 3, 900, 1100, 20_000, 65_536])
def test_codes_of_lossless_webp_count(files, sets, idle_peak):
    """300 KB of codes become 1.3 GB of tables in libwebp, a third of them written to."""
    file = files(f"sets-{sets}", lambda: webp_sets(sets))
    refused = Outcome(file, "--decode-memory", "1").error
    needed = int(re.search(r"needs (\d+) MB", refused)[1])
    pixels = 1024 * 1024 * 8 / MEGABYTE
    assert sets * 0.0205 - 1 < needed - pixels < sets * 0.0208 + 2
    outcome = Outcome(file)
    assert outcome.error == ""
    assert outcome.peak - idle_peak < (needed + 4) * MEGABYTE


@pytest.mark.parametrize("name", ["png-gray16", "tiff-rgba16", "tiff-float", "tiff-planes", "bmp-runs"])
def test_large_images_need_little_more_than_their_pixels(files, name):
    """Three bytes per pixel, and at most one more."""
    refused = Outcome(files(name, LARGE[name]), "--decode-memory", "1").error
    needed = int(re.search(r"needs (\d+) MB", refused)[1]) * MEGABYTE
    assert needed < SIDE * SIDE * 4 + 2 * MEGABYTE


@pytest.mark.parametrize("name", list(LARGE))
def test_lack_of_memory_is_not_the_images_fault(files, name, idle_address_space):
    """Allocations fail where a third of what is needed is there, and some where two thirds are."""
    file = files(name, LARGE[name])
    needed = int(re.search(r"needs (\d+) MB", Outcome(file, "--decode-memory", "1").error)[1]) * MEGABYTE
    words = "not enough memory to decode an image of"
    base = idle_address_space + file.stat().st_size
    assert Outcome(file, limit=int(base + needed * 0.3)).error.startswith(words)
    error = Outcome(file, limit=int(base + needed * 0.7)).error
    assert error == "" or error.startswith(words), error
