"""Embeddings of texts, and labels, against transformers' SiglipModel and its zero-shot pipeline, live."""

import pathlib
import random
import re
import sys

import fovea
import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests/text"))
from text_cases import collapse, texts

FP32_LIMIT = 2e-5  # of the embedding's norm
LOGIT_LIMIT = 1e-4
#: The last one differs from run to run; a failure shows the text.
SEEDS = [1, random.SystemRandom().randrange(1 << 32)]
LABELS = [
    ["cat", "dog"],
    ["a Red bicycle", "СОБАКА", "brick wall", "猫", "a rocket on its way to space"],
    [f"thing number {number}" for number in range(40)],
]


class Reference:
    """transformers' model and tokenizer of a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.model = transformers.SiglipModel.from_pretrained(folder).eval()
        self.tokenizer = transformers.Siglip2Tokenizer.from_pretrained(folder)
        self.pixels = transformers.AutoImageProcessor.from_pretrained(folder, use_fast=False)
        self.length = self.model.config.text_config.max_position_embeddings

    def ids(self, given, padding="max_length", lower=True, first=()):
        tokenizer = self.tokenizer
        if not lower:
            tokenizer = transformers.GemmaTokenizer.from_pretrained(self.folder)
            tokenizer.padding_side = "right"
        made = tokenizer(
            [collapse(text) for text in given], padding=padding, max_length=self.length, truncation=True,
            split_special_tokens=True, return_tensors="pt",
        ).input_ids  # fmt: skip
        start = torch.tensor([list(first)] * len(given), dtype=made.dtype)
        return torch.cat([start, made], dim=1)[:, : self.length]

    def embed_text(self, given, **how):
        with torch.inference_mode():
            found = self.model.get_text_features(input_ids=self.ids(given, **how))
        return getattr(found, "pooler_output", found).numpy()

    def compare(self, photos, given):
        """(logits_per_image, probabilities)."""
        image = pytest.importorskip("PIL.Image")
        opened = [image.open(path).convert("RGB") for path in photos]
        pixels = self.pixels(images=opened, return_tensors="pt").pixel_values
        with torch.inference_mode():
            logits = self.model(input_ids=self.ids(given), pixel_values=pixels).logits_per_image
        return logits.numpy(), torch.sigmoid(logits).numpy()


@pytest.fixture(scope="module", params=[0, 7])
def folder(request, program, model, tmp_path_factory):
    """Models of two seeds."""
    if request.param == 0:
        return model
    made = tmp_path_factory.mktemp("model") / "other"
    program("init", "--preset", "tiny", "--seed", str(request.param), "-o", made)
    return made


@pytest.fixture(scope="module")
def reference(folder):
    return Reference(folder)


@pytest.fixture(scope="module")
def pipeline(folder):
    return transformers.pipeline("zero-shot-image-classification", model=str(folder), device="cpu")


@pytest.fixture(scope="module")
def fp32(folder):
    with fovea.load(folder, "cpu", "fp32", first="texts") as loaded:
        yield loaded


def difference(ours, expected):
    assert ours.shape == expected.shape
    return (np.abs(ours - expected).max(axis=1) / np.linalg.norm(expected, axis=1)).max()


@pytest.mark.parametrize("seed", SEEDS, ids=["1", "random"])
def test_embeddings_are_those_of_transformers(fp32, reference, seed):
    given = ["A photo of a Red Bicycle in the SNOW", "", "КОТ", *texts(150, seed)]
    ours = fp32.embed_text(given, normalize=False)
    expected = reference.embed_text(given)
    assert ours.dtype == np.float32 and ours.flags.c_contiguous
    assert difference(ours, expected) <= FP32_LIMIT, seed
    unit = fp32.embed_text(given)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    assert difference(unit, expected / np.linalg.norm(expected, axis=1, keepdims=True)) <= FP32_LIMIT


@pytest.mark.parametrize("mistake", [{"padding": "longest"}, {"lower": False}, {"first": [2]}], ids=str)
def test_the_comparison_notices_mistakes(fp32, reference, mistake):
    given = ["A Red Bicycle", "the Cat and the dog"]
    assert difference(fp32.embed_text(given, normalize=False), reference.embed_text(given, **mistake)) > 1e-3


def test_one_text_many_and_any_iterable(encoder):
    given = [f"text {number}" for number in range(2500)]  # more than two windows
    rows = encoder.embed_text(given)
    assert rows.shape == (2500, encoder.dimension)
    np.testing.assert_array_equal(encoder.embed_text(iter(given)), rows)
    np.testing.assert_array_equal(encoder.embed_text(text for text in given[:7]), rows[:7])
    np.testing.assert_array_equal(encoder.embed_text(np.array(given[-3:])), rows[-3:])
    row = encoder.embed_text(given[1700])
    assert row.shape == (encoder.dimension,)
    np.testing.assert_array_equal(row, rows[1700])
    assert encoder.embed_text([]).shape == (0, encoder.dimension)
    assert len(np.unique(rows.round(5), axis=0)) == len(given)


def test_texts_are_cleaned_as_asked(encoder):
    def embed(text, clean):
        return encoder.embed_text(text, clean=clean).tolist()

    assert embed("A  Red\nbicycle!", "auto") == embed("a red bicycle!", "none") == embed("A RED bicycle! ", "lower")
    assert embed("A Red bicycle!", "canonicalize") == embed("a red bicycle", "none")
    assert embed("A Red bicycle!", "none") != embed("a red bicycle!", "none")
    assert embed("a red bicycle", "none") != embed("a red bicycle!", "none")


def test_what_is_no_text_is_told(encoder):
    with pytest.raises(TypeError, match="text 1 must be a string, not bytes"):
        encoder.embed_text(["a", b"b"])
    with pytest.raises(TypeError, match="text 1100 must be a string, not NoneType"):
        encoder.embed_text(iter(["a"] * 1100 + [None]))
    for single in (b"bytes", 3, None):
        with pytest.raises(TypeError, match="pass a string or several"):
            encoder.embed_text(single)
    with pytest.raises(ValueError, match="text 0 is not valid Unicode"):
        encoder.embed_text("\ud800")
    with pytest.raises(ValueError, match="clean must be 'auto', 'lower', 'canonicalize' or 'none', not 'upper'"):
        encoder.embed_text("a", clean="upper")
    with pytest.raises(fovea.Error, match="texts 1024 to 1025: text 2 of 2: .*1 MiB|texts 1024 to 1025: text 2 of 2"):
        encoder.embed_text(["a"] * 1025 + ["b" * (1 << 21)])


def test_progress_of_texts(encoder, capsys):
    pytest.importorskip("tqdm")
    encoder.embed_text(["a", "b", "c"], progress=True)
    assert "3/3" in capsys.readouterr().err
    encoder.embed_text(["a"])
    assert capsys.readouterr().err == ""


def test_a_model_without_texts_says_so(program, tmp_path, device):
    program("init", "--preset", "tiny", "--images-only", "-o", tmp_path / "images")
    with fovea.load(tmp_path / "images", device) as encoder:
        with pytest.raises(fovea.Error, match="images"):
            encoder.embed_text("a")
        with pytest.raises(fovea.Error, match="images"):
            encoder.logit_scale  # noqa: B018
        assert len(encoder.embed([np.zeros((9, 9, 3), np.uint8)])) == 1
    with pytest.raises(fovea.Error, match="images"):
        fovea.load(tmp_path / "images", device, first="texts")
    with pytest.raises(ValueError, match="first must be 'images' or 'texts', not 'words'"):
        fovea.load(tmp_path / "images", device, first="words")


def test_logit_scale(fp32, reference):
    scale = fp32.logit_scale
    assert scale.factor == pytest.approx(reference.model.logit_scale.exp().item(), rel=1e-6)
    assert scale.bias == pytest.approx(reference.model.logit_bias.item(), rel=1e-6)
    cosines = np.array([[-1, 0.1], [0.2, 1]])
    np.testing.assert_allclose(scale.logit(cosines), scale.factor * cosines + scale.bias)
    np.testing.assert_allclose(scale.probability(cosines), 1 / (1 + np.exp(-scale.logit(cosines))))
    assert 0 <= float(fovea.LogitScale(1e4, 0).probability(-1)) < 1e-300


@pytest.mark.parametrize("labels", LABELS, ids=len)
def test_labels_are_those_of_transformers(fp32, reference, photos, labels):
    found = fp32.label(photos[:6], labels)
    logits, probabilities = reference.compare(photos[:6], [f"This is a photo of {label}." for label in labels])
    assert found.labels == tuple(labels)
    assert found.logits.shape == found.probabilities.shape == (6, len(labels))
    assert np.abs(found.logits - logits).max() <= LOGIT_LIMIT
    assert np.abs(found.probabilities - probabilities).max() <= LOGIT_LIMIT
    # What would have been wrong:
    assert np.abs(torch.softmax(torch.from_numpy(logits), dim=1).numpy() - probabilities).max() > 1e-2
    assert np.abs(reference.compare(photos[:6], labels)[0] - found.logits).max() > 10 * LOGIT_LIMIT


@pytest.mark.parametrize("labels", LABELS, ids=len)
def test_the_pipeline_has_the_same_order(fp32, pipeline, photos, labels):
    photos = photos[2:9:2]
    found = fp32.label(photos, labels)
    for photo, ours, best in zip(photos, found, found.best, strict=True):
        answers = pipeline(str(photo), candidate_labels=labels)
        logits = {score.label: score.logit for score in ours}
        order = [logits[row["label"]] for row in answers]
        assert all(order[i] >= order[i + 1] - LOGIT_LIMIT for i in range(len(order) - 1)), photo
        assert [score.logit for score in ours] == sorted(order, reverse=True)
        assert best == ours[0]
        probability = {score.label: score.probability for score in ours}
        assert max(abs(row["score"] - probability[row["label"]]) for row in answers) < 1e-4


def test_templates_are_averaged_as_unit_vectors(encoder, photos):
    labels, templates = ["cat", "dog", "bird"], ["{}", "a bad photo of the {}.", "{} at night"]
    found = encoder.label(photos[:3], labels, templates)
    texts = encoder.embed_text([template.format(label) for label in labels for template in templates])
    vectors = texts.astype(float).reshape(3, 3, -1).mean(axis=1)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    want = encoder.logit_scale.logit(encoder.embed(photos[:3]).astype(float) @ vectors.T)
    np.testing.assert_allclose(found.logits, want, atol=1e-4)
    assert np.abs(encoder.label(photos[:3], labels).logits - found.logits).max() > 1e-3
    single = encoder.label(photos[:3], labels, "{}")
    np.testing.assert_allclose(single.logits, encoder.label(photos[:3], labels, ["{}"]).logits)


def test_labels_of_embeddings(encoder, photos):
    want = encoder.label(photos[:3], ["cat", "dog"])
    rows = encoder.embed(photos[:3])
    for given in (rows, rows.astype(float) * 3, torch.from_numpy(rows)):
        np.testing.assert_allclose(encoder.label(given, ["cat", "dog"]).logits, want.logits, atol=1e-4)
    single = encoder.label(rows[1], ["cat", "dog"])
    np.testing.assert_allclose(single.logits, want.logits[1:2], atol=1e-4)
    with pytest.raises(ValueError, match=rf"embeddings \[images, {encoder.dimension}\].* shape 3x9x3"):
        encoder.label(np.zeros((3, 9, 3)), ["cat"])
    with pytest.raises(ValueError, match="a vector of zeros"):
        encoder.label(rows * 0, ["cat"])


def test_labels_of_broken_images(encoder, photos, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(photos[0].read_bytes()[:3000])
    with pytest.raises(fovea.ImageError, match="image 1 "):
        encoder.label([photos[0], broken], ["cat"])
    failures = []
    found = encoder.label(iter([photos[0], broken, photos[1]]), ["cat", "dog"], on_error=failures.append)
    assert [failure.index for failure in failures] == [1]
    assert np.isnan(found.logits).all(axis=1).tolist() == [False, True, False]
    assert [len(scores) for scores in found] == [2, 0, 2]
    assert [best is None for best in found.best] == [False, True, False]
    assert len(found) == 3 and found[-1] == found[2]


def test_what_labels_may_not_be(encoder, photos):
    for labels, message in ((["cat", 3], "strings, not int"), ("cat", "labels must be a list of strings")):
        with pytest.raises(TypeError, match=message):
            encoder.label(photos, labels)
    with pytest.raises(ValueError, match="labels must hold at least one label"):
        encoder.label(photos, [])
    for template in ("a photo", "{} and {}", ["{}", "none"]):
        with pytest.raises(fovea.Error, match=r"exactly one \{\}"):
            encoder.label(photos, ["cat"], template)
    with pytest.raises(TypeError, match="pass a list of images"):
        encoder.label(photos[0], ["cat"])


def test_the_template_without_one_is_the_programs(encoder, photos):
    (template,) = re.findall(r'kLabelTemplate = "(.+)"', (ROOT / "include/fovea/label.hpp").read_text())
    want = encoder.label(photos[:2], ["cat"], template).logits
    np.testing.assert_array_equal(encoder.label(photos[:2], ["cat"]).logits, want)


def test_labels_with_braces(encoder, photos):
    """The place of the label is not sought in the label."""
    want = encoder.embed_text(["This is a photo of {} {0}."])
    found = encoder.label(photos[:2], ["{} {0}"])
    cosines = encoder.embed(photos[:2]) @ want.T
    np.testing.assert_allclose(found.logits, encoder.logit_scale.logit(cosines), atol=1e-4)


def test_labels_of_the_last_call_do_not_stay(encoder, photos):
    first = encoder.label(photos[:2], ["cat", "dog"]).logits
    assert np.abs(encoder.label(photos[:2], ["dog", "cat"]).logits[:, ::-1] - first).max() < 1e-9
    np.testing.assert_array_equal(encoder.label(photos[:2], ["Cat", "dog"]).logits, first)
    assert np.abs(encoder.label(photos[:2], ["Cat", "dog"], clean="none").logits - first)[:, 0].max() > 1e-3
    assert np.abs(encoder.label(photos[:2], ["Cat", "dog"], "{}").logits - first).max() > 1e-3
    np.testing.assert_array_equal(encoder.label(photos[:2], ["cat", "dog"]).logits, first)
