"""Previews in cameras' raw images against rawpy's, and TIFFs that are none of them."""

from __future__ import annotations

import functools
import io
import struct

import camera_files
import pytest
import rawpy
from camera_files import Data, Directory
from image_cases import encode, photo
from PIL import Image, ImageOps
from test_pixels import Tool, compare

SIZE = (320, 240)


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    tool = Tool(tmp_path_factory.mktemp("raw"))
    yield tool
    tool.close()


NO_PREVIEW = "RAW: there is no JPEG preview; export it as JPEG or TIFF"


def jpeg(size: tuple[int, int] = SIZE, **options) -> bytes:
    return encode(photo(size), "JPEG", quality=90, **options)


def segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def jpeg_with_exif(orientation: int) -> bytes:
    """As cameras write it, without JFIF's segment, for which rawpy would put EXIF data of its own before these."""
    plain = jpeg()
    assert plain[2:4] == b"\xff\xe0"
    return plain[:2] + segment(0xE1, b"Exif\0\0" + tiff_of(orientation)) + plain[20:]


def tiff_of(orientation: int) -> bytes:
    return camera_files.tiff([Directory({274: (3, orientation)})])


def upright(data: bytes, orientation: int) -> tuple[tuple[int, int], bytes]:
    """What is expected of a file with this preview and orientation."""
    image = Image.open(io.BytesIO(data))
    image.getexif()[0x112] = orientation
    image = ImageOps.exif_transpose(image).convert("RGB")
    return image.size, image.tobytes()


@functools.cache
def cases() -> dict[str, bytes]:
    thumbnail = photo((16, 12), "coffee.png").tobytes()
    made = {
        f"dng-{order}-{value}": camera_files.dng(jpeg(), SIZE, value, order) for order in "<>" for value in (1, 3, 6, 8)
    }
    return made | {
        "dng-with-exif": camera_files.dng(jpeg_with_exif(6), SIZE, 3),
        "dng-small": camera_files.dng(jpeg((80, 60)), (80, 60), 6),
        "dng-of-two": camera_files.dng(jpeg((80, 60)), (80, 60), 6, more=[(jpeg(), *SIZE)]),
        "dng-progressive": camera_files.dng(jpeg(progressive=True), SIZE, 6),
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


def box(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data) + 8) + name + data


def other_files(preview: bytes, orientation: int) -> dict[str, bytes]:
    """The outlines of files of other cameras."""
    tiff = camera_files.tiff([Directory({274: (3, orientation), 273: (4, Data(preview))})])
    photo_data = box(b"uuid", bytes(16) + box(b"CMT1", tiff_of(orientation)) + box(b"THMB", jpeg((80, 60))))
    return {
        "orf": b"IIRO" + tiff[4:],
        "rw2": b"IIU\0" + tiff[4:],
        "raf": b"FUJIFILMCCD-RAW 0201".ljust(148, b"\0") + preview + tiff_of(orientation) + bytes(500),
        "mrw": b"\0MRM" + bytes(8) + b"\0TTW" + tiff,
        "cr3": box(b"ftyp", b"crx \0\0\0\1crx isom") + box(b"moov", photo_data) + box(b"mdat", preview),
    }


@pytest.mark.parametrize("name", other_files(b"", 1))
def test_other_cameras_previews_are_turned_as_the_file_says(tool, name):
    for orientation in (1, 6, 3):
        tool.file.write_bytes(other_files(jpeg(), orientation)[name])
        assert tool.ask(0, 0, 2) == upright(jpeg(), orientation)
    tool.file.write_bytes(other_files(jpeg_with_exif(8), 3)[name])  # the preview's own counts
    assert tool.ask(0, 0, 2) == upright(jpeg(), 8)


def test_thumbnails_within_other_jpegs_do_not_count(tool):
    """Not even one that has more pixels, nor one within a lossless JPEG."""
    inner, outer = jpeg((320, 200)), jpeg((80, 60))
    nested = outer[:2] + segment(0xE2, inner) + outer[2:]
    tool.file.write_bytes(camera_files.dng(nested, (80, 60)))
    assert tool.ask(0, 0, 2) == upright(outer, 1)
    lossless = b"\xff\xd8" + segment(0xE2, inner) + camera_files.lossless_jpeg(3944, 2622)[2:]
    tool.file.write_bytes(camera_files.dng(lossless, (80, 60)))
    assert tool.ask(0, 0, 2) == NO_PREVIEW


