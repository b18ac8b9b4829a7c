"""Features against transformers' SiglipVisionModel on torch, run live on the same pixels.

Each comparison is made again with the reference altered in one place; it must then fail."""

import pathlib

import feature_reference as reference
import numpy
import pytest

HAS_BF16 = any(f in pathlib.Path("/proc/cpuinfo").read_text() for f in ("avx512_bf16", "amx_bf16"))
FP32_LIMIT = 2e-5  # of a token's norm
BF16_COSINE = 0.9995
LAYERS = ("last", "penultimate", "pooled")

# preset, seed, layers (0: all), images. Widths 192, 768, 1152 and 1536; patches of 14 and 16; 384 pixels, which are no
# multiple of 14.
MODELS = [
    ("tiny", 1, 0, 21),
    ("tiny", 2, 0, 5),
    ("base-patch16-224", 3, 3, 3),
    ("so400m-patch14-384", 4, 2, 1),
    ("giant-opt-patch16-256", 5, 2, 1),
]
IDS = [f"{preset}-{seed}" for preset, seed, _, _ in MODELS]


class Case:
    """A random checkpoint, pixels, and transformers' features of them."""

    def __init__(self, folder, run_fovea, preset, seed, layers, images):
        self.folder, self.run_fovea = folder / "model", run_fovea
        run_fovea("init", "--preset", preset, "--seed", str(seed), "--layers", str(layers), "-o", self.folder)
        side = {"tiny": 64}.get(preset) or int(preset.rsplit("-", 1)[1])
        self.pixels = reference.pixels_of(seed, images, side)
        self.file = folder / "pixels.npy"
        numpy.save(self.file, self.pixels)
        self.expected = reference.Reference(self.folder, self.pixels)

    def features(self, layer, *options, precision="fp32", device="cpu"):
        out = self.file.with_name("out.npy")
        self.run_fovea(
            *("embed", self.file, "-m", self.folder, "--device", device, "--precision", precision),
            *("--features", layer, "--quiet", "-o", out, *options),
        )
        return numpy.load(out)


@pytest.fixture(scope="module", params=MODELS, ids=IDS)
def case(request, run_fovea, tmp_path_factory):
    return Case(tmp_path_factory.mktemp("features"), run_fovea, *request.param)


@pytest.fixture(scope="module")
def tiny(run_fovea, tmp_path_factory):
    return Case(tmp_path_factory.mktemp("tiny"), run_fovea, *MODELS[0])


@pytest.mark.parametrize("layer", LAYERS)
def test_fp32_agrees_and_mistakes_do_not(case, layer):
    got = case.features(layer, "--dtype", "f32")
    assert got.dtype == numpy.float32
    assert reference.difference(got, case.expected.features(layer)) <= FP32_LIMIT
    for mistake in reference.MISTAKES[layer]:
        assert not reference.difference(got, case.expected.features(layer, mistake)) <= FP32_LIMIT, mistake


@pytest.mark.parametrize("layer", LAYERS)
def test_f16_is_f32_rounded_once(case, layer):
    got = case.features(layer)
    assert got.dtype == numpy.float16
    assert numpy.array_equal(got, case.features(layer, "--dtype", "f32").astype(numpy.float16))


@pytest.mark.skipif(not HAS_BF16, reason="this CPU does not multiply bf16")
@pytest.mark.parametrize("layer", LAYERS)
def test_bf16_agrees_and_mistakes_do_not(case, layer):
    got = case.features(layer, precision="bf16").astype(float)
    assert reference.least_cosine(got, case.expected.features(layer)) >= BF16_COSINE
    for mistake in reference.MISTAKES[layer]:
        if mistake != "scaled to length 1":  # which a cosine does not see
            assert not reference.least_cosine(got, case.expected.features(layer, mistake)) >= BF16_COSINE, mistake


