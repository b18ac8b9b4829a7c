"""HEIC against pillow-heif and AVIF against Pillow, within the tolerances that docs/images.md states."""

from __future__ import annotations

import io
import struct

import heif_files
import numpy as np
import pytest
from heif_files import Item, avif, box, deep_heic, described, full, grid, heic, heif, info
from image_cases import exif, photo
from PIL import Image, ImageOps
from test_pixels import Tool

SIZES = [(1, 1), (2, 3), (33, 17), (64, 48), (227, 149)]


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    tool = Tool(tmp_path_factory.mktemp("heif"))
    yield tool
    tool.close()


def differences(tool: Tool, data: bytes) -> np.ndarray:
    """Those to Pillow with its plugin, per sample. The sizes must be the same."""
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    tool.file.write_bytes(data)
    got = tool.ask(0, 0, 2)
    assert not isinstance(got, str), got
    assert got[0] == expected.size
    return np.abs(np.frombuffer(got[1], np.uint8).astype(int) - np.asarray(expected).reshape(-1))


def check(tool: Tool, data: bytes, most: int, mean: float) -> None:
    found = differences(tool, data)
    assert found.max() <= most
    # A pixel or two of an image of a few can all be off by one.
    assert found.mean() <= (mean if found.size > 100 else most)


def refusal(tool: Tool, data: bytes) -> str:
    tool.file.write_bytes(data)
    got = tool.ask(0, 0, 2)
    assert isinstance(got, str), "it was read"
    return got


@pytest.mark.parametrize("size", SIZES)
def test_heic_of_8_bits_differs_from_pillow_by_one_at_most(tool, size):
    image = photo(size)
    with_alpha = image.copy()
    with_alpha.putalpha(image.convert("L"))
    for chroma in (420, 422, 444):
        check(tool, heic(image, chroma=chroma), 1, 0.05)
    check(tool, heic(with_alpha), 1, 0.05)
    check(tool, heic(image.convert("L")), 0, 0)


@pytest.mark.parametrize("bits", [10, 12])
def test_heic_of_more_bits_differs_by_three_at_most(tool, bits):
    for size in SIZES:
        for chroma in (420, 444):
            check(tool, deep_heic(photo(size), bits, chroma=chroma), 3, 1)


def test_orientation_is_applied_once(tool):
    for value in range(1, 9):
        for encode in (heic, avif):
            data = encode(photo((33, 18)), exif=exif(value))
            assert differences(tool, data).mean() < 4, (encode, value)


def test_avif_is_turned_by_xmp_where_nothing_else_is_said(tool):
    image = photo((33, 18))
    for value in range(10):
        xmp = f'<x:xmpmeta><rdf tiff:Orientation="{value}"/></x:xmpmeta>'.encode()
        alone = avif(image, xmp=xmp)
        assert differences(tool, alone).mean() < 4, value
        assert (tool.ask(0, 0, 2)[0] == (18, 33)) == (5 <= value <= 8), value
        for other in (1, 3, 6):  # by EXIF, which Pillow stores as a property
            assert differences(tool, avif(image, xmp=xmp, exif=exif(other))).mean() < 4, (value, other)
        heif_files.pillow_heif.register_heif_opener()
        buffer = io.BytesIO()
        image.save(buffer, "HEIF", quality=90, xmp=xmp)
        assert differences(tool, buffer.getvalue()).mean() < 4, value


@pytest.mark.parametrize("size", SIZES)
def test_avif_differs_where_colours_are_stored_at_half_size(tool, size):
    image = photo(size)
    check(tool, avif(image, subsampling="4:4:4"), 2, 0.5)
    check(tool, avif(image.convert("L")), 0, 0)
    check(tool, avif(image.convert("L"), range="limited"), 1, 0.05)
    for subsampling in ("4:2:2", "4:2:0"):
        data = avif(image, subsampling=subsampling)
        check(tool, data, 64, 4)
        # The difference is one of colour alone: brightness is the same.
        expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
        got = Image.frombytes("RGB", expected.size, tool.ask(0, 0, 2)[1])
        luma = np.asarray(got.convert("L")).astype(int) - np.asarray(expected.convert("L"))
        assert np.abs(luma).mean() < 1


def test_the_first_image_of_an_animation_is_read(tool):
    frames = [photo((48, 32)), photo((48, 32), "coffee.png")]
    check(tool, avif(frames[0], save_all=True, append_images=frames[1:], subsampling="4:4:4"), 2, 0.5)
    check(tool, heic(frames[0], save_all=True, append_images=frames[1:]), 1, 0.05)
    check(tool, heic(frames[0], save_all=True, append_images=frames[1:], primary_index=1), 1, 0.05)


