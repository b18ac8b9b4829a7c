"""Features as transformers' SiglipVisionModel gives them, and with one mistake."""

import json
import shutil

import numpy
import torch
from safetensors.torch import load_file, save_file
from transformers import SiglipVisionModel

#: Mistakes by the features in which they show.
MISTAKES = {
    "last": ("without the norm", "tokens one off", "the grid turned"),
    "penultimate": ("a layer further", "a layer less", "with the norm", "the grid turned"),
    "pooled": ("scaled to length 1", "mean of the tokens"),
}


def pixels_of(seed, count, side):
    """Images that differ in contrast, and whose rows, columns and channels differ."""
    source = numpy.random.default_rng(seed)
    noise = source.integers(0, 256, (count, side, side, 3)).astype(float)
    slope = numpy.linspace(0, 1, side)
    shade = slope[None, :, None, None] * [200, 90, 20] + slope[None, None, :, None] * [10, 60, 230]
    mix = numpy.linspace(0.2, 0.9, count)[:, None, None, None]
    return (mix * noise + (1 - mix) * shade).clip(0, 255).astype(numpy.uint8)


def values_of(pixels):
    """What the model takes."""
    return ((torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5).contiguous()


class Reference:
    """transformers' outputs for some pixels."""

    def __init__(self, folder, pixels, dtype=torch.float32):
        self.model = SiglipVisionModel.from_pretrained(folder, attn_implementation="eager").eval().to(dtype)
        with torch.inference_mode():
            self.out = self.model(values_of(pixels).to(dtype), output_hidden_states=True)

    def features(self, layer, mistake=""):
        """float64 [images, tokens, hidden], or [images, hidden]."""
        return self._tensor(layer, mistake).double().numpy()

    @torch.inference_mode()
    def _tensor(self, layer, mistake):
        hidden, norm = self.out.hidden_states, self.post_layernorm()
        if mistake == "tokens one off":
            return self._tensor(layer, "").roll(1, 1)
        if mistake == "the grid turned":
            right = self._tensor(layer, "")
            side = round(right.shape[1] ** 0.5)
            return right.unflatten(1, (side, side)).transpose(1, 2).flatten(1, 2)
        if layer == "last":
            return hidden[-1] if mistake == "without the norm" else self.out.last_hidden_state
        if layer == "pooled":
            if mistake == "mean of the tokens":
                return self.out.last_hidden_state.mean(1)
            pooled = self.out.pooler_output
            return torch.nn.functional.normalize(pooled, dim=-1) if mistake else pooled
        index = -2 if layer == "penultimate" else layer
        if mistake == "with the norm":
            return norm(hidden[index])
        return hidden[index + {"": 0, "a layer further": 1, "a layer less": -1}[mistake]]

    def post_layernorm(self):
        inner = getattr(self.model, "vision_model", self.model)
        return inner.post_layernorm


def difference(got, want):
    """The largest difference of a token, over its norm."""
    assert got.shape == want.shape
    return (numpy.abs(got - want).max(-1) / numpy.linalg.norm(want, axis=-1)).max()


def least_cosine(got, want):
    """Of all tokens."""
    assert got.shape == want.shape
    norms = numpy.linalg.norm(got, axis=-1) * numpy.linalg.norm(want, axis=-1)
    return ((got * want).sum(-1) / norms).min()


def without_head(folder, to):
    """A copy of a model whose vision tower, alone, has no pooling head: as in PaliGemma."""
    to.mkdir()
    shutil.copy(folder / "preprocessor_config.json", to)
    config = json.loads((folder / "config.json").read_text())
    vision = config["vision_config"] | {"model_type": "siglip_vision_model", "vision_use_head": False}
    (to / "config.json").write_text(json.dumps(vision))
    tensors = load_file(folder / "model.safetensors")
    kept = {
        name: tensor
        for name, tensor in tensors.items()
        if name.startswith("vision_model.") and not name.startswith("vision_model.head.")
    }
    save_file(kept, to / "model.safetensors")
    return to
