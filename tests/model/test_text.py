"""Texts: embeddings and logits against transformers, live, and what would give others.

The reference is SiglipModel on the ids that Siglip2Tokenizer makes. Every mistake that makers of text towers are
known for is made once, in the reference: the comparison must then fail."""

import json
import pathlib
import random
import subprocess
import sys

import numpy
import pytest
import torch
from tokenizers import normalizers
from transformers import Siglip2Tokenizer, SiglipModel

PHOTOS = sorted((pathlib.Path(__file__).resolve().parents[2] / "examples" / "photos").glob("*.jpg"))
WORDS = [
    "a",
    "red",
    "Bicycle",
    "in",
    "the",
    "SNOW,",
    "Кот",
    "на",
    "окне;",
    "ein",
    "Hund",
    "läuft",
    "写真",
    "γάτα",
    "12.50",
    "cat's",
    "café",
    "🐱",
]


def texts_of(seed, count):
    """From no word to more than 64 tokens."""
    source = random.Random(seed)
    made = ["", "A Photo of a CAT."]
    while len(made) < count:
        made.append(" ".join(source.choice(WORDS) for _ in range(source.choice((1, 3, 8, 20, 90)))))
    return made


def make(run_fovea, folder, preset, seed, layers=0, *options):
    run_fovea("init", "--preset", preset, "--seed", str(seed), "--layers", str(layers), *options, "-o", folder)
    return folder


def embedded(run_fovea, model, texts, *options):
    lists = model.parent / "texts.jsonl"
    lists.write_text("".join(json.dumps(text) + "\n" for text in texts))
    out = model.parent / "texts.npy"
    run_fovea("embed", "--text", f"@{lists}", "-m", model, "--no-normalize", "--quiet", *options, "-o", out)
    return numpy.load(out).astype(numpy.float64)


class Reference:
    """transformers' model and tokenizer, with one mistake or none."""

    def __init__(self, folder):
        self.model = SiglipModel.from_pretrained(folder).eval()
        self.tokenizer = Siglip2Tokenizer.from_pretrained(folder)
        self.cased = Siglip2Tokenizer.from_pretrained(folder)
        self.cased.backend_tokenizer.normalizer = normalizers.Replace(" ", "\u2581")

    def ids(self, texts, mistake=""):
        rows = []
        for text in texts:
            text = " ".join(text.split())
            tokenizer = self.cased if mistake == "no lower case" else self.tokenizer
            ids = tokenizer(text, add_special_tokens=False)["input_ids"][:63] + [1]
            if mistake == "BOS":
                ids = [2, *ids[:62], 1]
            rows.append(ids)
        length = 64 if mistake != "padding to the longest" else max(map(len, rows))
        left = mistake == "left padding"
        pads = [[0] * (length - len(row)) for row in rows]
        return torch.tensor([pad + row if left else row + pad for row, pad in zip(rows, pads)])

    @torch.inference_mode()
    def embeddings(self, texts, mistake=""):
        ids = self.ids(texts, mistake)
        mask = (ids != 0).long() if mistake == "mask" else None
        out = self.model.text_model(input_ids=ids, attention_mask=mask)
        if mistake == "mean pooling":
            return self.model.text_model.head(out.last_hidden_state.mean(1)).double().numpy()
        return out.pooler_output.double().numpy()


def difference(got, want):
    """The largest difference of a text, over the norm of its embedding."""
    return (numpy.abs(got - want).max(1) / numpy.linalg.norm(want, axis=1)).max()


def cosines(got, want):
    return (got * want).sum(1) / numpy.linalg.norm(got, axis=1) / numpy.linalg.norm(want, axis=1)


@pytest.mark.parametrize(
    "preset, layers, seed",
    [
        ("tiny", 0, 3),
        ("base-patch16-224", 3, 4),
        ("large-patch16-256", 2, 5),
        ("so400m-patch14-224", 2, 6),
        ("giant-opt-patch16-256", 2, 7),
    ],
)
def test_fp32_is_transformers(run_fovea, tmp_path, preset, layers, seed):
    model = make(run_fovea, tmp_path / "model", preset, seed, layers)
    texts = texts_of(seed, 12)
    want = Reference(model).embeddings(texts)
    assert difference(embedded(run_fovea, model, texts, "--precision", "fp32", "--device", "cpu"), want) <= 2e-5


