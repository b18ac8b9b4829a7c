"""HEIC against pillow-heif and AVIF against Pillow, within the tolerances that docs/images.md states."""

from __future__ import annotations

import io

import heif_files
import numpy as np
import pytest
from heif_files import avif, deep_heic, grid, heic
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
    # One tile, sixty thousand times.
    assert words in refusal(tool, grid(tile, 2, 1, references=60_000))
    # The sizes that the file tells are small, those that the decoder will read are not.
    hvcc, _ = heif_files.coded(tile)
    lies = heif_files.hvcc_with(hvcc, heif_files.parameter_set(16384, 16384))
    assert f"HEIC: {2 * 16384**2} {words}" in refusal(tool, grid(tile, 2, 1, hvcc=lies))
    large = grid(tile, 2, 1, size=(32768, 32768))
    assert "32768x32768 pixels, more than the limit of 178956970" in refusal(tool, large)


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
    idle = max(Outcome(small).peak for _ in range(3))  # it is looked at from time to time, and small images take no time
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
