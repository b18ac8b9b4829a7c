"""Measures rates of text embeddings: Fovea's text tower in Python and in the program, transformers and torch.compile,
all after a warm-up and on the same texts.

    python3 bench/texts.py MODEL [--device cuda] [--precision bf16,int8] [--texts 32768] [--batch 1,32,256,1024] [--seconds 2]
                           [--no-compile] [--program build/release/bin/fovea] [--json FILE]

Texts are those of bench/text_accuracy.py, of 1 to 64 tokens; all engines pad them to 64. "from texts" covers strings to
embeddings in host memory, including the tokenizer; "from tokens" covers token ids to embeddings in host memory, an
interface that only transformers has. Results are saved after each engine. Before anything is timed, embeddings of the
first texts are compared with those of transformers in fp32. Rates come from the median call. `fovea embed --text` runs
as one process over all texts, and its rate comes from a short and a long run, so that start-up cancels. A peer that is
left out is listed with its reason. int8 is calibrated with other texts, in a copy of the model."""

import argparse
import json
import pathlib
import random
import tempfile

import fovea
import machine
import measuring
import torch
from programs import command_arguments, log, reason
from system import Run
from text_accuracy import CALIBRATION_TEXTS, TOKENS, calibrate_copy, sentences, write_text_list
from transformers import AutoTokenizer, SiglipModel

CHECKED = 64
SHORT_RUN_DIVISOR = 8  # the program's short run has 1/8 of all texts


class Transformers:
    """The text tower of transformers, eager or compiled for each batch size."""

    def __init__(self, options, precision, compiled):
        if precision == "int8":
            raise RuntimeError("measured only in fp32 and bf16")
        self.device = options.device
        self.tokenizer = AutoTokenizer.from_pretrained(options.model)
        dtype = torch.float32 if precision == "fp32" else torch.bfloat16
        self.tower = SiglipModel.from_pretrained(options.model, dtype=dtype).text_model.eval().to(self.device)
        if compiled:
            torch._dynamo.reset()
            torch._dynamo.config.recompile_limit = 64  # batch sizes; beyond this limit torch falls back to eager
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
    """Encoder.embed_text of the Python package, on a model that is loaded once."""

    def __init__(self, options, precision):
        self.encoder = fovea.load(options.calibrated, options.device, precision)

    def calls(self, texts):
        return {"from_texts": lambda: self.encoder.embed_text(texts, normalize=False)}


ENGINES = {
    "fovea, Encoder.embed_text": Fovea,
    "transformers sdpa": lambda o, p: Transformers(o, p, False),
    "torch.compile max-autotune": lambda o, p: Transformers(o, p, True),
}


def check(engine, precision, texts, want):
    """Returns the minimum cosine of an engine. Raises RuntimeError where it is too small."""
    return measuring.checked_cosine(engine.calls(texts)["from_texts"](), want, precision)


def program_rate(options, precision, texts, folder):
    """Returns the texts per second of `fovea embed --text`, from the difference between a long and a short run."""

    def seconds(count):
        out = folder / "texts.npy"
        out.unlink(missing_ok=True)
        common = {"m": options.calibrated, "device": options.device, "precision": precision, "quiet": True, "o": out}
        text_list = write_text_list(folder / "texts.jsonl", texts[:count])
        return Run(options.program, "embed", *command_arguments(text=text_list, **common)).seconds

    seconds(len(texts) // SHORT_RUN_DIVISOR)  # warm-up: loads the weights into the page cache
    few_seconds, all_seconds = (
        min(seconds(count) for _ in range(2)) for count in (len(texts) // SHORT_RUN_DIVISOR, len(texts))
    )
    if all_seconds <= few_seconds:
        raise RuntimeError(f"cannot measure a rate: {len(texts)} texts take less time than the program's start-up")
    return (len(texts) - len(texts) // SHORT_RUN_DIVISOR) / (all_seconds - few_seconds)


def measure(options, folder, save):
    texts = sentences(options.texts + CALIBRATION_TEXTS, random.Random(1))
    texts, calibration_texts = texts[CALIBRATION_TEXTS:], texts[:CALIBRATION_TEXTS]
    options.calibrated = (
        calibrate_copy(options, calibration_texts, folder)
        if "int8" in options.precision
        else measuring.link_uncalibrated(options.model, folder / "model")
    )
    exact = Transformers(options, "fp32", False)
    want = exact.from_tokens(exact.tokens(texts[:CHECKED]))
    del exact
    result = {"model": options.model.name, "device": options.device, "texts": len(texts), "tokens": TOKENS}
    result["rows"] = rows = []

    def add(row):
        rows.append(row)
        log(json.dumps(row))
        save(result)

    for precision in options.precision.split(","):
        for name, make in ENGINES.items():
            row = {"engine": name, "precision": precision}
            try:
                if "compile" in name and not options.compile:
                    raise RuntimeError("--no-compile")
                engine = make(options, precision)
                row["minimum_cosine"] = check(engine, precision, texts[:CHECKED], want)
                for batch in sorted({min(batch, len(texts)) for batch in measuring.numbers(options.batch)}):
                    rates = {
                        f"{key}_per_second": measuring.rate(call, batch, options.seconds, warm_up=2)
                        for key, call in engine.calls(texts[:batch]).items()
                    }
                    add(row | {"batch": batch} | rates)
            except Exception as error:  # peers raise exceptions of any type for what they do not support
                add(row | {"skipped": reason(error)})
        row = {"engine": "fovea embed --text", "precision": precision}
        try:
            add(row | {"batch": "all", "from_texts_per_second": program_rate(options, precision, texts, folder)})
        except RuntimeError as error:
            add(row | {"skipped": str(error)})
    return result


def main():
    parser = measuring.parser(__doc__, device="cuda", program="--program")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--precision", default="bf16,int8")
    parser.add_argument("--texts", type=int, default=32768)
    parser.add_argument("--batch", default="1,32,256,1024")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=True, help="also measure torch.compile"
    )
    options = parser.parse_args()
    options.model = options.model.resolve()
    measuring.disable_tf32()
    where = machine.describe(options.program, options.device)

    def save(result):
        if options.json:
            machine.write_result({"machine": where, "texts": [result]}, options.json)

    with tempfile.TemporaryDirectory() as name:
        found = measure(options, pathlib.Path(name), save)
    if not options.json:
        machine.write_result({"machine": where, "texts": [found]}, None)


if __name__ == "__main__":
    main()
