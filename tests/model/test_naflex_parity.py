"""Embeddings of NaFlex models against transformers' Siglip2VisionModel on torch, run live on photos of many
proportions, which transformers pads to the same length and masks.

Each comparison is made again with the reference altered in one place; it must then fail, or the
comparison would not notice the same mistake in Fovea."""

import copy
import functools
import json
import shutil

import numpy as np
import pytest
import test_int8_parity as int8
import torch
from PIL import Image
from test_parity import HAS_BF16, bf16_agrees, cosine, difference, fp32_agrees
from transformers import Siglip2Model, Siglip2VisionModel
from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil

SIZES = [
    (640, 480), (480, 640), (1, 1), (1600, 900), (900, 1600), (333, 777), (512, 512), (4000, 30), (30, 4000), (1000, 1500),
    (64, 64), (3, 2), (800, 200), (200, 800), (128, 128), (17, 5), (2400, 800), (150, 149), (640, 480), (99, 101), (1, 40),
]  # fmt: skip

# preset, layers (0: all), max_num_patches (0: as written, which is what the position table has), photos
MODELS = [
    ("tiny-naflex", 0, 0, 21),
    ("tiny-naflex", 2, 150, 21),
    ("base-patch16-naflex", 0, 0, 4),
    ("so400m-patch16-naflex", 2, 0, 6),
]


def photo(number: int) -> Image.Image:
    """Noise over a slope, so that rows, columns and channels differ, and each photo from the others."""
    width, height = SIZES[number]
    random = np.random.default_rng(number)
    noise = random.integers(0, 256, (height, width, 3)).astype(float)
    down, across = np.linspace(0, 1, height)[:, None, None], np.linspace(0, 1, width)[None, :, None]
    shade = down * [200, 90, 20] + across * [10, 60, 230]
    mix = 0.2 + 0.7 * random.random()
    return Image.fromarray((mix * noise + (1 - mix) * shade).clip(0, 255).astype(np.uint8))


class Case:
    """A random checkpoint, transformers' model and processor of it, photos, and the true embeddings."""

    def __init__(self, folder, run_fovea, preset, layers, most, photos):
        self.folder, self.photos, self.run_fovea = folder / "model", folder / "photos", run_fovea
        arguments = ["--layers", str(layers)] if layers else []
        run_fovea("init", "--preset", preset, "--seed", "7", *arguments, "-o", self.folder)
        if most:
            path = self.folder / "preprocessor_config.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | {"max_num_patches": most}))
        self.photos.mkdir()
        for number in range(photos):
            photo(number).save(self.photos / f"{number:02}.png", compress_level=1)
        self.model = Siglip2VisionModel.from_pretrained(self.folder, attn_implementation="eager").eval()
        self.processor = Siglip2ImageProcessorPil.from_pretrained(self.folder)
        self.inputs = self.processor([photo(number) for number in range(photos)], return_tensors="pt")
        self.expected = self.reference()

    def reference(self, **changed):
        with torch.inference_mode():
            return self.model(**(self.inputs | changed)).pooler_output.numpy()

    def embed(self, precision="fp32", source=None, **options):
        """Not scaled to length 1."""
        out = self.folder.parent / f"{precision}-{len(list(self.folder.parent.iterdir()))}.npy"
        options = {"device": "cpu"} | options
        given = [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]
        common = ("-m", self.folder, "--precision", precision, "--no-normalize", "--dtype", "f32")
        self.run_fovea("embed", source or self.photos, *common, *given, "-o", out)
        return np.load(out)

    @functools.cached_property
    def ours(self):
        return self.embed()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, run_fovea):
    return Case(tmp_path_factory.mktemp("naflex"), run_fovea, *MODELS[0])


@pytest.mark.parametrize("model", MODELS, ids=lambda model: "-".join(map(str, model)))
def test_embeddings_agree(tmp_path, run_fovea, model):
    case = Case(tmp_path, run_fovea, *model)
    lengths = case.inputs["spatial_shapes"].prod(1)
    assert len(set(lengths.tolist())) > 1 and int(lengths.max()) <= case.inputs["pixel_values"].shape[1]
    assert difference(case.embed(), case.expected) <= 2e-5
    if HAS_BF16:
        embeddings = case.embed("bf16")
        assert bf16_agrees(embeddings, case.expected), cosine(embeddings, case.expected)


def test_gpu_embeddings_agree(tiny, gpu):
    embeddings = tiny.embed("bf16", device="cuda")
    assert bf16_agrees(embeddings, tiny.expected), cosine(embeddings, tiny.expected)
    for batch in (1, 3, 7):
        assert (tiny.embed("bf16", device="cuda", batch_size=batch) == embeddings).all(), batch


