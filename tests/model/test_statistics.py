"""Random checkpoints behave like a trained tower: what the parity tests and the examples rest on.

The limits here are those that docs/presets.md promises; `pytest -s` prints the measured values.
"""

import copy
import io

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image
from torch.nn.functional import cosine_similarity, normalize
from transformers import SiglipVisionModel

PHOTOS = ("astronaut", "coffee", "chelsea", "rocket")


def shrink(photo, size):
    photo = photo.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(photo)).permute(2, 0, 1).float() / 127.5 - 1


def cropped(photo):
    width, height = photo.size
    return photo.crop((width // 20, height // 20, width - width // 20, height - height // 20))


def recompressed(photo):
    file = io.BytesIO()
    photo.save(file, "JPEG", quality=60)
    return Image.open(file)


class Measured:
    def __init__(self, folder):
        self.model = SiglipVisionModel.from_pretrained(folder, dtype=torch.float32).eval()
        size = self.model.config.image_size
        photos = [Image.fromarray(getattr(skimage.data, name)()) for name in PHOTOS]
        self.pixels = torch.stack([shrink(photo, size) for photo in photos])
        self.embeddings = self.embed(self.model)
        with torch.no_grad():
            self.crops = self.run(self.model, [shrink(cropped(p), size) for p in photos])
            self.jpegs = self.run(self.model, [shrink(recompressed(p), size) for p in photos])

    @staticmethod
    def run(model, pixels):
        return model(pixel_values=torch.stack(pixels)).pooler_output

    def embed(self, model, dtype=torch.float32):
        with torch.no_grad():
            return model(pixel_values=self.pixels.to(dtype)).pooler_output

    def difference(self, change):
        """Largest |difference| over the embedding's norm, the least over the photos."""
        model = copy.deepcopy(self.model)
        change(model)
        delta = (self.embed(model) - self.embeddings).abs().amax(-1)
        return (delta / self.embeddings.norm(dim=-1)).min().item()


@pytest.fixture(scope="module", params=["tiny", pytest.param("base-patch16-224", marks=pytest.mark.nightly)])
def measured(request, run_fovea, tmp_path_factory):
    folder = tmp_path_factory.mktemp("statistics") / "model"
    run_fovea("init", "--preset", request.param, "--seed", "0", "-o", folder)
    result = Measured(folder)
    (folder / "model.safetensors").unlink()
    return result


def coarse_epsilon(model):
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5


def erf_gelu(model):
    for module in model.modules():
        if hasattr(module, "activation_fn"):
            module.activation_fn = torch.nn.GELU()


def no_head_residual(model):
    head = model.head

    def forward(hidden):
        probe = head.probe.repeat(hidden.shape[0], 1, 1)
        return head.mlp(head.layernorm(head.attention(probe, hidden, hidden)[0]))[:, 0]

    head.forward = forward


@pytest.mark.parametrize("change", [coarse_epsilon, erf_gelu, no_head_residual])
def test_small_mistakes_show(measured, change):
    difference = measured.difference(change)
    print(f"{change.__name__}: {difference:.1e}")
    assert difference > 4e-5  # twice what parity allows


def test_rounding_does_not(measured):
    exact = measured.embed(copy.deepcopy(measured.model).double(), torch.float64)
    delta = (measured.embeddings.double() - exact).norm(dim=-1) / exact.norm(dim=-1)
    print(f"float32 against float64: {delta.max().item():.1e}")
    assert delta.max() < 5e-6
    half = measured.embed(copy.deepcopy(measured.model).bfloat16(), torch.bfloat16)
    cosine = cosine_similarity(half.float(), measured.embeddings).min().item()
    print(f"bfloat16: cosine {cosine:.5f}")
    assert cosine > 0.9995


def test_photos_differ_and_their_copies_do_not(measured):
    cosines = normalize(measured.embeddings) @ normalize(measured.embeddings).T
    others = cosines - 2 * torch.eye(len(PHOTOS))
    jpegs = cosine_similarity(measured.embeddings, measured.jpegs)
    crops = cosine_similarity(measured.embeddings, measured.crops)
    print(f"others at most {others.max():.3f}, crops from {crops.min():.3f}")
    assert others.max() < 0.96
    assert jpegs.min() > 0.999
    assert (crops > others.amax(-1)).all()


def test_activations_have_a_trained_towers_scales(measured):
    streams, gelu = [], []
    handles = [
        layer.layer_norm1.register_forward_hook(lambda _, args, out: streams.append(args[0]))
        for layer in measured.model.encoder.layers
    ] + [
        layer.mlp.fc1.register_forward_hook(lambda _, args, out: gelu.append(out))
        for layer in measured.model.encoder.layers
    ]
    measured.embed(measured.model)
    for handle in handles:
        handle.remove()
    variance = streams[0].var(-1)
    print(f"first LayerNorm's input: variance {variance.min():.3f} to {variance.max():.3f}")
    assert variance.min() > 0.01 and variance.max() < 0.05
    for stream in streams:  # [photos, tokens, channels]
        channels = stream.abs().mean((0, 1))
        outlier = (channels.max() / channels.median()).item()
        assert 20 < outlier < 100
    for values in gelu:
        low, high = np.quantile(values.numpy(), [0.005, 0.995])
        assert -7 < low < -2 and 2 < high < 7
