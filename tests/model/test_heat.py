"""Heat maps against the same computation in torch: the pooling head over each patch alone, and the text's embedding."""

import json

import feature_reference as reference
import numpy
import pytest
import torch
from PIL import Image
from transformers import Siglip2Model, Siglip2Tokenizer, SiglipModel
from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil

LIMIT = 1e-5  # of a cosine


class Case:
    def __init__(self, folder, run_fovea, preset, seed, layers, side):
        self.folder, self.run_fovea, self.side = folder, run_fovea, side
        self.model = folder / "model"
        run_fovea("init", "--preset", preset, "--seed", str(seed), "--layers", str(layers), "-o", self.model)
        self.torch = SiglipModel.from_pretrained(self.model, attn_implementation="eager").eval()
        self.tokenizer = Siglip2Tokenizer.from_pretrained(self.model)
        self.photo = folder / "photo.png"
        pixels = reference.pixels_of(seed, 1, side)[0]
        Image.fromarray(pixels).save(self.photo)  # of the model's size, so that nothing is resized
        self.values = reference.values_of(pixels[None])

    @torch.inference_mode()
    def expected(self, text, mistake=""):
        vision = self.torch.vision_model
        out = vision(self.values, output_hidden_states=True)
        tokens = out.hidden_states[-1] if mistake == "without the norm" else out.last_hidden_state
        patches = tokens[0] if mistake == "without the head" else vision.head(tokens[0][:, None, :])
        ids = self.tokenizer(" ".join(text.split()), add_special_tokens=False)["input_ids"][:63] + [1]
        ids = torch.tensor([ids + [0] * (64 - len(ids))])
        words = self.torch.text_model(input_ids=ids).pooler_output
        cosines = torch.nn.functional.cosine_similarity(patches.reshape(-1, patches.shape[-1]), words)
        side = round(len(cosines) ** 0.5)
        grid = cosines.reshape(side, side).numpy()
        return grid.T if mistake == "the grid turned" else grid

    def heat(self, text, *options, photo=None, code=0):
        return self.run_fovea(
            *("heat", text, photo or self.photo, "-m", self.model, "--device", "cpu", "--precision", "fp32"),
            *options,
            code=code,
        )

    def values_of(self, text, photo=None):
        told = json.loads(self.heat(text, "--json", photo=photo).stdout)
        grid = numpy.array(told["values"])
        assert grid.shape == (told["rows"], told["columns"])
        return grid


@pytest.fixture(scope="module", params=[("tiny", 1, 0, 64), ("tiny", 2, 0, 64), ("base-patch16-224", 3, 2, 224)])
def case(request, run_fovea, tmp_path_factory):
    return Case(tmp_path_factory.mktemp("heat"), run_fovea, *request.param)


@pytest.fixture(scope="module")
def tiny(run_fovea, tmp_path_factory):
    return Case(tmp_path_factory.mktemp("heat"), run_fovea, "tiny", 1, 0, 64)


@pytest.mark.parametrize("text", ["a red Bicycle", ""])
def test_values_are_those_of_torch_and_mistakes_are_not(case, text):
    got = case.values_of(text)
    assert numpy.abs(got - case.expected(text)).max() <= LIMIT
    for mistake in ("without the head", "without the norm", "the grid turned"):
        assert not numpy.abs(got - case.expected(text, mistake)).max() <= LIMIT, mistake
    assert not numpy.abs(got - case.expected("another text")).max() <= LIMIT


def brightness(picture, row, column, rows, columns):
    """Of the middle of a patch."""
    width, height = picture.size
    return sum(picture.getpixel((int((column + 0.5) * width / columns), int((row + 0.5) * height / rows))))


def test_the_picture_is_brightest_where_the_words_are(tiny, tmp_path):
    """A grey photo of other proportions: only the colours differ."""
    photo, out = tmp_path / "grey.png", tmp_path / "heat.png"
    Image.new("RGB", (96, 40), (90, 90, 90)).save(photo)
    noisy = tmp_path / "noisy.png"
    Image.fromarray(reference.pixels_of(5, 1, 80)[0]).resize((150, 70)).convert("L").save(noisy)
    tiny.heat("a dog", "-o", out, photo=photo)
    assert Image.open(out).size == (96, 40)
    tiny.heat("a dog", "-o", out, photo=noisy)
    picture, grid = Image.open(out), tiny.values_of("a dog", photo=noisy)
    assert picture.size == (150, 70)
    assert picture.mode == "RGB"
    hot, cold = (numpy.unravel_index(at, grid.shape) for at in (grid.argmax(), grid.argmin()))
    assert brightness(picture, *hot, *grid.shape) > brightness(picture, *cold, *grid.shape) + 150


