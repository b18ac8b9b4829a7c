"""Measures the accuracy of text embeddings at each precision: cosines and neighbours compared with transformers in
fp32, and those of transformers in bf16.

    python3 bench/text_accuracy.py MODEL [--device cuda] [--texts 1000] [--seed 1] [--program FOVEA] [--json FILE]

Texts are random runs of words from the corpus of the small tokenizer (src/text/small_corpus.cpp), short and long, in
fifteen scripts. int8 is calibrated with 256 other such texts, in a copy of the model. bench/texts.py measures rates on
the same texts."""

import json
import pathlib
import random
import tempfile

import machine
import measuring
import numpy
import torch
from gpu_accuracy import compare
from programs import answer, command_arguments, write_list
from transformers import Siglip2Tokenizer, SiglipModel

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENS = 64
BATCH = 256
CALIBRATION_TEXTS = 256


def sentences(count, source):
    corpus = (ROOT / "src/text/small_corpus.cpp").read_text().split('R"(')[1].split(')"')[0]
    words = corpus.split()
    texts = set()
    while len(texts) < count:
        first = source.randrange(len(words))
        texts.add(" ".join(words[first : first + source.choice((1, 2, 4, 8, 12, 30))]))
    return sorted(texts, key=lambda _: source.random())


@torch.inference_mode()
def reference(model, ids, device, dtype):
    """Returns embeddings [texts, dimension] by transformers, in batches of BATCH."""
    tower = model.text_model.to(device, dtype)
    parts = [part.to(device) for part in ids.split(BATCH)]
    return torch.cat([tower(input_ids=part).pooler_output for part in parts]).double().cpu().numpy()


def write_text_list(path, texts):
    """Writes a list of texts, and returns the argument (@LIST) that makes the program read them."""
    return write_list(path, map(json.dumps, texts))


def calibrate_copy(options, calibration_texts, folder):
    """Makes a copy of the model, calibrated for int8 with these texts and the sample photos."""
    model = measuring.link_uncalibrated(options.model, folder / "model")
    photos = sorted((ROOT / "examples/photos").glob("*.jpg"))
    arguments = command_arguments(
        model, *photos, precision="int8", text=write_text_list(folder / "others.jsonl", calibration_texts)
    )
    answer(options.program, "calibrate", *arguments)
    return model


def fovea(options, model, texts, precision, folder):
    """Returns embeddings [texts, dimension] by the program."""
    out = folder / "texts.npy"
    arguments = command_arguments(
        text=write_text_list(folder / "texts.jsonl", texts), m=model, device=options.device, precision=precision, o=out
    )
    answer(options.program, "embed", "--no-normalize", "--quiet", *arguments)
    return numpy.load(out).astype(numpy.float64)


def accuracy_figures(embeddings, truth):
    cosines, recalls = compare(truth, embeddings)
    return {
        "mean": cosines.mean(),
        "first_percentile": numpy.percentile(cosines, 1),
        "least": cosines.min(),
        "recall_at_10": float(recalls.mean()),
    }


def main():
    parser = measuring.parser(__doc__, device="cuda", program="--program")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    texts = sentences(options.texts + CALIBRATION_TEXTS, random.Random(options.seed))
    calibration_texts, texts = texts[:CALIBRATION_TEXTS], texts[CALIBRATION_TEXTS:]
    model = SiglipModel.from_pretrained(options.model).eval()
    tokenizer = Siglip2Tokenizer.from_pretrained(options.model)
    rows = [
        tokenizer(" ".join(text.split()), add_special_tokens=False)["input_ids"][: TOKENS - 1] + [1] for text in texts
    ]
    ids = torch.tensor([row + [0] * (TOKENS - len(row)) for row in rows])
    want = reference(model, ids, options.device, torch.float32)
    results = {"transformers bf16": accuracy_figures(reference(model, ids, options.device, torch.bfloat16), want)}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        copy = calibrate_copy(options, calibration_texts, folder)
        for precision in ("bf16", "int8"):
            results[f"fovea {precision}"] = accuracy_figures(fovea(options, copy, texts, precision, folder), want)
    fields = {"model": options.model.name, "device": options.device, "texts": len(texts), "seed": options.seed}
    where = machine.describe(options.program, options.device)
    machine.write_result({"machine": where, "text_accuracy": fields | {"precisions": results}}, options.json)


if __name__ == "__main__":
    main()
