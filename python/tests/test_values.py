"""Values equal those of the program, byte for byte, for every kind of image argument."""

import pathlib

import fovea
import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")


def assert_same(actual, expected):
    assert actual.dtype == np.float32
    assert actual.flags.c_contiguous
    np.testing.assert_array_equal(actual, expected)


def open_rgb(path):
    from PIL import ImageOps

    with Image.open(path) as image:
        return ImageOps.exif_transpose(image).convert("RGB")


@pytest.fixture(scope="module")
def rows(expected, photos):
    return expected(photos)


def test_files(encoder, photos, rows):
    result = encoder.embed(photos)
    assert result.shape == (len(photos), encoder.dimension)
    assert_same(result, rows)
    np.testing.assert_allclose(np.linalg.norm(result, axis=1), 1, atol=1e-6)
    assert len(np.unique(result.round(4), axis=0)) == len(photos), "the model tells photos apart"


@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_batch_sizes(encoder, photos, expected, batch_size):
    assert_same(encoder.embed(photos, batch_size=batch_size), expected(photos, "--batch-size", str(batch_size)))


def test_lengths_are_kept_when_asked(encoder, photos, expected):
    result = encoder.embed(photos, normalize=False)
    assert_same(result, expected(photos, "--no-normalize"))
    assert np.abs(np.linalg.norm(result, axis=1) - 1).max() > 0.1


def test_precisions(model, device, photos, expected, encoder):
    precision = "fp32" if device == "cpu" else "bf16"
    with fovea.load(model, device=device, precision=precision) as named:
        assert named.precision == precision
        rows = named.embed(photos)
    assert_same(rows, expected(photos, "--precision", precision))
    assert np.array_equal(rows, encoder.embed(photos)) == (encoder.precision == precision)


def test_images_of_a_naflex_model_keep_their_proportions(program, device, photos, tmp_path):
    model, output = tmp_path / "naflex", tmp_path / "rows.npy"
    program("init", "--preset", "tiny-naflex", "-o", model)
    program("embed", *photos, "-m", model, "--device", device, "-o", output, "--quiet")
    with fovea.load(model, device=device) as encoder:
        assert encoder.image_size is None
        assert_same(encoder.embed(photos), np.load(output))
        assert_same(encoder.embed(photos, batch_size=3), np.load(output))
        wide = np.asarray(open_rgb(photos[0]).resize((320, 90)))
        tall = np.ascontiguousarray(wide.transpose(1, 0, 2))
        apart = np.stack([encoder.embed([wide])[0], encoder.embed([tall])[0]])
        assert_same(encoder.embed([wide, tall]), apart)


