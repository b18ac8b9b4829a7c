"""Previews in cameras' raw images against rawpy's, and TIFFs that are none of them."""

from __future__ import annotations

import functools
import io

import camera_files
import pytest
import rawpy
from camera_files import Data, Directory
from image_cases import encode, exif, photo
from PIL import Image, ImageOps
from test_pixels import Tool, compare

SIZE = (320, 240)


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    tool = Tool(tmp_path_factory.mktemp("raw"))
    yield tool
    tool.close()


def jpeg(size: tuple[int, int] = SIZE, **options) -> bytes:
    return encode(photo(size), "JPEG", quality=90, **options)


@functools.cache
def cases() -> dict[str, bytes]:
    thumbnail = photo((16, 12), "coffee.png").tobytes()
    made = {
        f"dng-{order}-{value}": camera_files.dng(jpeg(), SIZE, value, order)
        for order in "<>"
        for value in (1, 3, 6, 8)
    }
    return made | {
        "dng-with-exif": camera_files.dng(jpeg(exif=exif(6)), SIZE, 1),
        "dng-small": camera_files.dng(jpeg((80, 60)), (80, 60), 6),
        "dng-of-two": camera_files.dng(jpeg((80, 60)), (80, 60), 6, more=[(jpeg(), *SIZE)]),
        "nef": camera_files.nef(jpeg(), thumbnail, 8),
        "cr2": camera_files.cr2(jpeg(), SIZE, jpeg((80, 60)), 6),
    }


@pytest.mark.parametrize("name", list(cases()))
def test_previews_are_rawpys(tool, name):
    data = cases()[name]
    with rawpy.imread(io.BytesIO(data)) as raw:
        preview = raw.extract_thumb()
    assert preview.format == rawpy.ThumbFormat.JPEG
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(preview.data))).convert("RGB")
    tool.file.write_bytes(data)
    assert tool.ask(0, 0, 2) == (expected.size, expected.tobytes())
    resized = expected.resize((64, 48), Image.Resampling.BICUBIC)
    assert tool.ask(48, 64, 3) == (expected.size, resized.tobytes())


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_preview_that_is_not_compressed_is_turned_as_the_file_says(tool, orientation):
    image = photo((64, 48))
    tool.file.write_bytes(camera_files.dng_of_bitmap(image.tobytes(), image.size, orientation))
    image.getexif()[0x112] = orientation
    upright = ImageOps.exif_transpose(image)
    assert tool.ask(0, 0, 2) == (upright.size, upright.tobytes())


def test_a_plain_tiff_with_more_images_below_it_stays_one(tool):
    """Also one that a camera has made: only samples of a sensor make it a raw image."""
    image = photo((16, 12))
    child = Directory({256: (4, 1), 257: (4, 1), 262: (3, 1), 273: (4, Data(b"x")), 279: (4, 1)})
    plain = camera_files.tiff([Directory({
        256: (4, 16), 257: (4, 12), 258: (3, [8, 8, 8]), 259: (3, 1), 262: (3, 2), 271: (2, b"NIKON\0"),
        273: (4, Data(image.tobytes())), 277: (3, 3), 278: (4, 12), 279: (4, 576), 330: (4, [child]),
    })])  # fmt: skip
    assert compare(tool, "plain.tif", plain, []) == ""
    tool.file.write_bytes(plain)
    assert tool.ask(0, 0, 2) == ((16, 12), image.tobytes())


def test_broken_files_are_refused_with_a_reason(tool):
    whole = camera_files.dng(jpeg(), SIZE)
    for cut in range(200, len(whole), 997):
        tool.file.write_bytes(whole[:cut])
        got = tool.ask(0, 0, 2)
        if isinstance(got, str):
            assert got.startswith(("RAW: ", "TIFF: "))
        else:  # cut behind the preview
            assert cut > len(jpeg())
    tool.file.write_bytes(camera_files.dng(jpeg()[:5000] + bytes(3000), SIZE))
    assert tool.ask(0, 0, 2).startswith("RAW: its preview is unreadable: JPEG: ")


def test_without_the_library_the_reason_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("FOVEA_LIBRAW", "/nowhere/libraw.so")
    without = Tool(tmp_path)
    without.file.write_bytes(camera_files.dng(jpeg(), SIZE))
    words = without.ask(0, 0, 2)
    assert "needs LibRaw, which cannot be opened (/nowhere/libraw.so: " in words
    assert "apt-get install libraw-bin" in words
    without.close()