def test_samples_of_the_sensor_are_no_preview(tool):
    """Neither in a lossless JPEG nor in ordinary ones, as in a DNG with lossy compression."""
    tool.file.write_bytes(camera_files.cr2(jpeg(), SIZE, jpeg((80, 60))))
    assert tool.ask(0, 0, 2) == upright(jpeg(), 1)
    tiles = {322: (4, 320), 323: (4, 240), 324: (4, Data(jpeg())), 325: (4, len(jpeg()))}
    small = jpeg((80, 60))
    # by the photometric interpretation that the directory has
    for kind, expected in ((34892, (80, 60)), (4, (80, 60)), (51177, (80, 60)), (6, SIZE)):
        child = Directory({254: (4, 0), 259: (3, 34892), 262: (3, kind)} | tiles)
        preview = camera_files.jpeg_preview(small, 80, 60) | {50706: (1, bytes([1, 4, 0, 0])), 330: (4, [child])}
        tool.file.write_bytes(camera_files.tiff([Directory(preview)]))
        assert tool.ask(0, 0, 2)[0] == expected


def test_one_of_several_tiles_is_no_preview(tool):
    tile, small = jpeg(), jpeg((80, 60))

    def dng(places: object) -> bytes:
        child = Directory({254: (4, 1), 259: (3, 7), 262: (3, 6), 322: (4, 320), 323: (4, 240), 324: (4, places)})
        preview = camera_files.jpeg_preview(small, 80, 60) | {50706: (1, bytes([1, 4, 0, 0])), 330: (4, [child])}
        return camera_files.tiff([Directory(preview)]) + tile + tile

    start = dng([1, 1]).index(tile)
    tool.file.write_bytes(dng([start, start + len(tile)]))
    assert tool.ask(0, 0, 2) == upright(small, 1)
    tool.file.write_bytes(dng(Data(tile)))
    assert tool.ask(0, 0, 2) == upright(tile, 1)


def test_the_first_of_two_equal_previews_counts(tool):
    first, second = jpeg(), encode(photo(SIZE, "coffee.png"), "JPEG")
    tool.file.write_bytes(camera_files.dng(first, SIZE, more=[(second, *SIZE)]))
    with_places = tool.file.read_bytes()
    expected = min((first, second), key=with_places.index)
    assert tool.ask(0, 0, 2) == upright(expected, 1)


def test_files_without_a_preview_in_jpeg_say_so(tool):
    image = photo((33, 17))
    data = camera_files.dng_of_bitmap(image.tobytes(), image.size)
    arithmetic = jpeg().replace(b"\xff\xc0", b"\xff\xc9", 1)
    twelve_bits = jpeg().replace(b"\xff\xc0\0\x11\x08", b"\xff\xc0\0\x11\x0c", 1)
    cmyk = encode(photo(SIZE).convert("CMYK"), "JPEG")
    empty = jpeg().replace(b"\xff\xc0\0\x11\x08\0\xf0", b"\xff\xc0\0\x11\x08\0\0", 1)
    damaged = data[:65] + b"\1" + data[66:]  # a list of 2^24 kinds of compression, which has made a library crash
    others = [camera_files.dng(other, SIZE) for other in (arithmetic, twelve_bits, cmyk, empty)]
    for without in [data, damaged, *others]:
        tool.file.write_bytes(without)
        assert tool.ask(0, 0, 2) == NO_PREVIEW
        assert tool.ask(48, 64, 3) == NO_PREVIEW


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
    start = whole.index(jpeg())
    for cut in range(200, len(whole), 997):
        tool.file.write_bytes(whole[:cut])
        got = tool.ask(0, 0, 2)
        if isinstance(got, str):
            assert got == NO_PREVIEW or got.startswith(("RAW: its preview is unreadable: JPEG: truncated", "TIFF: "))
        else:  # cut behind the preview, but for its last marker
            assert cut >= start + len(jpeg()) - 4
    cut_off = jpeg()[:5000]
    for behind in (bytes(3000) + b"\xff\1" + bytes(30000), b"\xff\x33" + bytes(30000), b"\xff\xd8" + jpeg((80, 60))):
        tool.file.write_bytes(camera_files.dng(cut_off + behind, SIZE))
        assert tool.ask(0, 0, 2).startswith("RAW: its preview is unreadable: JPEG: truncated after ")
