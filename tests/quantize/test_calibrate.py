"""Compares `fovea calibrate` with transformers: it observes the same inputs of a layer."""

import pathlib
import shutil

import numpy
import pytest
import torch
from safetensors.torch import load_file
from transformers import SiglipVisionModel

PHOTOS = sorted((pathlib.Path(__file__).resolve().parents[2] / "examples" / "photos").glob("*.jpg"))
LARGEST = {"int8": 127.0, "fp8": 448.0}


@pytest.fixture(scope="module")
def tiny(run_fovea, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    run_fovea("init", "--preset", "tiny", "--seed", "3", "-o", folder)
    return folder


@pytest.fixture(scope="module")
def layers(run_fovea, tiny, tmp_path_factory):
    """Name of the calibrated layer: its inputs [rows, in] over all photos, weight and bias, by transformers."""
    pixels = tmp_path_factory.mktemp("pixels") / "pixels.npy"
    run_fovea("preprocess", *PHOTOS, "-m", tiny, "--quiet", "-o", pixels)
    values = torch.from_numpy(numpy.load(pixels).astype(numpy.float32) / 127.5 - 1).permute(0, 3, 1, 2)
    model = SiglipVisionModel.from_pretrained(tiny).eval()
    found, hooks = {}, []

    def watch(name, modules):
        def note(_, inputs):
            x = inputs[0].reshape(-1, inputs[0].shape[-1]).double()
            weight = torch.cat([module.weight for module in modules]).double()
            found[name] = x, weight, torch.cat([module.bias for module in modules]).double()

        hooks.append(modules[0].register_forward_pre_hook(note))

    for i, layer in enumerate(getattr(model, "vision_model", model).encoder.layers):
        name, attention = f"vision_model.encoder.layers.{i}", layer.self_attn
        watch(f"{name}.self_attn.qkv", [attention.q_proj, attention.k_proj, attention.v_proj])
        watch(f"{name}.mlp.fc1", [layer.mlp.fc1])
        watch(f"{name}.mlp.fc2", [layer.mlp.fc2])
    with torch.inference_mode():
        model(values)
    return found


@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_weights_are_rounded_for_the_inputs_that_the_layers_read(run_fovea, tiny, layers, precision):
    run_fovea("calibrate", tiny, *PHOTOS, "--precision", precision)
    stored = load_file(tiny / f"calibration-{precision}.safetensors")
    assert stored["images"].item() == len(PHOTOS)
    normed = [name for name in layers if not name.endswith("fc2")]
    assert len(stored) == 2 + 4 * len(layers) + len(normed)
    for name, (x, weight, bias) in layers.items():
        divisor = torch.ones(x.shape[1], dtype=torch.double)
        if name in normed:  # the norm before the layer divides by them
            divisor = (x.abs().amax(0) / weight.abs().amax(0)).sqrt()
            divisor /= divisor.log().mean().exp()
            torch.testing.assert_close(stored[f"{name}.divisor"].double(), divisor, rtol=1e-3, atol=0)
            divisor = stored[f"{name}.divisor"].double()
        x, weight = x / divisor, weight * divisor
        eights = "int8" if name in normed else precision
        scale = stored[f"{name}.scale"].double()
        rounded = stored[f"{name}.weight"].double() * scale[:, None]
        torch.testing.assert_close(scale, weight.abs().amax(1) / LARGEST[eights], rtol=1e-5, atol=0)

        # The output changes less than by rounding to the nearest.
        step = weight / scale[:, None]
        nearest = step.round() if eights == "int8" else step.float().to(torch.float8_e4m3fn).double()
        mean = x.mean(0)
        change = ((x - mean) @ (rounded - weight).T).norm()
        assert change < 0.9 * ((x - mean) @ (nearest * scale[:, None] - weight).T).norm(), name

        # The mean of what is left is in the bias: another layer's inputs would show here.
        torch.testing.assert_close(stored[f"{name}.bias"].double(), bias + (weight - rounded) @ mean, rtol=0, atol=2e-5)
        expected = torch.zeros(())
        if name not in normed:  # int8: 127 + 96 for what is positive, and -0.17 is no less than -127 - 96
            expected = x.abs().max() * (1.1 / 223.0 if precision == "int8" else 2.0 / 448.0)
            if precision == "int8":
                expected = expected.clamp(min=0.1701 / 31)
        torch.testing.assert_close(stored[f"{name}.input_scale"][0].double(), expected.double(), rtol=1e-3, atol=0)


def test_the_files_do_not_depend_on_the_number_of_threads_or_on_each_other(run_fovea, tiny):
    photos = [*PHOTOS, *PHOTOS[:3]]  # no multiple of 2, 7 or 16
    files = {"int8": set(), "fp8": set()}
    for precisions in ("int8", "fp8", "int8,fp8"):
        for threads in (1, 2, 7, 16, 16):
            run_fovea("calibrate", "--precision", precisions, tiny, *photos, "--threads", str(threads))
            for precision in precisions.split(","):
                files[precision].add((tiny / f"calibration-{precision}.safetensors").read_bytes())
    assert len(files["int8"]) == len(files["fp8"]) == 1


def test_the_first_layers_may_stay_in_bf16(run_fovea, tiny, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny, model, ignore=shutil.ignore_patterns("calibration-*"))
    written = [model / "calibration-int8.safetensors", model / "calibration-fp8.safetensors"]

    def calibrated(layers, *options):
        """The bytes of both files, and their tensors."""
        run_fovea("calibrate", model, *PHOTOS[:5], "--precision", "int8,fp8", "--bf16-layers", str(layers), *options)
        return [path.read_bytes() for path in written], [load_file(path) for path in written]

    whole, tensors = calibrated(0)
    run_fovea("calibrate", model, *PHOTOS[:5], "--precision", "int8,fp8")
    assert [path.read_bytes() for path in written] == whole  # 0 is the default
    for layers in (1, 2, 3):
        first = tuple(f"vision_model.encoder.layers.{layer}." for layer in range(layers))
        files, left = calibrated(layers, "--threads", "1")
        assert calibrated(layers, "--threads", "3")[0] == files
        for before, after in zip(tensors, left, strict=True):
            assert after.pop("bf16_layers").tolist() == [layers]
            assert set(after) == {name for name in before if not name.startswith(first)} < set(before)
            assert all(torch.equal(value, before[name]) for name, value in after.items())


@pytest.mark.parametrize(
    "layers, code, told",
    [
        ("4", 1, "invalid number of layers in bf16 4; the model has 3 layers"),
        ("-1", 2, "--bf16-layers"),
        ("all", 2, "--bf16-layers"),
    ],
)
def test_layers_that_there_are_not_cannot_stay_in_bf16(run_fovea, tiny, tmp_path, layers, code, told):
    model = tmp_path / "model"
    shutil.copytree(tiny, model, ignore=shutil.ignore_patterns("calibration-*"))
    assert told in run_fovea("calibrate", model, *PHOTOS[:1], f"--bf16-layers={layers}", code=code).stderr
    assert not list(model.glob("calibration-*"))


def test_photos_that_cannot_be_used_are_told_and_the_others_do(run_fovea, tiny, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny, model, ignore=shutil.ignore_patterns("calibration-*"))
    (tmp_path / "broken.jpg").write_bytes(b"no JPEG")
    result = run_fovea("calibrate", model, tmp_path / "broken.jpg", code=1)
    assert "broken.jpg" in result.stderr
    assert not list(model.glob("calibration-*"))
    result = run_fovea("calibrate", model, tmp_path / "broken.jpg", *PHOTOS[:2], code=3)
    assert "broken.jpg" in result.stderr
    assert load_file(model / "calibration-int8.safetensors")["images"].item() == 2


def test_only_as_many_photos_as_asked_for_are_looked_at(run_fovea, tiny, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny, model, ignore=shutil.ignore_patterns("calibration-*"))
    run_fovea("calibrate", model, *PHOTOS, "--images", "3")
    assert load_file(model / "calibration-int8.safetensors")["images"].item() == 3


def test_precisions_without_calibration_are_usage_errors(run_fovea, tiny):
    run_fovea("calibrate", tiny, *PHOTOS[:1], "--precision", "bf16", code=2)