def test_bf16_is_close(run_fovea, tmp_path):
    model = make(run_fovea, tmp_path / "model", "base-patch16-224", 8, 4)
    texts = texts_of(9, 24)
    want = Reference(model).embeddings(texts)
    said = run_fovea("embed", "--text", "x", "-m", model, "--device", "cpu", "-o", tmp_path / "x.npy").stderr
    if not any(f"cpu ({isa})" in said for isa in ("avx512_bf16", "amx")):
        refused = (
            "embed",
            "--text",
            "x",
            "-m",
            model,
            "--precision",
            "bf16",
            "--device",
            "cpu",
            "-o",
            tmp_path / "y.npy",
        )
        assert "bf16 needs a CPU" in run_fovea(*refused, code=1).stderr
        return
    assert cosines(embedded(run_fovea, model, texts, "--precision", "bf16", "--device", "cpu"), want).min() >= 0.9995


MISTAKES = ["no lower case", "BOS", "left padding", "padding to the longest", "mask", "mean pooling"]


@pytest.mark.parametrize("seed", [11, 12])
def test_known_mistakes_are_seen(run_fovea, tmp_path, seed):
    model = make(run_fovea, tmp_path / "model", "tiny", seed)
    texts = [text for text in texts_of(seed, 40) if 0 < len(text.split()) < 20]
    reference = Reference(model)
    got = embedded(run_fovea, model, texts, "--precision", "fp32", "--device", "cpu")
    assert difference(got, reference.embeddings(texts)) <= 2e-5
    for mistake in MISTAKES:
        wrong = reference.embeddings(texts, mistake)
        assert difference(got, wrong) > 1e-3, mistake
        assert cosines(got, wrong).min() < 0.9995, mistake


def test_the_token_table_stays_in_its_file(fovea_bin, run_fovea, tmp_path):
    model = make(run_fovea, tmp_path / "model", "tiny", 24, 0, "--vocabulary", "1000000", "--dtype", "bf16")
    table = 1_000_000 * 96 * 2
    assert (model / "model.safetensors").stat().st_size > table
    command = [
        fovea_bin,
        "embed",
        "--text",
        "a red bicycle",
        "-m",
        model,
        "--device",
        "cpu",
        "--quiet",
        "-o",
        tmp_path / "x.npy",
    ]
    # A process of its own: what a child may have used before it became the program counts as well.
    measure = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-S", "-c", measure, *command], check=True, capture_output=True, text=True)
    assert int(done.stdout) * 1024 < table / 2, done.stdout


def test_a_text_has_the_same_bits_whatever_came_with_it(run_fovea, tmp_path):
    model = make(run_fovea, tmp_path / "model", "tiny", 13)
    texts = texts_of(14, 70)
    together = embedded(run_fovea, model, texts, "--device", "cpu")
    for index in (0, 1, 33, 69):
        alone = embedded(run_fovea, model, texts[index : index + 1], "--device", "cpu")
        assert (alone[0] == together[index]).all()
    assert (embedded(run_fovea, model, texts, "--device", "cpu", "--threads", "3") == together).all()


