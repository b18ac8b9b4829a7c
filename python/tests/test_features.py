"""Encoder.features and Encoder.heat: values, memory, lifetimes, and what other libraries make of them."""

import gc
import json
import subprocess
import sys
import threading
import weakref

import fovea
import numpy as np
import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def pixels():
    return np.random.default_rng(5).integers(0, 256, (9, 48, 40, 3), np.uint8)


def rows_of(program, model, device, photos, folder, layer, *options):
    """What the program writes."""
    names = folder / "names.txt"
    names.write_text("".join(f"{path}\n" for path in photos))
    output = folder / "rows.npy"
    program(
        *("embed", f"@{names}", "-m", model, "--device", device, "--features", layer, "-o", output, "--quiet", *options)
    )
    return np.load(output)


@pytest.mark.parametrize("layer", ["last", "penultimate", "pooled"])
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_values_are_those_of_the_program(encoder, program, model, device, photos, layer, dtype, tmp_path):
    features = encoder.features(photos, layer, dtype=dtype)
    want = rows_of(program, model, device, photos, tmp_path, layer, "--dtype", dtype)
    assert features.shape == want.shape
    assert features.dtype == want.dtype
    assert features.ndim == want.ndim
    assert len(features) == len(photos)
    assert np.array_equal(features.numpy(), want)
    assert np.array_equal(np.asarray(features), want)


def test_layers_are_numbered_as_in_transformers(encoder, model, pixels):
    count = json.loads((model / "config.json").read_text())["vision_config"]["num_hidden_layers"]
    for index in range(-count - 1, 0):
        below = encoder.features(pixels, index).numpy()
        assert np.array_equal(below, encoder.features(pixels, count + 1 + index).numpy())
    assert np.array_equal(encoder.features(pixels, -2).numpy(), encoder.features(pixels, "penultimate").numpy())
    assert not np.array_equal(encoder.features(pixels, -1).numpy(), encoder.features(pixels, "last").numpy())
    for index in (-count - 2, count + 1):
        with pytest.raises(fovea.Error, match=f"there is no layer {index}"):
            encoder.features(pixels, index)


def test_pooled_features_are_embeddings_before_they_are_scaled(encoder, pixels):
    pooled = encoder.features(pixels, "pooled", dtype=np.float32).numpy()
    assert np.array_equal(pooled, encoder.embed(pixels, normalize=False))


def test_an_image_has_the_same_bits_in_any_company(encoder, pixels):
    together = encoder.features(pixels, -2).numpy()
    assert np.array_equal(encoder.features(pixels, -2, batch_size=2).numpy(), together)
    assert np.array_equal(encoder.features(pixels[4:5], -2).numpy(), together[4:5])


def test_embeddings_and_features_take_turns(encoder, pixels):
    """Results must keep their own memory, although GPU runs replay what was recorded, in the same memory."""
    want = encoder.embed(pixels), *(encoder.features(pixels, layer).numpy() for layer in (-2, "last", 1))
    for _ in range(4):
        got = encoder.embed(pixels), *(encoder.features(pixels, layer).numpy() for layer in (-2, "last", 1))
        for ours, expected in zip(got, want, strict=True):
            assert np.array_equal(ours, expected)


def test_torch_takes_them_without_a_copy(encoder, pixels, device):
    features = encoder.features(pixels, -2)
    want = features.numpy().copy()
    tensor = torch.from_dlpack(features)
    assert tensor.shape == features.shape
    assert tensor.dtype == torch.float16
    assert tensor.device.type == ("cuda" if device.startswith("cuda") else "cpu")
    assert str(tensor.device) == features.device
    assert tensor.data_ptr() == torch.from_dlpack(features).data_ptr()
    del features
    gc.collect()
    encoder.features(pixels[::-1].copy(), -2)  # would take the memory, if it were free
    assert np.array_equal(tensor.cpu().numpy(), want)
    tensor += 1  # writable, and a use on torch's own stream
    assert np.array_equal(tensor.cpu().numpy(), want + np.float16(1))


def test_they_outlive_the_encoder(model, device, pixels):
    with fovea.load(model, device=device) as encoder:
        features = encoder.features(pixels)
        tensor = torch.from_dlpack(features)
    want = encoder_rows = features.numpy()
    del features
    gc.collect()
    assert np.array_equal(tensor.cpu().numpy(), want)
    assert encoder_rows.base is not None or device.startswith("cuda")


def test_an_array_of_them_keeps_the_memory(encoder, pixels):
    features = encoder.features(pixels)
    gone = weakref.ref(features)
    array = features.numpy()
    want = array.copy()
    on_host = features.device == "cpu"
    del features
    gc.collect()
    assert (gone() is not None) == on_host
    encoder.features(pixels[::-1].copy())
    assert np.array_equal(array, want)
    del array
    gc.collect()
    assert gone() is None


