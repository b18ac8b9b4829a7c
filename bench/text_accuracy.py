"""Measures what each precision costs texts: embeddings and neighbours beside those of transformers in fp32, and its
bf16.

    python3 bench/text_accuracy.py MODEL [--device cuda] [--texts 1000] [--seed 1] [--program FOVEA] [--json FILE]

Texts are sentences drawn from the corpus of the small tokenizer (src/text/small_corpus.cpp), cut and joined at random,
so that they have few and many words in fifteen scripts. int8 is calibrated with 256 others of them, in a copy of the
model. bench/texts.py times them."""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import tempfile

import machine
import numpy
import torch
from transformers import Siglip2Tokenizer, SiglipModel

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENS = 64
NEIGHBOURS = 10
AT_ONCE = 256


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


def fovea(program, model, texts, device, precision, folder):
    """The same of the program."""
    lists = folder / "texts.jsonl"
    lists.write_text("".join(json.dumps(text) + "\n" for text in texts))
    out = folder / "texts.npy"
    command = [
        program,
        "embed",
        "--text",
        f"@{lists}",
        "-m",
        model,
        "--device",
        device,
        "--precision",
        precision,
        "--no-normalize",
        "--quiet",
        "-o",
        out,
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return numpy.load(out).astype(numpy.float64)


def unit(rows):
    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


def neighbours(rows):
    scores = unit(rows) @ unit(rows).T
    numpy.fill_diagonal(scores, -2)
    return numpy.argsort(-scores, axis=1)[:, :NEIGHBOURS]


def compared(got, want):
    cosines = (unit(got) * unit(want)).sum(1)
    shared = [len(set(a) & set(b)) for a, b in zip(neighbours(got), neighbours(want), strict=True)]
    return {
        "mean": cosines.mean(),
        "first_percentile": numpy.percentile(cosines, 1),
        "least": cosines.min(),
        "recall_at_10": float(numpy.mean(shared)) / NEIGHBOURS,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/fovea")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    all_texts = sentences(options.texts + 256, random.Random(options.seed))
    texts, others = all_texts[256:], all_texts[:256]
    model = SiglipModel.from_pretrained(options.model).eval()
    tokenizer = Siglip2Tokenizer.from_pretrained(options.model)
    rows = [
        tokenizer(" ".join(text.split()), add_special_tokens=False)["input_ids"][: TOKENS - 1] + [1] for text in texts
    ]
    ids = torch.tensor([row + [0] * (TOKENS - len(row)) for row in rows])
    want = reference(model, ids, options.device, torch.float32)
    results = {}
    results["transformers bf16"] = compared(reference(model, ids, options.device, torch.bfloat16), want)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        copy = folder / "model"
        shutil.copytree(options.model, copy)
        (folder / "others.jsonl").write_text("".join(json.dumps(text) + "\n" for text in others))
        photos = sorted((ROOT / "examples/photos").glob("*.jpg"))
        subprocess.run(
            [options.program, "calibrate", copy, *photos, "--precision", "int8", "--text", f"@{folder}/others.jsonl"],
            check=True,
            capture_output=True,
        )
        for precision in ("bf16", "int8"):
            results[f"fovea {precision}"] = compared(
                fovea(options.program, copy, texts, options.device, precision, folder), want
            )
    machine.hand_over(
        {
            "machine": machine.describe(options.program) | ({"gpu": found} if (found := machine.gpu()) else {}),
            "text_accuracy": {
                "model": options.model.name,
                "device": options.device,
                "texts": len(texts),
                "seed": options.seed,
                "precisions": results,
            },
        },
        options.json,
    )


if __name__ == "__main__":
    main()