KINDS = {
    "str": str,
    "path": pathlib.Path,
    "bytes": pathlib.Path.read_bytes,
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "strided memoryview": lambda path: memoryview(bytes(b for byte in path.read_bytes() for b in (byte, 0)))[::2],
    "lazy PIL": Image.open,
    "PIL": open_rgb,
    "array": lambda path: np.asarray(open_rgb(path)),
    "writable array": lambda path: np.array(open_rgb(path)),
    "strided array": lambda path: np.asarray(open_rgb(path))[::-1][::-1][:, ::-1][:, ::-1],
    "Fortran array": lambda path: np.asfortranarray(np.asarray(open_rgb(path))),
    "RGBA array": lambda path: np.dstack([np.asarray(open_rgb(path)), np.asarray(open_rgb(path).convert("L"))]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_input(encoder, photos, rows, kind):
    assert_same(encoder.embed([KINDS[kind](path) for path in photos]), rows)


def test_mixed_kinds_and_iterables(encoder, photos, rows):
    kinds = list(KINDS.values())
    assert_same(encoder.embed(kinds[number % len(kinds)](path) for number, path in enumerate(photos)), rows)
    assert_same(encoder.embed(np.array([str(path) for path in photos])), rows)


def test_tensors(encoder, photos, rows):
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(np.array(open_rgb(path))) for path in photos]
    assert_same(encoder.embed(tensors), rows)
    channels_first = [tensor.permute(2, 0, 1).contiguous() for tensor in tensors]
    assert_same(encoder.embed([tensor.permute(1, 2, 0) for tensor in channels_first]), rows)
    if torch.cuda.is_available():
        assert_same(encoder.embed([tensor.cuda() for tensor in tensors]), rows)


class DLPackOnly:
    """An object that supports DLPack and has no other known type."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **arguments):
        return self._array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_dlpack(encoder, photos, rows):
    assert_same(encoder.embed([DLPackOnly(np.array(open_rgb(path))) for path in photos]), rows)


def test_a_batch_in_one_array(encoder, photos, tmp_path, expected):
    pixels = np.stack([np.asarray(open_rgb(path).resize((90, 60))) for path in photos])
    files = [tmp_path / f"{number}.png" for number in range(len(pixels))]
    for path, image in zip(files, pixels, strict=True):
        Image.fromarray(image).save(path)
    same = expected(files)
    assert_same(encoder.embed(pixels), same)
    torch = pytest.importorskip("torch")
    assert_same(encoder.embed(torch.from_numpy(pixels)), same)
    assert_same(encoder.embed(DLPackBatch(pixels)), same)


class DLPackBatch(DLPackOnly):
    ndim = 4

    def __iter__(self):
        raise AssertionError("a batch is copied at once")


def test_gray_and_alpha_as_for_files(encoder, photos, tmp_path, expected):
    for mode, channels in (("L", 1), ("LA", 2), ("RGBA", 4)):
        image = open_rgb(photos[0]).convert(mode)
        if channels != 1:
            image.putalpha(open_rgb(photos[1]).convert("L").resize(image.size))
        path = tmp_path / f"{mode}.png"
        image.save(path)
        array = np.asarray(image)
        same = expected([path])
        assert_same(encoder.embed([array]), same)
        assert_same(encoder.embed([image]), same)
        assert_same(encoder.embed([array.reshape(*array.shape[:2], channels)]), same)


@pytest.mark.parametrize("mode", ["1", "P", "CMYK", "I;16"])
def test_other_modes_of_pil_as_for_files(encoder, photos, tmp_path, expected, mode):
    image = open_rgb(photos[0])
    image = image.convert("I;16") if mode == "I;16" else image.convert(mode)
    path = tmp_path / ("image.tif" if mode == "CMYK" else "image.png")
    image.save(path)
    with Image.open(path) as opened:
        assert_same(encoder.embed([opened]), expected([path]))


def test_pil_images_are_turned_upright(encoder, photos, tmp_path, expected):
    path = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    open_rgb(photos[0]).save(path, exif=exif)
    with Image.open(path) as opened:
        assert_same(encoder.embed([opened]), expected([path]))


def test_large_lists_of_pil_images(encoder, photos, rows, assert_near):
    """More than one window of conversions, the last of them not full."""
    count = 600
    opened = [open_rgb(path).copy() for path in photos]
    result = encoder.embed([opened[number % len(photos)] for number in range(count)], batch_size=7)
    files = encoder.embed([photos[number % len(photos)] for number in range(count)], batch_size=7)
    assert_same(result, files)
    last = (count - 1) % len(photos)
    assert_near(result[-1], rows[last])
    with pytest.raises(AssertionError):
        assert_near(result[-1], rows[last - 1])


def test_no_images(encoder):
    assert encoder.embed([]).shape == (0, encoder.dimension)
    assert encoder.embed(iter(())).shape == (0, encoder.dimension)


def test_calls_do_not_see_earlier_ones(encoder, photos):
    """The same call again, after others of other sizes, gives the same bytes."""
    first = encoder.embed(photos)
    encoder.embed(photos * 40, batch_size=16)
    encoder.embed(photos[:1])
    assert_same(encoder.embed(photos), first)
