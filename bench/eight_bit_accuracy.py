"""Measures which layers can run in 8 bits, and in which types, by rounding tensors in torch: the cosine to fp32 of each
choice.

    python3 bench/eight_bit_accuracy.py MODEL... [--photos examples/photos] [--choices WORD] [--json FILE]

Every choice runs transformers' model in bf16 and rounds the inputs and weights of the layers that it names. This shows
which choice is accurate enough before a kernel for it exists; the accuracy of the engine itself is measured by
tests/model/test_parity.py. Weights have a scale per row and are rounded to nearest, or compensated: each column
compensates for the errors of the columns before it (GPTQ, arXiv:2210.17323). Compensation and tests use different crops
of the photos.

MXFP8 (OCP Microscaling Formats v1.0) is e4m3 with a power-of-two scale per 32 elements of a row, for weights and
inputs, and needs no calibration. "mxfp8" takes the smallest scale with which no element of the block saturates
(arXiv:2506.08027); "mxfp8 floor" takes that of the specification's example, with which the largest element may
saturate."""

import pathlib

import machine
import measuring
import numpy
import PIL.Image
import torch
from programs import log
from transformers import SiglipVisionModel

ROOT = pathlib.Path(__file__).resolve().parent.parent
LARGEST = {"e4m3": 448.0, "int8": 127.0}
MX_BLOCK = 32
CALIBRATION_PIECES, TEST_PIECES = 32, 36
DAMPING = 0.01
BLOCK = 128
GELU_OFFSET = 96  # zero point of GELU's outputs in int8, which leaves most codes to positive values


def place(weights=None, inputs=None, compensated=False, balanced=False):
    """Describes how one layer is quantized.

    weights: e4m3, int8 or mxfp8. inputs: mxfp8, or e4m3 or int8 with one static scale, with a scale per row (`row`), or
    with a zero point (`gelu`). balanced: columns are scaled so that inputs and weights have the same range
    (SmoothQuant, arXiv:2211.10438)."""
    return {"weights": weights, "inputs": inputs, "compensated": compensated, "balanced": balanced}


BF16 = place()


def same_for_products(*arguments, **but):
    """Returns the same choice for all four products of a layer, except for those given in `but`."""
    return dict.fromkeys(("qkv", "out", "fc1", "fc2"), place(*arguments)) | but


NORMED = ("int8", "int8 row", True)  # inputs come from a norm, which computes the maximum of each row
STATIC, LESS_96 = place("int8", "int8", True), place("int8", "int8 gelu", True)
CHOICES = {
    "bf16": {},
    "weights e4m3": same_for_products("e4m3"),
    "weights e4m3 compensated": same_for_products("e4m3", None, True),
    "weights int8": same_for_products("int8"),
    "weights int8 compensated": same_for_products("int8", None, True),
    "inputs e4m3": same_for_products(None, "e4m3"),
    "inputs int8 row": same_for_products(None, "int8 row"),
    "e4m3": same_for_products("e4m3", "e4m3"),
    "e4m3 compensated": same_for_products("e4m3", "e4m3", True),
    "e4m3 compensated, out bf16": same_for_products("e4m3", "e4m3", True, out=BF16),
    "int8 row": same_for_products("int8", "int8 row"),
    "int8 row compensated, fc2 and out static": same_for_products(*NORMED, out=STATIC, fc2=STATIC),
    "int8 row, fc2 static, out bf16": same_for_products("int8", "int8 row", out=BF16, fc2=place("int8", "int8")),
    "int8 row compensated, fc2 static, out bf16": same_for_products(*NORMED, out=BF16, fc2=STATIC),
    "int8 row compensated, fc2 less 96, out bf16": same_for_products(*NORMED, out=BF16, fc2=LESS_96),
    "int8 row balanced, fc2 less 96, out bf16": same_for_products(*NORMED, True, out=BF16, fc2=LESS_96),
    "int8 row balanced, fc2 e4m3, out bf16": same_for_products(
        *NORMED, True, out=BF16, fc2=place("e4m3", "e4m3", True)
    ),
    "mxfp8": same_for_products("mxfp8", "mxfp8"),
    "mxfp8 floor": same_for_products("mxfp8 floor", "mxfp8 floor"),
    "mxfp8, out bf16": same_for_products("mxfp8", "mxfp8", out=BF16),
    "mxfp8, out bf16, patch bf16": same_for_products("mxfp8", "mxfp8", out=BF16, patch=BF16),
    "mxfp8, out bf16, patch u8 x int8": same_for_products("mxfp8", "mxfp8", out=BF16, patch=place("int8")),
    "mxfp8, out bf16, patch mxfp8": same_for_products("mxfp8", "mxfp8", out=BF16, patch=place("mxfp8", "mxfp8")),
}