def test_resizing_gives_what_decoding_and_resizing_gives(tool):
    tool.file.write_bytes(heic(photo((227, 149)), exif=exif(6)))
    size, whole = tool.ask(0, 0, 2)
    image = Image.frombytes("RGB", size, whole)
    assert tool.ask(64, 50, 3) == (size, image.resize((50, 64), Image.Resampling.BICUBIC).tobytes())


def test_grids_are_read_and_other_compositions_refused(tool):
    tile = photo((64, 64))
    check(tool, grid(tile, 2, 1), 1, 0.05)
    check(tool, grid(tile, 2, 2, size=(100, 90)), 1, 0.05)
    assert "unsupported image of the kind 'iovl'" in refusal(tool, grid(tile, 2, 1, kind=b"iovl"))
    assert "4 tiles" in refusal(tool, grid(tile, 2, 2, references=3))


def test_what_costs_more_than_its_size_is_refused(tool):
    tile = photo((64, 64))
    words = "pixels are coded for an image of 128x64, more than the limit"
    assert words in refusal(tool, grid(tile, 2, 1, references=1500))
    # The sizes that the file tells are small, those that the decoder will read are not.
    hvcc, _ = heif_files.coded(tile)
    lies = heif_files.hvcc_with(hvcc, heif_files.parameter_set(16384, 16384))
    assert f"HEIC: {2 * 16384**2} {words}" in refusal(tool, grid(tile, 2, 1, hvcc=lies))
    assert f"HEIC: {2 * (64**2 + 16384**2)} {words}" in refusal(tool, grid(tile, 2, 1, alpha=lies))
    # Sixteen times their product is 2^66.
    worst = heif_files.hvcc_with(hvcc, heif_files.parameter_set(1 << 31, 1 << 31))
    assert f"HEIC: {1 << 62} {words.replace('128', '1024')}" in refusal(tool, grid(tile, 16, 1, hvcc=worst))
    large = grid(tile, 2, 1, size=(32768, 32768))
    assert "32768x32768 pixels, more than the limit of 178956970" in refusal(tool, large)


def test_data_counts_as_often_as_it_is_decoded(tool):
    tile = photo((64, 64))
    words = "the images have more than four times the file's"
    assert words in refusal(tool, grid(tile, 2, 1, references=60_000))
    hvcc, _ = heif_files.coded(tile)
    long = heif_files.hvcc_with(hvcc, bytes(60_000))
    check(tool, grid(tile, 2, 1, hvcc=long), 1, 0.05)
    assert words in refusal(tool, grid(tile, 2, 1, references=400, hvcc=long))


def tiles_of(hvcc: bytes, *data: bytes) -> bytes:
    """A grid of tiles of such data, which share their parameters."""
    tiles = {2 + index: Item(b"hvc1", each, [1]) for index, each in enumerate(data)}
    items = {1: Item(b"grid", bytes(8), in_idat=True)} | tiles
    return heif(items, [box(b"hvcC", hvcc)], [(b"dimg", 1, list(tiles))])


def test_tiles_that_share_long_parameters_take_no_time(tmp_path):
    from test_limits import Outcome

    file = tmp_path / "tiles.heic"
    hvcc = bytes(22) + bytes([16]) + (b"\x21\xff\xff" + b"\0\0" * 65535) * 16
    file.write_bytes(tiles_of(hvcc, *[b"data"] * 600))
    outcome = Outcome(file)
    assert "the images have more than four times the file's" in outcome.error
    assert outcome.cpu < 1, f"{outcome.cpu:.1f} CPU seconds"


def test_every_tile_must_have_data(tool):
    hvcc, data = heif_files.coded(photo((64, 64)))
    assert "the data is missing for an image of the kind 'hvc1'" in refusal(tool, tiles_of(hvcc, data, data, b""))
    # Items 2 and 3, whose data is of 0 bytes or is said to lie in another item.
    file = tiles_of(hvcc, data, data)
    at = file.index(struct.pack(">HHHH", 3, 0, 0, 1))
    of_no_size = file[: at + 12] + bytes(4) + file[at + 16 :]
    assert "the length of an image's data is missing" in refusal(tool, of_no_size)
    assert "unsupported location 2" in refusal(tool, file[: at + 3] + b"\2" + file[at + 4 :])


def test_images_that_belong_to_each_other_are_refused(tool):
    hvcc, data = heif_files.coded(photo((64, 64)))
    items = {number: Item(b"hvc1", data, [1]) for number in (1, 2)}
    circle = heif(items, [box(b"hvcC", hvcc)], [(b"auxl", 1, [2]), (b"auxl", 2, [1])])
    assert "is nested too deep in other images" in refusal(tool, circle)


