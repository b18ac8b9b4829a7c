"""Which tensors may be e4m3: cosines to fp32 for each choice, by rounding those tensors in torch.

    python3 bench/fp8_accuracy.py MODEL... [--photos examples/photos] [--json FILE]

Every choice runs transformers' model with a bf16 residual stream and bf16 operands, and rounds the named places' inputs
(and those layers' weights, a scale a row) to e4m3. `static`: one power-of-two scale a place, from the photos themselves
with a binary order of room; `row`: a scale a row. It answers which choice is accurate enough before any kernel exists;
what the engine itself reaches is measured by tests/model/test_parity.py and bench/peers.py."""

import argparse
import json
import math
import pathlib
import sys

import numpy
import PIL.Image
import torch
from transformers import SiglipVisionModel

import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
E4M3 = torch.float8_e4m3fn
E4M3_MAX = 448.0
PLACES = ("qkv", "out", "fc1", "fc2", "patch")
CHOICES = {  # name: {place: how its input is scaled}
    "bf16": {},
    "qkv": {"qkv": "static"},
    "out": {"out": "static"},
    "fc1": {"fc1": "static"},
    "fc2": {"fc2": "static"},
    "patch": {"patch": "exact"},
    "qkv+fc1": {"qkv": "static", "fc1": "static"},
    "qkv+fc1+fc2": {"qkv": "static", "fc1": "static", "fc2": "static"},
    "qkv+out+fc1+fc2": {"qkv": "static", "out": "static", "fc1": "static", "fc2": "static"},
    "qkv+out+fc1+fc2, row scales where free": {"qkv": "row", "out": "static", "fc1": "row", "fc2": "static"},
    "everything": {"qkv": "static", "out": "static", "fc1": "static", "fc2": "static", "patch": "exact"},
    "everything, patch int8": {"qkv": "static", "out": "static", "fc1": "static", "fc2": "static", "patch": "int8"},
    "patch int8": {"patch": "int8"},
}


def rounded(x, scale):
    """x as e4m3 times scale, saturating."""
    return (x / scale).clamp(-E4M3_MAX, E4M3_MAX).to(E4M3).float() * scale


def power_of_two(peak):
    """The least power of two that keeps twice `peak` in range."""
    return 2.0 ** math.ceil(math.log2(max(2 * peak, 1e-30) / E4M3_MAX))


class Quantised(torch.nn.Module):
    """A linear layer on bf16 operands, or on e4m3 ones."""

    def __init__(self, linear, how):
        super().__init__()
        self.how, self.peak, self.calibrating = how, 0.0, False
        self.bias = linear.bias.float()
        weight = linear.weight.float()
        if how is None:
            self.weight = weight.bfloat16().float()
        else:
            self.weight = rounded(weight, weight.abs().amax(1, keepdim=True) / E4M3_MAX)

    def forward(self, x):
        x = x.float()
        if self.calibrating:
            self.peak = max(self.peak, x.abs().max().item())
        if self.how == "static" and not self.calibrating:
            x = rounded(x, power_of_two(self.peak))
        elif self.how == "row":
            x = rounded(x, x.abs().amax(-1, keepdim=True) / E4M3_MAX)
        else:
            x = x.bfloat16().float()
        return (x @ self.weight.T + self.bias).bfloat16()


def quantise(model, choice):
    """Replaces the layers' linear maps; the pooling head, norms and softmax stay in bf16."""
    layers = []
    tower = getattr(model, "vision_model", model)  # some versions of transformers nest it
    for layer in tower.encoder.layers:
        attention, mlp = layer.self_attn, layer.mlp
        for owner, name, place in [(attention, "q_proj", "qkv"), (attention, "k_proj", "qkv"),
                                   (attention, "v_proj", "qkv"), (attention, "out_proj", "out"),
                                   (mlp, "fc1", "fc1"), (mlp, "fc2", "fc2")]:
            layers.append(Quantised(getattr(owner, name), choice.get(place)))
            setattr(owner, name, layers[-1])
    patch = tower.embeddings.patch_embedding
    weight = patch.weight.data.float()
    if choice.get("patch") == "exact":  # pixels less 128 are exact integers; only the weights are rounded
        patch.weight.data = rounded(weight, weight.abs().amax((1, 2, 3), keepdim=True) / E4M3_MAX).to(patch.weight.dtype)
    elif choice.get("patch") == "int8":
        scale = weight.abs().amax((1, 2, 3), keepdim=True) / 127
        patch.weight.data = ((weight / scale).round() * scale).to(patch.weight.dtype)
    return layers


def load_photos(folder, side):
    photos = []
    for path in sorted(p for p in folder.iterdir() if p.suffix in (".jpg", ".png", ".webp")):
        with PIL.Image.open(path) as photo:
            small = photo.convert("RGB").resize((side, side), PIL.Image.BILINEAR)
        photos.append(numpy.asarray(small, dtype=numpy.float32) / 127.5 - 1)
    return torch.from_numpy(numpy.stack(photos)).permute(0, 3, 1, 2)


def study(path, folder, device):
    reference = SiglipVisionModel.from_pretrained(path).eval().to(device)
    pixels = load_photos(folder, reference.config.image_size).to(device)
    rows = []
    with torch.inference_mode():
        expected = reference(pixels).pooler_output
        for name, choice in CHOICES.items():
            model = SiglipVisionModel.from_pretrained(path, dtype=torch.bfloat16).eval().to(device)
            layers = quantise(model, choice)
            if any(how == "static" for how in choice.values()):
                for layer in layers:
                    layer.calibrating = True
                model(pixels.bfloat16())
                for layer in layers:
                    layer.calibrating = False
            got = model(pixels.bfloat16()).pooler_output.float()
            cosine = torch.nn.functional.cosine_similarity(got, expected)
            rows.append({"model": pathlib.Path(path).name, "choice": name, "mean_cosine": cosine.mean().item(),
                         "minimum_cosine": cosine.min().item()})
            print(f"{rows[-1]['model']:24} {name:40} mean {rows[-1]['mean_cosine']:.6f} "
                  f"min {rows[-1]['minimum_cosine']:.6f}", file=sys.stderr, flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--photos", type=pathlib.Path, default=ROOT / "examples" / "photos")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = [row for path in options.models for row in study(path, options.photos, device)]
    result = {"machine": machine.describe() | {"gpu": machine.gpu()}, "fp8_choices": rows}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