def test_a_photo_has_the_same_bits_whatever_batch_it_came_in(tiny):
    together = tiny.ours
    for batch, threads in ((1, 1), (1, 3), (5, 2), (21, 3), (64, 1)):
        again = tiny.embed(batch_size=batch, threads=threads)
        assert again.tobytes() == together.tobytes(), (batch, threads)


def test_arrays_of_pixels_and_index(tiny, run_fovea, tmp_path):
    """Photos, and what preprocess makes of them, give the same rows; the index tells transformers' shapes."""
    pixels = tmp_path / "pixels.npy"
    run_fovea("preprocess", "-m", tiny.folder, tiny.photos, "-o", pixels)
    assert tiny.embed(source=pixels).tobytes() == tiny.ours.tobytes()
    run_fovea("embed", tiny.photos, "-m", tiny.folder, "--device", "cpu", "-o", tmp_path / "out")
    index = [json.loads(line) for line in (tmp_path / "out" / "index-00000.jsonl").read_text().splitlines()]
    assert [line["patches"] for line in index] == tiny.inputs["spatial_shapes"].tolist()
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["preprocessing"]["max_patches"] == 64
    # The same model with fewer patches is another job.
    other = tmp_path / "other"
    other.mkdir()
    for file in tiny.folder.iterdir():
        (other / file.name).symlink_to(file)
    config = json.loads((tiny.folder / "preprocessor_config.json").read_text())
    (other / "preprocessor_config.json").unlink()
    (other / "preprocessor_config.json").write_text(json.dumps(config | {"max_num_patches": 36}))
    refused = run_fovea("embed", tiny.photos, "-m", other, "--device", "cpu", "-o", tmp_path / "out", code=1).stderr
    assert "up to 64 patches of 16x16" in refused and "up to 36 patches" in refused


def test_an_updated_output_is_that_of_a_fresh_run(tiny, run_fovea, tmp_path):
    """Rows that stay, move to another name, go and come, each with the patches of its photo."""
    photos, out = tmp_path / "photos", tmp_path / "out"
    shutil.copytree(tiny.photos, photos)
    common = (photos, "-m", tiny.folder, "--device", "cpu")
    run_fovea("embed", *common, "-o", out)
    (photos / "03.png").rename(photos / "99.png")
    (photos / "05.png").unlink()
    photo(7).rotate(90, expand=True).save(photos / "50.png")
    photo(9).save(photos / "00.png")
    run_fovea("embed", *common, "-o", out, "--update")
    run_fovea("embed", *common, "-o", tmp_path / "fresh")

    def state(folder):
        lines = [json.loads(line) for line in (folder / "index-00000.jsonl").read_text().splitlines()]
        rows = np.load(folder / "embeddings-00000.npy")
        return {line["source"]: (line["patches"], rows[line["row"]].tobytes()) for line in lines}

    assert state(out) == state(tmp_path / "fresh") and len(state(out)) == 21


def test_the_whole_model_loads(tiny):
    """config.json is that of a Siglip2Model, whose vision tower is the one that was compared."""
    model = Siglip2Model.from_pretrained(tiny.folder, attn_implementation="eager").eval()
    with torch.inference_mode():
        features = model.get_image_features(**tiny.inputs).pooler_output.numpy()
    assert np.abs(features - tiny.expected).max() < 1e-6


def test_other_commands(tiny, run_fovea, tmp_path):
    info = json.loads(run_fovea("info", tiny.folder, "--json").stdout)
    assert info["usable"] and info["image_size"] is None and info["patches"] == 64
    assert info["preprocessing"]["max_patches"] == 64 and info["preprocessing"]["patch"] == 16
    assert info["parameters"] == sum(weight.numel() for weight in tiny.model.parameters())
    assert "at most 64 patches of 16 x 16, proportions kept" in run_fovea("info", tiny.folder).stdout
    few = sorted(tiny.photos.iterdir())[:6]
    assert "pixels" in run_fovea("verify", tiny.folder, *few, "--device", "cpu", code=None).stdout
    figures = run_fovea(
        "bench",
        tiny.folder,
        "--device",
        "cpu",
        "--precision",
        "fp32",
        "--batch-size",
        "8",
        "--seconds",
        "0.1",
        "--json",
    )
    assert json.loads(figures.stdout)["figures"][0]["images_per_second"] > 0
    run_fovea("embed", "--synthetic", "9", "-m", tiny.folder, "--device", "cpu", "-o", tmp_path / "synthetic.npy")
    assert len(np.unique(np.load(tmp_path / "synthetic.npy"), axis=0)) == 9