def test_what_is_described_is_bounded(tool):
    places = struct.pack(">HHH", 1, 0, 65535)
    assert "item 1 has 65535 extents at one location" in refusal(
        tool, described(full(b"iloc", bytes(2), struct.pack(">H", 20), places * 20))
    )

    def associations(*entries: bytes) -> bytes:
        return described(box(b"iprp", box(b"ipma", b"\1\0\0\0", struct.pack(">I", len(entries)), *entries)))

    items = (struct.pack(">IB", number, 0) for number in range(65537))
    assert "more than 65536 items" in refusal(tool, associations(*items))
    words = "there are more than 1048576 "
    assert words in refusal(tool, associations(*[struct.pack(">IB", 1, 255) + bytes(255)] * 4200))
    assert words in refusal(tool, described(box(b"iprp", box(b"ipco", box(b"free") * (1 << 20)))))
    assert words in refusal(tool, heic(photo((2, 2))) + box(b"free") * (1 << 20))
    reference = box(b"dimg", struct.pack(">HH", 1, 65535), bytes(2 * 65535))
    assert words in refusal(tool, described(full(b"iref", reference * 17)))
    place = struct.pack(">HHHH", 1, 0, 0, 65535) + bytes(4 * 65535)
    places = b"".join(struct.pack(">H", number) + place[2:] for number in range(17))
    assert words in refusal(tool, described(box(b"iloc", b"\1\0\0\0\x40\0", struct.pack(">H", 17), places)))


@pytest.mark.parametrize("name", ["pitm", "iinf", "iref", "iprp", "iloc", "idat"])
def test_a_box_that_readers_take_differently_comes_once(tool, name):
    contents = {"pitm": b"\0\1", "iinf": bytes(2), "iloc": bytes(4), "iprp": b"", "idat": b""}
    make = box if name in ("iprp", "idat") else full
    file = grid(photo((64, 64)), 2, 1, extra=make(name.encode(), contents.get(name, b"")))
    assert f"there is more than one box '{name}'" in refusal(tool, file)


def test_descriptions_that_readers_take_differently_are_refused(tool):
    file = grid(photo((64, 64)), 2, 1)
    check(tool, file + b"\0\0\0\x08free" + b"what a phone adds", 1, 0.05)
    assert "more than one box 'meta'" in refusal(tool, file + full(b"meta"))
    assert "unsupported box 'mini'" in refusal(tool, file + box(b"mini"))
    twice = info(1, b"hvc1") + info(2, b"hvc1") + info(1, b"grid")
    assert "item 1 is described twice" in refusal(tool, described(full(b"iinf", b"\0\3", twice)))
    place = struct.pack(">HHHII", 1, 0, 1, 0, 4)
    assert "the location of item 1 is given twice" in refusal(
        tool, described(full(b"iloc", b"\x44\0", struct.pack(">H", 2), place * 2))
    )
    assert "a number in the box 'iloc' has 3 bytes" in refusal(tool, described(full(b"iloc", b"\x34\0\0\0")))
    assert "unsupported index" in refusal(tool, described(box(b"iloc", b"\1\0\0\0\x44\x04\0\0")))
    longer = box(b"dimg", struct.pack(">HHH", 1, 1, 2), b"more")
    assert "'dimg' is longer than its references" in refusal(tool, described(full(b"iref", longer)))


@pytest.mark.parametrize("encode", [heic, avif])
def test_no_truncated_file_is_read(tool, encode):
    whole = encode(photo((64, 48)))
    check(tool, whole, 64, 4)
    for cut in sorted({*range(12, 64), *range(64, len(whole), 37), len(whole) - 1}):
        assert refusal(tool, whole[:cut]).startswith((f"{encode.__name__.upper()}: ", "HEIF: "))


def test_it_takes_the_memory_that_it_says(tmp_path):
    from test_limits import MEGABYTE, Outcome

    small, large = tmp_path / "small.heic", tmp_path / "large.heic"
    small.write_bytes(heic(photo((2, 2))))
    large.write_bytes(heic(photo((2000, 1500)), quality=10, enc_params={"preset": "ultrafast"}))
    refused = Outcome(large, "--decode-memory", "1").error
    assert "HEIC: decoding 2000x1500 pixels of this kind needs" in refused
    needed = int(refused.split(" needs ")[1].split()[0]) * MEGABYTE
    idle = max(
        Outcome(small).peak for _ in range(3)
    )  # it is looked at from time to time, and small images take no time
    used = Outcome(large).peak - idle - large.stat().st_size
    assert used < needed * 1.02 + 4 * MEGABYTE, f"{used} of {needed}"


@pytest.mark.parametrize("encode, name", [(heic, "HEIC"), (avif, "AVIF")])
def test_without_the_library_the_reason_says_what_to_install(tool, tmp_path, monkeypatch, encode, name):
    monkeypatch.setenv("FOVEA_LIBHEIF", "/nowhere/libheif.so.1")
    without = Tool(tmp_path)
    words = refusal(without, encode(photo((16, 16))))
    assert words.startswith(f"{name} needs libheif, which cannot be opened (/nowhere/libheif.so.1: ")
    assert words.endswith("apt-get install libheif1")
    without.close()