def rounded(x, numbers, scale):
    scaled = (x / scale).clamp(-LARGEST[numbers], LARGEST[numbers])
    return (scaled.to(torch.float8_e4m3fn).float() if numbers == "e4m3" else scaled.round()) * scale


def rounded_to_mxfp8(x, format_name):
    """Rounds to MXFP8 along the last dimension; the last block may be shorter."""
    count = x.shape[-1]
    blocks = torch.nn.functional.pad(x, (0, -count % MX_BLOCK)).unflatten(-1, (-1, MX_BLOCK))
    mantissa, exponent = torch.frexp(blocks.abs().amax(-1, keepdim=True))  # the mantissa lies in [1/2, 1)
    power = exponent - 9 if format_name.endswith("floor") else exponent - 9 + (mantissa > LARGEST["e4m3"] / 512).int()
    scale = torch.exp2(power.clamp(-127, 127).float())
    return rounded(blocks, "e4m3", scale).flatten(-2)[..., :count]


def compensate(weight, numbers, scale, covariance):
    """Rounds column by column, in order of decreasing variance of their inputs."""
    count = len(covariance)
    damped = covariance.double()
    damped = damped + torch.eye(count, device=damped.device) * damped.diagonal().mean() * DAMPING
    order = damped.diagonal().argsort(descending=True)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped[order][:, order]))
    upper = torch.linalg.cholesky(inverse, upper=True).float()
    remaining, result = weight[:, order].clone(), torch.empty_like(weight)
    for first in range(0, count, BLOCK):
        last = min(first + BLOCK, count)
        errors = torch.zeros(len(weight), last - first, device=weight.device)
        for i in range(first, last):
            column = rounded(remaining[:, i : i + 1], numbers, scale)
            result[:, i : i + 1] = column
            error = (remaining[:, i : i + 1] - column) / upper[i, i]
            errors[:, i - first : i - first + 1] = error
            remaining[:, i + 1 : last] -= error @ upper[i : i + 1, i + 1 : last]
        remaining[:, last:] -= errors @ upper[first:last, last:]
    back = torch.empty_like(order)
    back[order] = torch.arange(count, device=order.device)
    return result[:, back]


class Linear(torch.nn.Module):
    """A linear layer that first records its inputs, and is then quantized as its description says."""

    def __init__(self, linear, quantization):
        super().__init__()
        self.how, self.weight, self.bias = quantization, linear.weight.float(), linear.bias.float()
        self.seen, self.peak, self.divisor = [], 0.0, None

    def settle(self, together):
        """Quantizes the layer. `together`: the weights of all layers that read the same inputs."""
        inputs = torch.cat(self.seen)
        self.seen, self.peak = None, inputs.abs().max().item()
        exact, numbers = self.weight, self.how["weights"]
        if self.how["balanced"]:
            self.divisor = (inputs.abs().amax(0) / together.abs().amax(0)).sqrt()
            inputs, exact = inputs / self.divisor, exact * self.divisor
        if numbers is None:
            self.weight = exact.bfloat16().float()
            return
        if numbers.startswith("mxfp8"):
            self.weight = rounded_to_mxfp8(exact, numbers)
            return
        scale = exact.abs().amax(1, keepdim=True) / LARGEST[numbers]
        mean = inputs.mean(0)
        if self.how["compensated"]:
            spread = inputs - mean
            self.weight = compensate(exact, numbers, scale, spread.T @ spread / len(inputs))
            self.bias = self.bias + (exact - self.weight) @ mean
        else:
            self.weight = rounded(exact, numbers, scale)

    def forward(self, x):
        x = x.float()
        if self.seen is not None:
            self.seen.append(x.reshape(-1, x.shape[-1]))
        inputs = self.how["inputs"]
        if self.seen is not None or inputs is None:
            x = x.bfloat16().float()
        elif inputs.startswith("mxfp8"):
            x = rounded_to_mxfp8(x, inputs)
        else:
            numbers, scaling = (inputs.split() + [""])[:2]
            offset = GELU_OFFSET if scaling == "gelu" else 0
            x = x / self.divisor if self.divisor is not None else x
            peak = x.abs().amax(-1, keepdim=True) if scaling == "row" else 1.1 * self.peak
            scale = peak / (LARGEST[numbers] + offset)
            x = rounded(x - offset * scale, numbers, scale) + offset * scale
        return (x @ self.weight.T + self.bias).bfloat16()