def test_int8(tmp_path, run_fovea, monkeypatch):
    """What the calibration says, as test_int8_parity.py has it for models of one size."""
    case = Case(tmp_path, run_fovea, *MODELS[0])
    refused = run_fovea(
        "embed",
        case.photos,
        "-m",
        case.folder,
        "--device",
        "cpu",
        "--precision",
        "int8",
        "-o",
        tmp_path / "x.npy",
        code=1,
    )
    if "AVX2" in refused.stderr:
        pytest.skip("the CPU has no int8")
    assert "fovea calibrate" in refused.stderr
    run_fovea("calibrate", case.folder, case.photos, "--precision", "int8", "--images", "21")
    embeddings = case.embed("int8")
    assert case.embed("int8", batch_size=4).tobytes() == embeddings.tobytes()
    assert np.median(int8.lost(embeddings, case.expected)) <= int8.MIDDLE_BF16

    monkeypatch.setenv("FOVEA_CPU_ISA", "avx2")
    embeddings = case.embed("int8")

    def agreement(mutate=None):
        model = copy.deepcopy(case.model).double()
        int8.round_model(model, case.folder, mutate)
        with torch.inference_mode():
            expected = model(**case.inputs | {"pixel_values": case.inputs["pixel_values"].double()}).pooler_output
        return int8.agrees([int8.lost(embeddings, expected.numpy())])

    assert agreement()
    assert [name for name, mutant in int8.MUTANTS.items() if agreement(mutant)] == []


def interpolated(**options):
    """transformers' position table, made by torch with these options.

    On its side: torch 2.13's result for a single column is not that of a single row, transposed, and wrong."""

    def resize(positions, shapes, max_length):
        grid = positions.permute(2, 1, 0)[None].float().contiguous()
        rows = torch.zeros(len(shapes), max_length, positions.shape[-1])
        for row, (height, width) in zip(rows, shapes.tolist()):
            if height > 1:
                made = torch.nn.functional.interpolate(grid, size=(width, height), **options).transpose(2, 3)
            else:
                made = torch.nn.functional.interpolate(grid.transpose(2, 3).contiguous(), size=(1, width), **options)
            row[: height * width] = made[0].flatten(1).t()
        return rows

    return resize


TRUE = {"mode": "bilinear", "align_corners": False, "antialias": True}


def positions(**options):
    def mutate(case, patch):
        patch.setattr(
            type(case.model.embeddings), "resize_positional_embeddings", staticmethod(interpolated(**options))
        )
        return {}

    return mutate


def channel_first(case, patch):
    values = case.inputs["pixel_values"]
    images, most, width = values.shape
    return {"pixel_values": values.view(images, most, width // 3, 3).transpose(2, 3).reshape(values.shape)}


def unmasked(case, patch):
    return {"pixel_attention_mask": torch.ones_like(case.inputs["pixel_attention_mask"])}


def unmasked_pooling(case, patch):
    head = case.model.head
    forward = head.forward
    patch.setattr(head, "forward", lambda hidden_state, attention_mask=None: forward(hidden_state))
    return {}


def swapped(case, patch):
    return {"spatial_shapes": case.inputs["spatial_shapes"].flip(1)}


def shifted(case, patch):
    return {"pixel_values": case.inputs["pixel_values"].roll(1, 1)}


MUTANTS = {
    "bicubic positions": positions(**(TRUE | {"mode": "bicubic"})),
    "positions without antialias": positions(**(TRUE | {"antialias": False})),
    "positions with aligned corners": positions(**(TRUE | {"align_corners": True})),
    "nearest positions": positions(mode="nearest"),
    "patches in (channel, row, column) order": channel_first,
    "padding not masked": unmasked,
    "padding not masked in the pooling head": unmasked_pooling,
    "height and width swapped": swapped,
    "patches shifted by one": shifted,
}


def test_torchs_interpolation_is_the_position_table(tiny, monkeypatch):
    """What the mutants below alter."""
    changed = positions(**TRUE)(tiny, monkeypatch)
    assert fp32_agrees(tiny.ours, tiny.reference(**changed))


@pytest.mark.parametrize("mutant", MUTANTS)
def test_altered_reference_is_rejected(tiny, monkeypatch, mutant):
    altered = tiny.reference(**MUTANTS[mutant](tiny, monkeypatch))
    assert fp32_agrees(tiny.ours, tiny.expected)
    assert not fp32_agrees(tiny.ours, altered), difference(tiny.ours, altered)