def test_the_picture_is_upright(tiny, tmp_path):
    """Turned by its EXIF data, as decoding does."""
    photo, out = tmp_path / "turned.jpg", tmp_path / "heat.png"
    image = Image.fromarray(reference.pixels_of(6, 1, 64)[0]).resize((60, 30))
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter to the right
    image.save(photo, exif=exif)
    tiny.heat("a dog", "-o", out, photo=photo)
    assert Image.open(out).size == (30, 60)


def test_refusals(tiny, tmp_path):
    out = tmp_path / "heat.png"
    assert "a picture to write" in tiny.heat("a dog", code=2).stderr
    said = tiny.run_fovea("heat", "a dog", "-m", tiny.model, "-o", out, code=2).stderr
    assert "a text and one photo" in said
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"\xff\xd8\xff")
    assert "broken.jpg" in tiny.heat("a dog", "-o", out, photo=broken, code=1).stderr
    headless = reference.without_head(tiny.model, tmp_path / "headless")
    said = tiny.run_fovea("heat", "a dog", tiny.photo, "-m", headless, "-o", out, code=1).stderr
    assert "no pooling head" in said
    assert not out.exists()


def test_naflex_maps_have_the_proportions_of_the_photo(run_fovea, tmp_path):
    """The heat of its patches against transformers' head over each of them."""
    model, photo = tmp_path / "naflex", tmp_path / "wide.png"
    run_fovea("init", "--preset", "tiny-naflex", "--seed", "3", "-o", model)
    Image.fromarray(reference.pixels_of(7, 1, 200)[0][:100]).save(photo)
    command = ("heat", "a dog", photo, "-m", model, "--device", "cpu", "--precision", "fp32", "--json")
    told = json.loads(run_fovea(*command).stdout)
    grid = numpy.array(told["values"])
    assert grid.shape == (told["rows"], told["columns"])
    assert told["columns"] > 1.5 * told["rows"]
    whole = Siglip2Model.from_pretrained(model, attn_implementation="eager").eval()
    values = Siglip2ImageProcessorPil.from_pretrained(model)([Image.open(photo)], return_tensors="pt")
    ids = Siglip2Tokenizer.from_pretrained(model)("a dog", add_special_tokens=False)["input_ids"] + [1]
    with torch.inference_mode():
        tokens = whole.vision_model(**values).last_hidden_state[0, : grid.size]
        patches = whole.vision_model.head(tokens[:, None, :], torch.ones(grid.size, 1))
        words = whole.text_model(input_ids=torch.tensor([ids + [0] * (64 - len(ids))])).pooler_output
        expected = torch.nn.functional.cosine_similarity(patches, words).reshape(grid.shape)
    assert tuple(values["spatial_shapes"][0]) == grid.shape
    assert numpy.abs(grid - expected.numpy()).max() <= LIMIT


def test_a_page_with_heat(tiny, tmp_path):
    """Each text has its own over the same photo."""
    photos, out = tmp_path / "photos", tmp_path / "out"
    photos.mkdir()
    for seed in range(3):
        Image.fromarray(reference.pixels_of(seed, 1, 64)[0]).save(photos / f"{seed}.png")
    tiny.run_fovea("embed", photos, "-m", tiny.model, "-o", out, "--device", "cpu", "--quiet")
    pages = {}
    for name, options in (("plain", []), ("heat", ["--heat"])):
        page = tmp_path / f"{name}.html"
        tiny.run_fovea("search", "a dog", "snow", "--in", out, "--html", page, *options)
        pages[name] = page.read_text()
    pictures = {name: [p.split('"')[0] for p in text.split('<img src="')[1:]] for name, text in pages.items()}
    assert len(pictures["plain"]) == len(pictures["heat"]) == 6
    assert len(set(pictures["plain"])) == 3  # the same photos in both sections
    assert len(set(pictures["heat"])) == 6
    assert not set(pictures["plain"]) & set(pictures["heat"])
    said = tiny.run_fovea("search", "a dog", "--in", out, "--heat", code=2).stderr
    assert "--html" in said