@pytest.mark.parametrize("seed, template", [(15, "This is a photo of {}."), (16, "{}")])
def test_labels_have_the_logits_of_transformers(run_fovea, tmp_path, seed, template):
    model = make(run_fovea, tmp_path / "model", "base-patch32-256", seed, 3)
    labels = ["cat", "a red bicycle", "Snow", "кот", "nothing at all"]
    out = tmp_path / "labels.jsonl"
    listed = tmp_path / "labels.txt"
    listed.write_text("\n".join(labels))
    run_fovea(
        "label",
        "-m",
        model,
        *PHOTOS[:4],
        "--labels",
        f"@{listed}",
        "--template",
        template,
        "--top",
        "0",
        "--precision",
        "fp32",
        "--device",
        "cpu",
        "--quiet",
        "-o",
        out,
    )
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["source"] for row in rows] == [str(photo) for photo in PHOTOS[:4]]
    reference = Reference(model)
    pixels = tmp_path / "pixels.npy"
    run_fovea("preprocess", "-m", model, *PHOTOS[:4], "--quiet", "-o", pixels)
    values = (torch.from_numpy(numpy.load(pixels)).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5
    ids = reference.ids([template.format(label) for label in labels])
    with torch.inference_mode():
        logits = reference.model(input_ids=ids, pixel_values=values).logits_per_image.double()
    for row, want in zip(rows, logits):
        assert [entry["label"] for entry in row["labels"]] == [labels[i] for i in want.argsort(descending=True)]
        for entry in row["labels"]:
            logit = want[labels.index(entry["label"])]
            assert abs(entry["logit"] - logit.item()) <= 1e-4
            assert abs(entry["probability"] - torch.sigmoid(logit).item()) <= 1e-4
    assert not torch.allclose(torch.softmax(logits, 1), torch.sigmoid(logits), atol=1e-4)  # a mistake that would show


def test_search_finds_what_transformers_would(run_fovea, tmp_path):
    model = make(run_fovea, tmp_path / "model", "tiny", 17)
    run_fovea("embed", "-m", model, *PHOTOS, "--quiet", "-o", tmp_path / "out")
    photos = numpy.load(tmp_path / "out" / "embeddings-00000.npy").astype(numpy.float64)
    texts = ["a red bicycle", "Кот"]
    vectors = Reference(model).embeddings(texts)
    vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
    found = json.loads(run_fovea("search", *texts, "--in", tmp_path / "out", "-k", "5", "--json").stdout)
    for query, text, vector in zip(found["queries"], texts, vectors):
        scores = photos @ vector
        assert query["query"] == text
        for match, row in zip(query["matches"], numpy.argsort(-scores), strict=False):
            assert abs(match["score"] - scores[row]) < 1e-5
            assert abs(match["probability"] - 1 / (1 + numpy.exp(-match["logit"]))) < 1e-9
    # Photos and words to avoid take part with their weights.
    found = json.loads(
        run_fovea(
            "search",
            texts[0],
            "--photo",
            PHOTOS[2],
            "--photo-weight",
            "0.5",
            "--not",
            texts[1],
            "--in",
            tmp_path / "out",
            "-k",
            "3",
            "--json",
        ).stdout
    )
    query = vectors[0] + 0.5 * photos[2] / numpy.linalg.norm(photos[2]) - vectors[1]
    scores = photos @ (query / numpy.linalg.norm(query))
    best = found["queries"][0]["matches"]
    assert [match["row"] for match in best] == list(numpy.argsort(-scores)[:3])
    assert "probability" not in best[0]


def calibration_texts(folder, seed):
    path = folder / "calibration.jsonl"
    path.write_text("".join(json.dumps(text) + "\n" for text in texts_of(seed, 200)))
    return ("--text", f"@{path}")


def test_int8_on_a_cpu(run_fovea, tmp_path):
    model = make(run_fovea, tmp_path / "model", "tiny", 21)
    texts = texts_of(22, 100)
    eight_bits = ("--device", "cpu", "--precision", "int8")
    refused = run_fovea("embed", "--text", "x", "-m", model, *eight_bits, "-o", tmp_path / "x.npy", code=1).stderr
    if "int8 needs a CPU" in refused:
        return
    assert "needs a calibrated text tower" in refused and "--text @captions.txt" in refused
    run_fovea("calibrate", model, *PHOTOS, "--precision", "int8", *calibration_texts(tmp_path, 23))
    got = embedded(run_fovea, model, texts, *eight_bits)
    want = Reference(model).embeddings(texts)
    assert 0.995 < cosines(got, want).min() < 1 - 1e-6


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_on_a_gpu(run_fovea, gpu, tmp_path, precision):
    model = make(run_fovea, tmp_path / "model", "base-patch16-224", 18)
    if precision == "int8":
        run_fovea("calibrate", model, *PHOTOS, "--precision", "int8", *calibration_texts(tmp_path, 20))
    texts = texts_of(19, 300)
    got = embedded(run_fovea, model, texts, "--device", "cuda", "--precision", precision)
    want = Reference(model).embeddings(texts)
    assert cosines(got, want).min() >= (0.9995 if precision == "bf16" else 0.998)
    for index in (0, 7, 299):
        alone = embedded(run_fovea, model, texts[index : index + 1], "--device", "cuda", "--precision", precision)
        assert (alone[0] == got[index]).all()
