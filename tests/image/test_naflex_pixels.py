"""Sizes, pixels and patches of NaFlex models against the installed transformers' Pillow processor, live."""

from __future__ import annotations

import json
import random
import re

import numpy as np
import pytest
from image_cases import encode, exif, photo
from PIL import Image, ImageOps
from test_pixels import Tool
from transformers.models.siglip2.image_processing_pil_siglip2 import (
    Siglip2ImageProcessorPil,
    get_image_size_for_max_num_patches,
)

# (side of a patch, most patches, filter)
MODELS = [(16, 256, 2), (14, 256, 2), (32, 100, 2), (16, 1024, 3), (16, 7, 2)]

# Exactly fitting, odd, tiny, thin both ways, panoramas, portraits, huge.
SIZES = [
    (1, 1), (2, 1), (1, 3), (3, 3), (3, 1), (1, 300), (300, 1), (7, 5), (15, 16), (16, 16), (17, 16),
    (256, 256), (224, 224), (512, 128), (128, 512), (14, 3584), (4096, 16), (4000, 30), (30, 4000),
    (6000, 200), (333, 777), (640, 480), (480, 640), (1920, 1080), (1080, 1920), (1023, 1025),
    (3000, 2000), (2448, 3264), (5000, 3333), (99, 100), (100, 99), (257, 255), (31, 2), (4999, 7),
]  # fmt: skip


def noise(size: tuple[int, int], seed: int) -> Image.Image:
    """Values at both ends, so that every rounding and clipping is reached."""
    numbers = np.random.default_rng(seed)
    pixels = numbers.integers(0, 256, (size[1], size[0], 3))
    extreme = numbers.random((size[1], size[0], 1)) < 0.5
    return Image.fromarray(np.where(extreme, (pixels > 127) * 255, pixels).astype(np.uint8))