@pytest.mark.parametrize("layer", LAYERS)
def test_gpu_agrees_and_mistakes_do_not(case, layer, gpu):
    """Twice the error of torch's bf16 where that is more than the gate; f16 and f32 are told by the same numbers."""
    assert gpu
    want = case.expected.features(layer)
    wide = case.features(layer, "--dtype", "f32", precision="bf16", device="cuda")
    half = case.features(layer, precision="bf16", device="cuda")
    assert numpy.array_equal(half, wide.astype(numpy.float16))
    least = reference.least_cosine(wide.astype(float), want)
    if least < BF16_COSINE:
        torch_bf16 = reference.Reference(case.folder, case.pixels, reference.torch.bfloat16)
        assert 1 - least <= 2 * (1 - reference.least_cosine(torch_bf16.features(layer), want))
    for mistake in reference.MISTAKES[layer]:
        if mistake != "scaled to length 1":
            assert not reference.least_cosine(wide.astype(float), case.expected.features(layer, mistake)) >= least


@pytest.mark.parametrize("layer", LAYERS)
def test_an_image_has_the_same_bits_in_any_company(tiny, layer, tmp_path):
    together = tiny.features(layer)
    alone = tmp_path / "one.npy"
    numpy.save(alone, tiny.pixels[7:8])
    out = tmp_path / "out.npy"
    tiny.run_fovea(
        *("embed", alone, "-m", tiny.folder, "--device", "cpu", "--precision", "fp32"),
        *("--features", layer, "--quiet", "-o", out),
    )
    assert numpy.array_equal(numpy.load(out), together[7:8])
    assert numpy.array_equal(tiny.features(layer, "--batch-size", "4", "--threads", "2"), together)


@pytest.fixture(scope="module")
def headless(tiny, tmp_path_factory):
    """The tiny model's vision tower without its pooling head."""
    return reference.without_head(tiny.folder, tmp_path_factory.mktemp("headless") / "model")


@pytest.mark.parametrize("layer", ["last", "penultimate"])
def test_features_without_a_head_are_those_of_transformers(tiny, headless, layer, tmp_path):
    expected = reference.Reference(headless, tiny.pixels)
    assert expected.out.pooler_output is None
    out = tmp_path / "out.npy"
    tiny.run_fovea(
        *("embed", tiny.file, "-m", headless, "--device", "cpu", "--precision", "fp32"),
        *("--features", layer, "--dtype", "f32", "--quiet", "-o", out),
    )
    got = numpy.load(out)
    assert reference.difference(got, expected.features(layer)) <= FP32_LIMIT
    assert numpy.array_equal(got, tiny.features(layer, "--dtype", "f32"))


@pytest.mark.parametrize("options", [[], ["--features", "pooled"]])
def test_without_a_head_embeddings_are_refused(tiny, headless, options, tmp_path):
    command = ("embed", tiny.file, "-m", headless, "--device", "cpu", "-o", tmp_path / "out", *options)
    said = tiny.run_fovea(*command, code=1).stderr
    assert "no pooling head" in said
    assert "--features last" in said
    assert not (tmp_path / "out").exists()


def test_what_f16_does_not_hold_is_told(tiny, tmp_path):
    """A photo with larger numbers fails, and the others are as without it."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "large"
    folder.mkdir()
    for file in tiny.folder.iterdir():
        if file.name != "model.safetensors":
            (folder / file.name).write_bytes(file.read_bytes())
    tensors = load_file(tiny.folder / "model.safetensors")
    name = next(n for n in tensors if n.endswith("patch_embedding.bias"))
    tensors[name][0] = 70000.0
    save_file(tensors, folder / "model.safetensors")
    command = ("embed", tiny.file, "-m", folder, "--device", "cpu", "--precision", "fp32", "--features", "penultimate")
    said = tiny.run_fovea(*command, "-o", tmp_path / "f16", code=3).stderr
    assert "not finite as f16; try --dtype f32" in said
    assert numpy.load(tmp_path / "f16" / "embeddings-00000.npy").shape[0] == 0
    tiny.run_fovea(*command, "--dtype", "f32", "-o", tmp_path / "f32")
    rows = numpy.load(tmp_path / "f32" / "embeddings-00000.npy")
    assert rows.shape[0] == len(tiny.pixels)
    assert rows[..., 0].max() > 65504