def test_capsules_that_nobody_takes_free_their_memory(encoder, pixels):
    """A hundred times 9 x 16 x 192 numbers would show."""
    features = encoder.features(pixels)
    capsules = [features.__dlpack__() for _ in range(100)]
    assert "dltensor" in repr(capsules[0])
    del capsules
    gc.collect()
    array = np.from_dlpack(features) if features.device == "cpu" else features.numpy()
    assert np.array_equal(array, features.numpy())


def test_arrays_of_another_type(encoder, pixels, device):
    features = encoder.features(pixels)
    wide = np.asarray(features, dtype=np.float64)
    assert wide.dtype == np.float64
    assert np.array_equal(wide, features.numpy().astype(np.float64))
    with pytest.raises(ValueError, match="needs a copy"):
        features.__array__(np.float64, copy=False)
    copied = features.__array__(copy=True)
    copied += 1
    assert not np.array_equal(copied, features.numpy())
    on_host = features.__dlpack__(dl_device=(1, 0))
    assert "dltensor" in repr(on_host)
    with pytest.raises(BufferError):
        features.__dlpack__(dl_device=(10, 0))
    assert features.__dlpack_device__() == ((2, 0) if device.startswith("cuda") else (1, 0))


@pytest.mark.parametrize("dtype", ["f32", np.float32, "float32", torch.float32, np.dtype("f4")])
def test_names_of_types(encoder, pixels, dtype):
    assert encoder.features(pixels[:1], dtype=dtype).dtype == np.float32


def test_arguments_are_checked(encoder, pixels):
    for dtype in ("bf16", torch.bfloat16, np.int32, None):
        with pytest.raises(ValueError, match="dtype must be"):
            encoder.features(pixels, dtype=dtype)
    with pytest.raises(ValueError, match="layer must be"):
        encoder.features(pixels, "first")
    with pytest.raises(TypeError, match="layer must be"):
        encoder.features(pixels, 1.5)
    with pytest.raises(ValueError, match="batch_size"):
        encoder.features(pixels, batch_size=0)
    with pytest.raises(TypeError, match="pass a list"):
        encoder.features(pixels[0])


def test_no_images(encoder, model):
    features = encoder.features([])
    assert features.shape[0] == 0
    assert features.numpy().shape == features.shape
    assert torch.from_dlpack(features).shape == features.shape


def test_an_unreadable_image_ends_the_call(encoder, photos):
    with pytest.raises(fovea.ImageError) as caught:
        encoder.features([photos[0], photos[1], b"no image", photos[2]])
    assert caught.value.index == 2
    assert encoder.features(photos[:2]).shape[0] == 2


def test_mixed_images(encoder, photos, pixels):
    mixed = [photos[0], pixels[0], photos[1].read_bytes(), torch.from_numpy(pixels[1])]
    got = encoder.features(mixed, -2).numpy()
    for index, image in enumerate(mixed):
        assert np.array_equal(got[index], encoder.features([image], -2).numpy()[0])
    assert np.array_equal(encoder.features(iter(mixed), -2).numpy(), got)


def test_several_threads(encoder, pixels):
    want = encoder.features(pixels, -2).numpy()
    results = {}

    def work(number):
        results[number] = torch.from_dlpack(encoder.features(pixels, -2)).cpu().numpy()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(np.array_equal(result, want) for result in results.values())


def test_a_closed_encoder_is_told(model, pixels):
    encoder = fovea.load(model, device="cpu")
    encoder.close()
    with pytest.raises(fovea.Error, match="closed"):
        encoder.features(pixels)
    with pytest.raises(fovea.Error, match="closed"):
        encoder.heat("a dog", pixels[0])


def test_the_process_may_end_with_them(model, device):
    """Tensors that are alive when the interpreter ends are left to the system."""
    code = (
        "import fovea, numpy, torch\n"
        f"features = fovea.load({str(model)!r}, device={device!r}).features([numpy.zeros((9, 9, 3), 'u1')])\n"
        "kept = torch.from_dlpack(features)\n"
        "import sys; sys.kept = kept, features.__dlpack__()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def test_heat(encoder, photos, pixels):
    grid = encoder.heat("a dog", photos[0])
    assert grid.dtype == np.float32
    assert grid.ndim == 2
    assert np.all(np.abs(grid) <= 1)
    assert np.array_equal(encoder.heat("a dog", photos[0].read_bytes()), grid)
    assert not np.array_equal(encoder.heat("snow", photos[0]), grid)
    assert encoder.heat("a dog", pixels[0]).shape == grid.shape
    with pytest.raises(fovea.Error, match="no image"):
        encoder.heat("a dog", photos[0].with_name("no image"))
    with pytest.raises(TypeError, match="text must be"):
        encoder.heat(7, photos[0])
