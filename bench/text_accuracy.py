"""Measures what each precision costs texts: embeddings and neighbours beside those of transformers in fp32, and its
bf16.

    python3 bench/text_accuracy.py MODEL [--device cuda] [--texts 1000] [--seed 1] [--program FOVEA] [--json FILE]

Texts are sentences drawn from the corpus of the small tokenizer (src/text/small_corpus.cpp), cut and joined at random,
so that they have few and many words in fifteen scripts. int8 is calibrated with 256 others of them, in a copy of the
model. bench/texts.py times them."""

import json
import pathlib
import random
import tempfile

import machine
import measuring
import numpy
import torch
from gpu_accuracy import compare
from programs import answer, listed, words
from transformers import Siglip2Tokenizer, SiglipModel

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENS = 64
AT_ONCE = 256
CALIBRATION_TEXTS = 256


def sentences(count, source):
    corpus = (ROOT / "src/text/small_corpus.cpp").read_text().split('R"(')[1].split(')"')[0]
    words = corpus.split()
    made = set()
    while len(made) < count:
        first = source.randrange(len(words))
        made.add(" ".join(words[first : first + source.choice((1, 2, 4, 8, 12, 30))]))
    return sorted(made, key=lambda _: source.random())


@torch.inference_mode()
def reference(model, ids, device, dtype):
    """[texts, dimension], computed together AT_ONCE."""
    tower = model.text_model.to(device, dtype)
    parts = [part.to(device) for part in ids.split(AT_ONCE)]
    return torch.cat([tower(input_ids=part).pooler_output for part in parts]).double().cpu().numpy()


def listed_texts(path, texts):
    """Argument that makes the program read these texts."""
    return listed(path, map(json.dumps, texts))


def calibrated(options, others, folder):
    """A copy of the model, calibrated for int8 with these texts and the sample photos."""
    model = measuring.uncalibrated(options.model, folder / "model")
    photos = sorted((ROOT / "examples/photos").glob("*.jpg"))
    names = words(model, *photos, precision="int8", text=listed_texts(folder / "others.jsonl", others))
    answer(options.program, "calibrate", *names)
    return model


def fovea(options, model, texts, precision, folder):
    """The same of the program."""
    out = folder / "texts.npy"
    names = words(
        text=listed_texts(folder / "texts.jsonl", texts), m=model, device=options.device, precision=precision, o=out
    )
    answer(options.program, "embed", "--no-normalize", "--quiet", *names)
    return numpy.load(out).astype(numpy.float64)


def compared(found, truth):
    cosines, recalls = compare(truth, found)
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
    others, texts = texts[:CALIBRATION_TEXTS], texts[CALIBRATION_TEXTS:]
    model = SiglipModel.from_pretrained(options.model).eval()
    tokenizer = Siglip2Tokenizer.from_pretrained(options.model)
    rows = [
        tokenizer(" ".join(text.split()), add_special_tokens=False)["input_ids"][: TOKENS - 1] + [1] for text in texts
    ]
    ids = torch.tensor([row + [0] * (TOKENS - len(row)) for row in rows])
    want = reference(model, ids, options.device, torch.float32)
    results = {"transformers bf16": compared(reference(model, ids, options.device, torch.bfloat16), want)}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        copy = calibrated(options, others, folder)
        for precision in ("bf16", "int8"):
            results[f"fovea {precision}"] = compared(fovea(options, copy, texts, precision, folder), want)
    told = {"model": options.model.name, "device": options.device, "texts": len(texts), "seed": options.seed}
    where = machine.describe(options.program, options.device)
    machine.hand_over({"machine": where, "text_accuracy": told | {"precisions": results}}, options.json)


if __name__ == "__main__":
    main()
