"""Embeddings against transformers' SiglipVisionModel on torch, run live on the same pixels.

Each comparison is made again with the reference altered in one place; it must then fail, or the
comparison would not notice the same mistake in Fovea."""

import os
import pathlib
import shutil
import subprocess

import numpy
import pytest
import torch
from transformers import SiglipVisionModel

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = pathlib.Path(os.environ.get("FOVEA_ENCODE_TOOL", ROOT / "build/release/tests/encode_tool"))
FLAGS = pathlib.Path("/proc/cpuinfo").read_text() if os.environ.get("FOVEA_CPU_ISA") not in ("avx2", "avx512") else ""
HAS_BF16 = any(flag in FLAGS for flag in ("avx512_bf16", "amx_bf16"))

FP32_LIMIT = 2e-5  # of the embedding's norm
BF16_COSINE = 0.9995

# preset, layers (0: all), images. Head dimensions 64, 72 and 96; patches 14, 16 and 32; an image
# (384) that is no multiple of its patch (14); several slices of the batch.
MODELS = [
    ("base-patch16-224", 0, 3),
    ("tiny", 0, 21),
    ("base-patch32-256", 2, 9),
    ("large-patch16-256", 2, 2),
    ("so400m-patch14-224", 2, 3),
    ("so400m-patch14-384", 1, 2),
    ("giant-opt-patch16-256", 2, 2),
]


