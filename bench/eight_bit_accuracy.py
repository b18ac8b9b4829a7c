"""Measures which layers may run in 8 bits, and in which types: cosines to fp32 per choice, by rounding tensors in
torch.

    python3 bench/eight_bit_accuracy.py MODEL... [--photos examples/photos] [--choices WORD] [--json FILE]

Every choice runs transformers' model in bf16 and rounds the inputs and weights of the places it names. It answers which
choice is accurate enough before a kernel for it exists; the accuracy of the engine itself is measured by
tests/model/test_parity.py. Weights have a scale per row and are rounded to the nearest, or compensated: a column
compensates for the errors of those before it (GPTQ, arXiv:2210.17323), on other pieces of the photos than are tested.

MXFP8 (OCP Microscaling Formats v1.0) is e4m3 with a power of two for each 32 numbers of a row, in weights and inputs:
nothing is calibrated. "mxfp8" takes the least power with which none of the 32 saturates (arXiv:2506.08027), "mxfp8
floor" the one of the specification's example, with which the largest may."""

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


GELU_OFFSET = 96  # of GELU's results as int8: most integers are for positive values


def place(weights=None, inputs=None, compensated=False, balanced=False):
    """weights: e4m3, int8, mxfp8; inputs: e4m3 or int8, with `row` scales or one static scale, `gelu` with an offset;
    or mxfp8; balanced: columns are scaled so that they reach as far among the inputs as among the weights
    (arXiv:2211.10438)."""
    return {"weights": weights, "inputs": inputs, "compensated": compensated, "balanced": balanced}


BF16 = place()


def same(*arguments, **but):
    """The same for the four products of a layer, `but` for those that are named."""
    return dict.fromkeys(("qkv", "out", "fc1", "fc2"), place(*arguments)) | but


NORMED = ("int8", "int8 row", True)  # inputs from a norm, which knows the largest number of each row
STATIC, LESS_96 = place("int8", "int8", True), place("int8", "int8 gelu", True)
CHOICES = {
    "bf16": {},
    "weights e4m3": same("e4m3"),
    "weights e4m3 compensated": same("e4m3", None, True),
    "weights int8": same("int8"),
    "weights int8 compensated": same("int8", None, True),
    "inputs e4m3": same(None, "e4m3"),
    "inputs int8 row": same(None, "int8 row"),
    "e4m3": same("e4m3", "e4m3"),
    "e4m3 compensated": same("e4m3", "e4m3", True),
    "e4m3 compensated, out bf16": same("e4m3", "e4m3", True, out=BF16),
    "int8 row": same("int8", "int8 row"),
    "int8 row compensated, fc2 and out static": same(*NORMED, out=STATIC, fc2=STATIC),
    "int8 row, fc2 static, out bf16": same("int8", "int8 row", out=BF16, fc2=place("int8", "int8")),
    "int8 row compensated, fc2 static, out bf16": same(*NORMED, out=BF16, fc2=STATIC),
    "int8 row compensated, fc2 less 96, out bf16": same(*NORMED, out=BF16, fc2=LESS_96),
    "int8 row balanced, fc2 less 96, out bf16": same(*NORMED, True, out=BF16, fc2=LESS_96),
    "int8 row balanced, fc2 e4m3, out bf16": same(*NORMED, True, out=BF16, fc2=place("e4m3", "e4m3", True)),
    "mxfp8": same("mxfp8", "mxfp8"),
    "mxfp8 floor": same("mxfp8 floor", "mxfp8 floor"),
    "mxfp8, out bf16": same("mxfp8", "mxfp8", out=BF16),
    "mxfp8, out bf16, patch bf16": same("mxfp8", "mxfp8", out=BF16, patch=BF16),
    "mxfp8, out bf16, patch u8 x int8": same("mxfp8", "mxfp8", out=BF16, patch=place("int8")),
    "mxfp8, out bf16, patch mxfp8": same("mxfp8", "mxfp8", out=BF16, patch=place("mxfp8", "mxfp8")),
}


def rounded(x, numbers, scale):
    scaled = (x / scale).clamp(-LARGEST[numbers], LARGEST[numbers])
    return (scaled.to(torch.float8_e4m3fn).float() if numbers == "e4m3" else scaled.round()) * scale


def in_blocks(x, how):
    """Rounded to MXFP8 along the last dimension; its last block may be shorter."""
    count = x.shape[-1]
    blocks = torch.nn.functional.pad(x, (0, -count % MX_BLOCK)).unflatten(-1, (-1, MX_BLOCK))
    mantissa, exponent = torch.frexp(blocks.abs().amax(-1, keepdim=True))  # the mantissa from 1/2 to 1
    power = exponent - 9 if how.endswith("floor") else exponent - 9 + (mantissa > LARGEST["e4m3"] / 512).int()
    scale = torch.exp2(power.clamp(-127, 127).float())
    return rounded(blocks, "e4m3", scale).flatten(-2)[..., :count]