def images(count: int) -> list[tuple[str, bytes]]:
    """`count` images: SIZES, then sizes drawn evenly over their proportions; JPEGs in all orientations."""
    draw = random.Random(18)
    sizes = list(SIZES)
    while len(sizes) < count:
        area = 2 ** draw.uniform(4, 21)
        aspect = 2 ** draw.uniform(-5, 5)
        sizes.append((max(1, round((area * aspect) ** 0.5)), max(1, round((area / aspect) ** 0.5))))
    made = []
    for number, size in enumerate(sizes):
        large = size[0] * size[1] > 1_000_000
        image = photo(size, ("astronaut.png", "coffee.png")[number % 2]) if number % 3 or large else noise(size, number)
        if number % 4 == 0:
            made.append((f"{number:03}.png", encode(image, "PNG", compress_level=1)))
        elif number % 4 == 1:
            made.append((f"{number:03}.bmp", encode(image, "BMP")))
        else:
            made.append((f"{number:03}.jpg", encode(image, "JPEG", quality=90, exif=exif(1 + number // 4 % 8))))
    return made


@pytest.fixture(scope="module", params=[60, pytest.param(200, marks=pytest.mark.nightly)])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for name, data in images(request.param):
        (folder / name).write_bytes(data)
    return folder


def write_configs(folder, patch: int, most: int, resample: int) -> None:
    folder.mkdir()
    vision = {"model_type": "siglip2_vision_model", "patch_size": patch, "num_patches": 256}
    (folder / "config.json").write_text(json.dumps({"model_type": "siglip2", "vision_config": vision}))
    processor = {
        "image_processor_type": "Siglip2ImageProcessor",
        "patch_size": patch,
        "max_num_patches": most,
        "resample": resample,
        "do_convert_rgb": None,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))


@pytest.fixture(scope="module")
def pictures(folder):
    """The images of the folder in order of their names, as Pillow decodes and turns them: once for all models."""
    return [ImageOps.exif_transpose(Image.open(path)).convert("RGB") for path in sorted(folder.iterdir())]


def by_transformers(pictures, patch: int, most: int, resample: int) -> tuple[np.ndarray, np.ndarray]:
    """(uint8 [n, most, patch * patch * 3], [n, 2]): the patches before numbers are scaled, and their grids."""
    processor = Siglip2ImageProcessorPil(
        patch_size=patch, max_num_patches=most, resample=resample, do_rescale=False, do_normalize=False
    )
    rows, grids = [], []
    for image in pictures:
        made = processor(image, return_tensors="np")
        rows.append(made["pixel_values"][0])
        grids.append(made["spatial_shapes"][0])
    return np.stack(rows), np.stack(grids)


def differences(ours: np.ndarray, grids: np.ndarray, theirs: tuple[np.ndarray, np.ndarray]) -> str:
    """What differs, or nothing."""
    if ours.shape != theirs[0].shape or ours.dtype != theirs[0].dtype:
        return f"{ours.dtype} {ours.shape} instead of {theirs[0].dtype} {theirs[0].shape}"
    wrong = np.flatnonzero((grids != theirs[1]).any(1) | (ours != theirs[0]).any((1, 2)))
    values = int((ours != theirs[0]).sum())
    return f"{values} values of {wrong.size} images differ, first in {wrong[:5]}" if wrong.size else ""


@pytest.mark.parametrize("model", MODELS, ids=lambda model: "patch{}-most{}-filter{}".format(*model))
def test_pixels_and_patches_equal_transformers(run_fovea, tmp_path, folder, pictures, model):
    write_configs(tmp_path / "model", *model)
    output = tmp_path / "pixels.npy"
    run_fovea("preprocess", "-m", tmp_path / "model", folder, "-o", output)
    index = [json.loads(line) for line in (tmp_path / "pixels.index.jsonl").read_text().splitlines()]
    ours, grids = np.load(output), np.array([line["patches"] for line in index])
    paths = sorted(folder.iterdir())
    assert [line["source"] for line in index] == [str(path) for path in paths] and len(paths) >= 60
    theirs = by_transformers(pictures, *model)
    assert differences(ours, grids, theirs) == ""

    # The comparison notices each of these, in twenty of the images.
    side = model[0]
    ours, grids, theirs = ours[:20], grids[:20], (theirs[0][:20], theirs[1][:20])
    planes = ours.reshape(len(ours), -1, side * side, 3).swapaxes(2, 3).reshape(ours.shape)  # channel first
    turned = ours.reshape(len(ours), -1, side, side, 3).swapaxes(2, 3).reshape(ours.shape)  # (x, y)
    unfilled = np.where(ours.any(2, keepdims=True), ours, 1)  # something in the padding
    assert differences(planes, grids, theirs) and differences(turned, grids, theirs)
    assert differences(unfilled, grids, theirs)
    assert differences(ours, grids[:, ::-1], theirs)
    assert differences(ours, grids, by_transformers(pictures[:20], side, model[1], 5 - model[2]))


def test_an_array_of_pixels_is_an_input(run_fovea, tmp_path, folder):
    """What preprocess has written is read back, with its index, and not without."""
    write_configs(tmp_path / "model", *MODELS[0])
    one, two = tmp_path / "one.npy", tmp_path / "two.npy"
    run_fovea("preprocess", "-m", tmp_path / "model", folder, "-o", one)
    run_fovea("preprocess", "-m", tmp_path / "model", one, "-o", two)
    assert one.read_bytes() == two.read_bytes()
    index = one.with_suffix(".index.jsonl")
    assert index.read_bytes() == two.with_suffix(".index.jsonl").read_bytes()

    whole = index.read_text()
    for wrong, reason in (
        ('"patches": [300, 3]', "line 1: the image has 300x3 patches, but a row of the array holds at most 256"),
        ('"patches": [3]', "is not a list of two numbers"),
        ('"other": 1', 'line 1: "patches" is missing'),
    ):
        index.write_text(re.sub(r'"patches": \[\d+, \d+\]', wrong, whole, count=1))
        assert reason in run_fovea("preprocess", "-m", tmp_path / "model", one, "-o", two, code=3).stderr
    index.unlink()
    refused = run_fovea("preprocess", "-m", tmp_path / "model", one, "-o", two, code=1)
    assert "with the sizes of the images, is missing" in refused.stderr


def test_sizes_equal_transformers_on_ten_thousand_images(tmp_path):
    """The last patch depends on the order of float64 operations, so it takes many to be sure."""
    tool = Tool(tmp_path)
    draw = random.Random(4)
    wrong = []
    for number in range(10_000):
        height, width = (max(1, round(2 ** draw.uniform(0, 16))) for _ in range(2))
        if number % 3 == 0:
            width = max(1, height * draw.choice((1, 2, 4)) // draw.choice((1, 3, 9)))  # ties are here
        patch, most = draw.choice((14, 16, 32)), draw.choice((64, 100, 256, 729, 1024))
        tool.process.stdin.write(f"target {height} {width} {patch} {most}\n".encode())
        tool.process.stdin.flush()
        words = tool.process.stdout.readline().split()
        ours = (int(words[2]), int(words[1]))
        theirs = get_image_size_for_max_num_patches(height, width, patch, most)
        if ours != theirs:
            wrong.append(f"{height}x{width}, {most} patches of {patch}: {ours} instead of {theirs}")
    tool.close()
    assert not wrong, "\n".join(wrong[:10])
