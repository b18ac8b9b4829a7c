"""Times texts: Fovea's text tower from Python and from the program, beside transformers and torch.compile; all warm, on
the same texts.

    python3 bench/texts.py MODEL [--device cuda] [--precision bf16,int8] [--texts 32768] [--batch 1,32,256,1024] [--seconds 2]
                           [--no-compile] [--program build/release/bin/fovea] [--json FILE]

Texts are bench/text_accuracy.py's, which fill 1 to 64 tokens; everybody computes 64 for each. "from texts" is from
strings to embeddings in the host's memory, tokenizer included; "from tokens" is what transformers takes from token ids
in the host's memory on, which Fovea does not offer. What was measured is saved after each engine. Before anything is
timed, embeddings of the first texts are compared with transformers' in fp32. Rates are of the median call; `fovea embed
--text` is one process over all texts, and its rate is that between a short and a long run, so that start-up cancels. A
peer that is left out is listed with its reason. int8 is calibrated with other texts, in a copy of the model."""

import argparse
import json
import pathlib
import random
import tempfile

import fovea
import machine
import measuring
import torch
from programs import log, reason, words
from system import Run
from text_accuracy import CALIBRATION_TEXTS, TOKENS, calibrated, listed_texts, sentences
from transformers import AutoTokenizer, SiglipModel

CHECKED = 64
SHARE = 8  # of all texts, in the shorter run of the program


class Transformers:
    """transformers' text tower, eager or compiled for each batch size alone."""

    def __init__(self, options, precision, compiled):
        if precision == "int8":
            raise RuntimeError("only its fp32 and bf16 are measured")
        self.device = options.device
        self.tokenizer = AutoTokenizer.from_pretrained(options.model)
        dtype = torch.float32 if precision == "fp32" else torch.bfloat16
        self.tower = SiglipModel.from_pretrained(options.model, dtype=dtype).text_model.eval().to(self.device)
        if compiled:
            torch._dynamo.reset()
            torch._dynamo.config.recompile_limit = 64  # batch sizes: beyond the limit it would run eager
            self.tower = torch.compile(
                self.tower, mode="max-autotune" if self.device == "cuda" else "default", dynamic=False
            )

    def tokens(self, texts):
        return self.tokenizer(texts, padding="max_length", max_length=TOKENS, truncation=True, return_tensors="pt")[
            "input_ids"
        ]

    @torch.inference_mode()
    def from_tokens(self, ids):
        return self.tower(input_ids=ids.to(self.device)).pooler_output.float().cpu().numpy()

    def calls(self, texts):
        ids = self.tokens(texts)
        return {
            "from_tokens": lambda: self.from_tokens(ids),
            "from_texts": lambda: self.from_tokens(self.tokens(texts)),
        }


class Fovea:
    """Encoder.embed_text of the Python package, loaded once."""

    def __init__(self, options, precision):
        self.encoder = fovea.load(options.calibrated, options.device, precision)

    def calls(self, texts):
        return {"from_texts": lambda: self.encoder.embed_text(texts, normalize=False)}


ENGINES = {
    "fovea, Encoder.embed_text": Fovea,
    "transformers sdpa": lambda o, p: Transformers(o, p, False),
    "torch.compile max-autotune": lambda o, p: Transformers(o, p, True),
}


def checked(engine, precision, texts, want):
    """The least cosine; an engine whose embeddings are off is left out."""
    return measuring.least_cosine(engine.calls(texts)["from_texts"](), want, precision)


def of_program(options, precision, texts, folder):
    """Texts per second of `fovea embed --text`, between a short and a long run."""

    def seconds(count):
        out = folder / "texts.npy"
        out.unlink(missing_ok=True)
        common = {"m": options.calibrated, "device": options.device, "precision": precision, "quiet": True, "o": out}
        given = listed_texts(folder / "texts.jsonl", texts[:count])
        return Run(options.program, "embed", *words(text=given, **common)).seconds

    seconds(len(texts) // SHARE)  # the weights are in the page cache from here on
    few_seconds, all_seconds = (min(seconds(count) for _ in range(2)) for count in (len(texts) // SHARE, len(texts)))
    if all_seconds <= few_seconds:
        raise RuntimeError(f"{len(texts)} texts are too few: the program's start takes longer")
    return (len(texts) - len(texts) // SHARE) / (all_seconds - few_seconds)


def measure(options, folder, save):
    texts = sentences(options.texts + CALIBRATION_TEXTS, random.Random(1))
    texts, others = texts[CALIBRATION_TEXTS:], texts[:CALIBRATION_TEXTS]
    options.calibrated = (
        calibrated(options, others, folder)
        if "int8" in options.precision
        else measuring.uncalibrated(options.model, folder / "model")
    )
    exact = Transformers(options, "fp32", False)
    want = exact.from_tokens(exact.tokens(texts[:CHECKED]))
    del exact
    found = {"model": options.model.name, "device": options.device, "texts": len(texts), "tokens": TOKENS}
    found["rows"] = rows = []

    def add(row):
        rows.append(row)
        log(json.dumps(row))
        save(found)

    for precision in options.precision.split(","):
        for name, make in ENGINES.items():
            row = {"engine": name, "precision": precision}
            try:
                if "compile" in name and not options.compile:
                    raise RuntimeError("--no-compile")
                engine = make(options, precision)
                row["minimum_cosine"] = checked(engine, precision, texts[:CHECKED], want)
                for batch in sorted({min(batch, len(texts)) for batch in measuring.numbers(options.batch)}):
                    rates = {
                        f"{way}_per_second": measuring.rate(call, batch, options.seconds, warm_up=2)
                        for way, call in engine.calls(texts[:batch]).items()
                    }
                    add(row | {"batch": batch} | rates)
            except Exception as error:  # whatever a peer raises for what it does not support
                add(row | {"skipped": reason(error)})
        row = {"engine": "fovea embed --text", "precision": precision}
        try:
            add(row | {"batch": "all", "from_texts_per_second": of_program(options, precision, texts, folder)})
        except RuntimeError as error:
            add(row | {"skipped": str(error)})
    return found


def main():
    parser = measuring.parser(__doc__, device="cuda", program="--program")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--precision", default="bf16,int8")
    parser.add_argument("--texts", type=int, default=32768)
    parser.add_argument("--batch", default="1,32,256,1024")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True, help="also torch.compile")
    options = parser.parse_args()
    options.model = options.model.resolve()
    measuring.without_tf32()
    where = machine.describe(options.program, options.device)

    def save(found):
        if options.json:
            machine.hand_over({"machine": where, "texts": [found]}, options.json)

    with tempfile.TemporaryDirectory() as name:
        found = measure(options, pathlib.Path(name), save)
    if not options.json:
        machine.hand_over({"machine": where, "texts": [found]}, None)


if __name__ == "__main__":
    main()