def compensate(weight, numbers, scale, covariance):
    """Rounds column by column, the columns that matter most first."""
    count = len(covariance)
    damped = covariance.double()
    damped = damped + torch.eye(count, device=damped.device) * damped.diagonal().mean() * DAMPING
    order = damped.diagonal().argsort(descending=True)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped[order][:, order]))
    upper = torch.linalg.cholesky(inverse, upper=True).float()
    left, result = weight[:, order].clone(), torch.empty_like(weight)
    for first in range(0, count, BLOCK):
        last = min(first + BLOCK, count)
        errors = torch.zeros(len(weight), last - first, device=weight.device)
        for i in range(first, last):
            column = rounded(left[:, i : i + 1], numbers, scale)
            result[:, i : i + 1] = column
            error = (left[:, i : i + 1] - column) / upper[i, i]
            errors[:, i - first : i - first + 1] = error
            left[:, i + 1 : last] -= error @ upper[i : i + 1, i + 1 : last]
        left[:, last:] -= errors @ upper[first:last, last:]
    back = torch.empty_like(order)
    back[order] = torch.arange(count, device=order.device)
    return result[:, back]


class Linear(torch.nn.Module):
    """A linear layer that first watches its inputs, then runs as its place says."""

    def __init__(self, linear, how):
        super().__init__()
        self.how, self.weight, self.bias = how, linear.weight.float(), linear.bias.float()
        self.seen, self.peak, self.divisor = [], 0.0, None

    def settle(self, together):
        """`together`: the weights of all layers that read the same inputs."""
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
            self.weight = in_blocks(exact, numbers)
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
            x = in_blocks(x, inputs)
        else:
            numbers, how = (inputs.split() + [""])[:2]
            offset = GELU_OFFSET if how == "gelu" else 0
            x = x / self.divisor if self.divisor is not None else x
            peak = x.abs().amax(-1, keepdim=True) if how == "row" else 1.1 * self.peak
            scale = peak / (LARGEST[numbers] + offset)
            x = rounded(x - offset * scale, numbers, scale) + offset * scale
        return (x @ self.weight.T + self.bias).bfloat16()


class Patches(Linear):
    """The patch embedding: of pixels as they are, which 8 bits hold and bf16 less 127.5 too, unless its place rounds
    them."""

    def __init__(self, convolution, how):
        super().__init__(convolution, how)
        self.side = convolution.kernel_size[0]
        self.weight = self.weight.permute(0, 2, 3, 1).flatten(1)  # channels innermost

    def forward(self, pixels):
        rows, columns = (size // self.side for size in pixels.shape[2:])
        patches = torch.nn.functional.unfold(pixels.float(), self.side, stride=self.side).transpose(1, 2)
        patches = patches.unflatten(-1, (3, -1)).transpose(-1, -2).flatten(2)
        if self.seen is not None:
            self.seen.append(patches.flatten(0, 1))
        elif self.how["inputs"] is not None:
            patches = in_blocks(patches, self.how["inputs"])
        return (patches @ self.weight.T + self.bias).bfloat16().transpose(1, 2).unflatten(2, (rows, columns))


def with_choice(path, choice, pixels, device):
    model = SiglipVisionModel.from_pretrained(path, dtype=torch.bfloat16).eval().to(device)
    linears, together = [], []
    for layer in getattr(model, "vision_model", model).encoder.layers:  # some versions of transformers nest it
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


def pixels_of(images, side):
    arrays = [
        numpy.asarray(i.resize((side, side), PIL.Image.BILINEAR), dtype=numpy.float32) / 127.5 - 1 for i in images
    ]
    return torch.from_numpy(numpy.stack(arrays)).permute(0, 3, 1, 2)


def study(path, options, device):
    reference = SiglipVisionModel.from_pretrained(path).eval().to(device)
    side = reference.config.image_size
    files = sorted(p for p in options.photos.iterdir() if p.suffix in (".jpg", ".png", ".webp"))
    photos = [PIL.Image.open(file).convert("RGB") for file in files]
    tested = pixels_of(photos + pieces(photos, TEST_PIECES, 1), side).to(device)
    calibration = pixels_of(pieces(photos, CALIBRATION_PIECES, 2), side).to(device)
    rows = []
    with torch.inference_mode():
        expected = reference(tested).pooler_output
        for name, choice in CHOICES.items():
            if options.choices not in name:
                continue
            model = with_choice(path, choice, calibration, device)
            cosine = torch.nn.functional.cosine_similarity(model(tested).pooler_output.float(), expected)
            whole = cosine[: len(photos)]
            row = {"model": pathlib.Path(path).name, "choice": name}
            for kind, part in (("photos", whole), ("all", cosine)):
                row |= {f"{kind}_mean": part.mean().item(), f"{kind}_minimum": part.min().item()}
            rows.append(row)
            log(
                f"{row['model']:20} {name:44} photos: mean {whole.mean():.5f} minimum {whole.min():.5f}; "
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
        machine.hand_over({"machine": where, "eight_bit_choices": rows}, options.json)


if __name__ == "__main__":
    main()