class Case:
    """A random checkpoint, transformers' model of it, pixels, and the true embeddings."""

    def __init__(self, folder, run_fovea, preset, layers, images):
        self.folder = folder / preset
        arguments = ["--layers", layers] if layers else []
        run_fovea("init", "--preset", preset, "--seed", "7", *map(str, arguments), "-o", self.folder)
        self.model = SiglipVisionModel.from_pretrained(self.folder, attn_implementation="eager").eval()
        side = self.model.config.image_size
        random = numpy.random.default_rng(images)
        # Contrasts differ from image to image, rows from columns and channels from each other.
        noise = random.integers(0, 256, (images, side, side, 3)).astype(float)
        slope = numpy.linspace(0, 1, side)
        shade = slope[None, :, None, None] * [200, 90, 20] + slope[None, None, :, None] * [10, 60, 230]
        mix = numpy.linspace(0.2, 0.9, images)[:, None, None, None]
        self.pixels = (mix * noise + (1 - mix) * shade).clip(0, 255).astype(numpy.uint8)
        numpy.save(folder / f"{preset}.npy", self.pixels)
        self.pixels_file = folder / f"{preset}.npy"
        self.expected = self.reference()

    def reference(self):
        values = (torch.from_numpy(self.pixels).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5
        with torch.inference_mode():
            return self.model(values.contiguous()).pooler_output.numpy()

    def embed(self, precision, env=None, threads=0, device="cpu"):
        out = self.pixels_file.with_suffix(f".{precision}.out")
        command = [TOOL, self.folder, self.pixels_file, precision, out, str(threads), device]
        result = subprocess.run(
            command, env=os.environ | (env or {}), capture_output=True, text=True, timeout=600, check=False
        )
        assert result.returncode == 0, result.stderr
        return numpy.load(out), result.stderr


@pytest.fixture(scope="module")
def cases(tmp_path_factory, run_fovea):
    folder = tmp_path_factory.mktemp("parity")
    made = {}

    def get(preset):
        if preset not in made:
            for large in [name for name in made if name != "tiny"]:
                shutil.rmtree(made.pop(large).folder)  # one at a time: they take memory and disk
            made[preset] = Case(folder, run_fovea, *next(m for m in MODELS if m[0] == preset))
        return made[preset]

    return get


def difference(embeddings, expected):
    """The largest difference, as a share of the embedding's norm."""
    assert embeddings.shape == expected.shape
    return (numpy.abs(embeddings - expected).max(1) / numpy.linalg.norm(expected, axis=1)).max()


def cosine(embeddings, expected):
    norms = numpy.linalg.norm(embeddings, axis=1) * numpy.linalg.norm(expected, axis=1)
    return ((embeddings.astype(float) * expected).sum(1) / norms).min()


def fp32_agrees(embeddings, expected):
    return bool(difference(embeddings, expected) <= FP32_LIMIT)


def bf16_agrees(embeddings, expected):
    return bool(cosine(embeddings, expected) >= BF16_COSINE)


@pytest.mark.parametrize("preset", [m[0] for m in MODELS])
def test_embeddings_agree(cases, preset):
    case = cases(preset)
    embeddings, _ = case.embed("fp32")
    assert difference(embeddings, case.expected) <= FP32_LIMIT
    if HAS_BF16:
        embeddings, said = case.embed("bf16")
        assert "bf16" in said
        assert cosine(embeddings, case.expected) >= BF16_COSINE


@pytest.mark.parametrize("preset", [m[0] for m in MODELS])
def test_gpu_embeddings_agree(cases, preset, gpu):
    embeddings, said = cases(preset).embed("bf16", device="cuda")
    assert gpu in said
    assert cosine(embeddings, cases(preset).expected) >= BF16_COSINE


def test_gpu_embeds_alike_in_every_batch(cases, gpu):
    """Slices of one image, and graphs captured for them, against all images at once."""
    case = cases("tiny")
    together, said = case.embed("bf16", device="cuda")
    alone, _ = case.embed("bf16", device="cuda", env={"FOVEA_GPU_SLICE": "1"})
    assert gpu in said
    assert cosine(alone, together) >= 0.99999


def test_portable_path_agrees(cases):
    embeddings, said = cases("tiny").embed("fp32", env={"FOVEA_CPU_ISA": "avx2"})
    assert "avx2" in said
    assert difference(embeddings, cases("tiny").expected) <= FP32_LIMIT


def test_float64_operators_agree(cases):
    embeddings, _ = cases("tiny").embed("reference")
    assert difference(embeddings, cases("tiny").expected) <= FP32_LIMIT


def test_every_number_of_threads_gives_the_same_bytes(cases):
    """A batch is cut otherwise for every number of threads; resumed jobs rely on equal rows."""
    first, _ = cases("tiny").embed("fp32", threads=1)
    for threads in (2, 3, 4, 7):
        again, _ = cases("tiny").embed("fp32", threads=threads)
        assert again.tobytes() == first.tobytes()


def drop_pooling_residual(model):
    head = model.vision_model.head if hasattr(model, "vision_model") else model.head

    def forward(hidden_state, *_, **__):
        probe = head.probe.repeat(hidden_state.shape[0], 1, 1)
        attended = head.attention(probe, hidden_state, hidden_state)[0]
        return head.mlp(head.layernorm(attended))[:, 0]

    head.forward = forward


def add_probe(model):
    head = model.vision_model.head if hasattr(model, "vision_model") else model.head

    def forward(hidden_state, *_, **__):
        probe = head.probe.repeat(hidden_state.shape[0], 1, 1)
        attended = probe + head.attention(probe, hidden_state, hidden_state)[0]
        return (attended + head.mlp(head.layernorm(attended)))[:, 0]

    head.forward = forward


def erf_gelu(model):
    changed = 0
    for module in model.modules():
        if hasattr(module, "activation_fn"):
            module.activation_fn = torch.nn.GELU(approximate="none")
            changed += 1
    assert changed > 1


def larger_epsilon(model):
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            assert module.eps == 1e-6
            module.eps = 1e-5


def patch_weight(change):
    def mutate(model):
        weight = next(p for name, p in model.named_parameters() if name.endswith("patch_embedding.weight"))
        with torch.no_grad():
            weight.copy_(change(weight.clone()))

    return mutate


def shift_positions(model):
    table = next(p for name, p in model.named_parameters() if name.endswith("position_embedding.weight"))
    with torch.no_grad():
        table.copy_(table.roll(1, 0).clone())


MUTANTS = {
    "pooling residual dropped": drop_pooling_residual,
    "probe added": add_probe,
    "GELU with erf": erf_gelu,
    "LayerNorm epsilon 1e-5": larger_epsilon,
    "patches transposed": patch_weight(lambda w: w.transpose(2, 3)),
    "patches in (channel, row, column) order": patch_weight(
        lambda w: w.permute(0, 2, 3, 1).reshape(w.shape[0], 3, w.shape[2], w.shape[3])
    ),
    "positions shifted by one": shift_positions,
}
# Smaller than what bfloat16 rounds away: only fp32 can tell.
BELOW_BF16 = {"GELU with erf", "LayerNorm epsilon 1e-5"}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_altered_reference_is_rejected(tmp_path, run_fovea, mutant):
    case = Case(tmp_path, run_fovea, "tiny", 0, 5)
    embeddings, _ = case.embed("fp32")
    assert fp32_agrees(embeddings, case.expected)
    MUTANTS[mutant](case.model)
    altered = case.reference()
    assert not fp32_agrees(embeddings, altered), difference(embeddings, altered)
    if HAS_BF16 and mutant not in BELOW_BF16:
        embeddings, _ = case.embed("bf16")
        assert not bf16_agrees(embeddings, altered), cosine(embeddings, altered)


def test_nan_is_rejected():
    expected = numpy.ones((2, 8), numpy.float32)
    broken = expected.copy()
    broken[1, 3] = numpy.nan
    assert not fp32_agrees(broken, expected)
    assert not bf16_agrees(broken, expected)


def test_bf16_is_refused_with_a_reason_where_the_cpu_lacks_it(cases):
    case = cases("tiny")
    command = [TOOL, case.folder, case.pixels_file, "bf16", case.pixels_file.with_suffix(".none")]
    refused = subprocess.run(
        command, env=os.environ | {"FOVEA_CPU_ISA": "avx2"}, capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == 1
    assert "bf16 needs a CPU with AMX or AVX512-BF16" in refused.stderr
    _, said = case.embed("auto", env={"FOVEA_CPU_ISA": "avx2"})
    assert "fp32" in said