class Patches(Linear):
    """The patch embedding. Pixels are exact in 8 bits, and in bf16 less 127.5, so they are rounded only where the
    description says so."""

    def __init__(self, convolution, quantization):
        super().__init__(convolution, quantization)
        self.side = convolution.kernel_size[0]
        self.weight = self.weight.permute(0, 2, 3, 1).flatten(1)  # channels become the innermost dimension

    def forward(self, pixels):
        rows, columns = (size // self.side for size in pixels.shape[2:])
        patches = torch.nn.functional.unfold(pixels.float(), self.side, stride=self.side).transpose(1, 2)
        patches = patches.unflatten(-1, (3, -1)).transpose(-1, -2).flatten(2)
        if self.seen is not None:
            self.seen.append(patches.flatten(0, 1))
        elif self.how["inputs"] is not None:
            patches = rounded_to_mxfp8(patches, self.how["inputs"])
        return (patches @ self.weight.T + self.bias).bfloat16().transpose(1, 2).unflatten(2, (rows, columns))


def quantized_model(path, choice, pixels, device):
    model = SiglipVisionModel.from_pretrained(path, dtype=torch.bfloat16).eval().to(device)
    linears, together = [], []
    for layer in getattr(model, "vision_model", model).encoder.layers:  # older versions of transformers nest the tower
        attention, mlp = layer.self_attn, layer.mlp
        kinds = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "out_proj": "out", "fc1": "fc1", "fc2": "fc2"}
        for name, kind in kinds.items():
            owner = attention if hasattr(attention, name) else mlp
            linears.append(Linear(getattr(owner, name), choice.get(kind, place())))
            setattr(owner, name, linears[-1])
        qkv = torch.cat([linear.weight for linear in linears[-6:-3]])
        together += [qkv] * 3 + [linear.weight for linear in linears[-3:]]
    if "patch" in choice:
        embeddings = getattr(model, "vision_model", model).embeddings
        embeddings.patch_embedding = Patches(embeddings.patch_embedding, choice["patch"])
        linears.append(embeddings.patch_embedding)
        together.append(linears[-1].weight)
    model(pixels)
    for linear, weights in zip(linears, together, strict=True):
        linear.settle(weights)
    return model


def pieces(photos, count, seed):
    random, result = numpy.random.default_rng(seed), []
    for number in range(count):
        photo = photos[number % len(photos)]
        size = [int(side * random.uniform(0.4, 0.9)) for side in photo.size]
        corner = [int(random.integers(0, side - part + 1)) for side, part in zip(photo.size, size, strict=True)]
        result.append(photo.crop((*corner, corner[0] + size[0], corner[1] + size[1])))
    return result


def normalised_pixels(images, side):
    arrays = [
        numpy.asarray(i.resize((side, side), PIL.Image.BILINEAR), dtype=numpy.float32) / 127.5 - 1 for i in images
    ]
    return torch.from_numpy(numpy.stack(arrays)).permute(0, 3, 1, 2)


def study(path, options, device):
    reference = SiglipVisionModel.from_pretrained(path).eval().to(device)
    side = reference.config.image_size
    files = sorted(p for p in options.photos.iterdir() if p.suffix in (".jpg", ".png", ".webp"))
    photos = [PIL.Image.open(file).convert("RGB") for file in files]
    tested = normalised_pixels(photos + pieces(photos, TEST_PIECES, 1), side).to(device)
    calibration = normalised_pixels(pieces(photos, CALIBRATION_PIECES, 2), side).to(device)
    rows = []
    with torch.inference_mode():
        expected = reference(tested).pooler_output
        for name, choice in CHOICES.items():
            if options.choices not in name:
                continue
            model = quantized_model(path, choice, calibration, device)
            cosine = torch.nn.functional.cosine_similarity(model(tested).pooler_output.float(), expected)
            photo_cosines = cosine[: len(photos)]
            row = {"model": pathlib.Path(path).name, "choice": name}
            for kind, part in (("photos", photo_cosines), ("all", cosine)):
                row |= {f"{kind}_mean": part.mean().item(), f"{kind}_minimum": part.min().item()}
            rows.append(row)
            log(
                f"{row['model']:20} {name:44} photos: mean {photo_cosines.mean():.5f} minimum {photo_cosines.min():.5f}; "
                f"with pieces: {cosine.mean():.5f} {cosine.min():.5f}"
            )
    return rows


def main():
    parser = measuring.parser(__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--photos", type=pathlib.Path, default=ROOT / "examples" / "photos")
    parser.add_argument("--choices", default="", help="only choices whose name contains this")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = [row for path in options.models for row in study(path, options, device)]
    where = machine.describe(options.fovea, "cuda")
    if options.json:
        machine.write_result({"machine": where, "eight_bit_choices": rows}, options.json)


if __name__ == "__main__":
    main()
