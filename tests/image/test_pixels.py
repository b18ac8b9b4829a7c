"""Pixels against the installed Pillow: decode, orientation, convert("RGB") and resize, byte by byte."""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
import subprocess
import warnings

import pytest
from image_cases import all_cases, photo
from PIL import Image, ImageOps

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILTERS = {2: Image.Resampling.BILINEAR, 3: Image.Resampling.BICUBIC}
SQUARES = [(224, 2), (224, 3), (384, 2), (384, 3)]

# Layouts that Pillow opens, but whose samples it reads as something else (16-bit planes as 8-bit
# ones, big-endian numbers as little-endian ones after decompression). They are refused by name.
MISREAD_BY_PILLOW = {
    *(f"{kind}-planes-raw-{order}.tif" for kind in ("rgb16", "rgba16", "cmyk16") for order in ("le", "be")),
    *(
        f"{kind}-{layout}-be.tif"
        for kind in ("gray-i16", "gray-i32", "gray-float")
        for layout in ("deflate-strips", "deflate-predicted")
    ),
}


class Tool:
    """A running pixels_tool: it takes one question per line."""

    def __init__(self, folder: pathlib.Path):
        path = os.environ.get("FOVEA_PIXELS_TOOL", ROOT / "build/release/tests/pixels_tool")
        assert pathlib.Path(path).is_file(), f"{path} is not there: build the tests first"
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.file = folder / "image"

    def ask(self, height: int, width: int, kernel: int) -> tuple[tuple[int, int], bytes] | str:
        """(upright size, pixels) of the image in `self.file`, or the error's message."""
        self.process.stdin.write(f"{height} {width} {kernel} {self.file}\n".encode())
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        self.lost_range = words[-1] == b"1" and words[0] == b"ok"
        if words[0] == b"error":
            return self.process.stdout.read(int(words[1])).decode()
        return (int(words[1]), int(words[2])), self.process.stdout.read(int(words[3]))

    def close(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    tool = Tool(tmp_path_factory.mktemp("pixels"))
    yield tool
    tool.close()


def by_pillow(data: bytes) -> Image.Image | Exception:
    """As transformers' load_image does it, or the exception that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
        except Exception as error:  # Pillow raises many types on broken files
            return error


def differing(ours: bytes, theirs: bytes) -> int:
    return sum(a != b for a, b in zip(ours, theirs)) + abs(len(ours) - len(theirs))


def compare(tool: Tool, name: str, data: bytes, sizes: list[tuple[int, int, int]]) -> str:
    """What differs, or nothing. `sizes` are (height, width, filter)."""
    tool.file.write_bytes(data)
    expected = by_pillow(data)
    if name in MISREAD_BY_PILLOW:
        got = tool.ask(0, 0, 2)
        return "" if isinstance(got, str) and "unsupported layout" in got else f"{name}: was read"
    if isinstance(expected, Exception):
        got = tool.ask(0, 0, 2)
        return "" if isinstance(got, str) else f"{name}: read, where Pillow says {expected!r}"
    for height, width, kernel in [(0, 0, 2), *sizes]:
        theirs = expected if height == 0 else expected.resize((width, height), FILTERS[kernel])
        got = tool.ask(height, width, kernel)
        what = f"{name} ({expected.width}x{expected.height}) to {width}x{height} filter {kernel}"
        if isinstance(got, str):
            return f"{what}: {got}"
        if got[0] != expected.size:
            return f"{what}: decoded size {got[0]}"
        if got[1] != theirs.tobytes():
            return f"{what}: {differing(got[1], theirs.tobytes())} bytes differ"
    return ""


seen: set[str] = set()  # digests of the images that were compared, over all kinds


@pytest.mark.parametrize("kind", list(all_cases()))
def test_every_kind_of_image_gives_pillows_bytes(tool, kind):
    wrong = []
    for name, data in all_cases()[kind]():
        sizes = [(side, side, kernel) for side, kernel in SQUARES]
        if kind not in ("large", "real", "xmp"):  # one small and one large resize per file are enough
            sizes = [sizes[len(name) % 4], sizes[(len(name) + 1) % 4]]
        wrong.append(compare(tool, name, data, sizes))
        seen.add(hashlib.sha256(data).hexdigest())
    assert not any(wrong), "\n".join(filter(None, wrong))


def test_at_least_300_different_images_were_compared(request):
    if len(request.session.items) <= len(all_cases()):
        pytest.skip("only some of the kinds were selected")
    assert len(seen) >= 300


# Sizes at the edges of each rule: no pass, one pass, Pillow 13's order of passes, tiny and huge.
SIZES = [
    (1, 1), (1, 7), (7, 1), (2, 2), (3, 5), (15, 16), (16, 15), (17, 17), (31, 33), (64, 64),
    (100, 1), (1, 100), (99, 100), (101, 99), (200, 150), (333, 37), (37, 333), (640, 480),
]  # fmt: skip


def test_resize_between_all_pairs_of_sizes_gives_pillows_bytes(tool):
    import numpy

    random = numpy.random.default_rng(5)
    wrong = []
    for width, height in SIZES:
        # Noise, and its extremes, reach every rounding and both ends of the clipping.
        noise = random.integers(0, 256, (height, width, 3))
        noise = numpy.where(random.random((height, width, 1)) < 0.5, noise, (noise > 127) * 255)
        buffer = io.BytesIO()
        Image.fromarray(noise.astype(numpy.uint8)).save(buffer, "BMP")
        sizes = [(h, w, 2 + (w + h + width) % 2) for w, h in SIZES]
        wrong.append(compare(tool, f"noise{width}x{height}", buffer.getvalue(), sizes))
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_no_truncated_file_is_read_where_pillow_raises(tool, kind):
    """Cut at many places: never half an image; and read only what Pillow reads, as it reads it."""
    buffer = io.BytesIO()
    photo((120, 90), "coffee.png").save(buffer, kind)
    whole = buffer.getvalue()
    wrong = []
    for cut in sorted({*range(40), *range(40, len(whole), max(1, len(whole) // 60)), len(whole) - 1}):
        data = whole[:cut]
        expected = by_pillow(data)
        tool.file.write_bytes(data)
        got = tool.ask(0, 0, 2)
        if isinstance(got, str):
            continue
        if isinstance(expected, Exception):
            wrong.append(f"cut at {cut} of {len(whole)}: read, where Pillow says {expected!r}")
        elif got[1] != expected.tobytes():
            wrong.append(f"cut at {cut} of {len(whole)}: other pixels")
    assert not wrong, "\n".join(wrong)
