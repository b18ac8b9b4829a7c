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
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import fovea
import machine
import torch
from system import Run
from text_accuracy import TOKENS, sentences, unit
from transformers import AutoTokenizer, SiglipModel

ROOT = pathlib.Path(__file__).resolve().parent.parent
MINIMUM_COSINE = {"fp32": 0.99999, "bf16": 0.999, "int8": 0.95}
CHECKED = 64
CALIBRATION_TEXTS = 256
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


def rate(call, texts, seconds):
    """Texts per second: the median of at least three calls."""
    for _ in range(2):
        call()
    times, started = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - started < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return texts / statistics.median(times)


def checked(engine, precision, texts, want):
    """The least cosine; an engine whose embeddings are off is left out."""
    least = float((unit(engine.calls(texts)["from_texts"]()) * want).sum(1).min())
    if not least >= MINIMUM_COSINE[precision]:
        raise RuntimeError(f"its embeddings are off: cosine {least}")
    return least


def of_program(options, precision, texts, folder):
    """Texts per second of `fovea embed --text`, between a short and a long run."""

    def seconds(count):
        lists, out = folder / "texts.jsonl", folder / "texts.npy"
        lists.write_text("".join(json.dumps(text) + "\n" for text in texts[:count]))
        out.unlink(missing_ok=True)
        return Run(
            options.program,
            "embed",
            "--text",
            f"@{lists}",
            "-m",
            options.calibrated,
            "--device",
            options.device,
            "--precision",
            precision,
            "--quiet",
            "-o",
            out,
        ).seconds

    seconds(len(texts) // SHARE)  # the weights are in the page cache from here on
    few_seconds, all_seconds = (min(seconds(count) for _ in range(2)) for count in (len(texts) // SHARE, len(texts)))
    if all_seconds <= few_seconds:
        raise RuntimeError(f"{len(texts)} texts are too few: the program's start takes longer")
    return (len(texts) - len(texts) // SHARE) / (all_seconds - few_seconds)


def measure(options, folder, save):
    texts = sentences(options.texts + CALIBRATION_TEXTS, random.Random(1))
    texts, others = texts[CALIBRATION_TEXTS:], texts[:CALIBRATION_TEXTS]
    options.calibrated = folder / "model"
    shutil.copytree(
        options.model, options.calibrated, copy_function=os.symlink, ignore=shutil.ignore_patterns("calibration-*")
    )
    if "int8" in options.precision:
        (folder / "others.jsonl").write_text("".join(json.dumps(text) + "\n" for text in others))
        photos = sorted((ROOT / "examples/photos").glob("*.jpg"))
        subprocess.run(
            [
                options.program,
                "calibrate",
                options.calibrated,
                *photos,
                "--precision",
                "int8",
                "--text",
                f"@{folder}/others.jsonl",
            ],
            check=True,
            capture_output=True,
        )
    exact = Transformers(options, "fp32", False)
    want = unit(exact.from_tokens(exact.tokens(texts[:CHECKED])))
    del exact
    found = {
        "model": options.model.name,
        "device": options.device,
        "texts": len(texts),
        "tokens": TOKENS,
        "rows": (rows := []),
    }
    for precision in options.precision.split(","):
        for name, make in ENGINES.items():
            row = {"engine": name, "precision": precision}
            try:
                if "compile" in name and not options.compile:
                    raise RuntimeError("--no-compile")
                engine = make(options, precision)
                row["minimum_cosine"] = checked(engine, precision, texts[:CHECKED], want)
                for batch in sorted({min(int(batch), len(texts)) for batch in options.batch.split(",")}):
                    rows.append(
                        row
                        | {"batch": batch}
                        | {
                            f"{way}_per_second": rate(call, batch, options.seconds)
                            for way, call in engine.calls(texts[:batch]).items()
                        }
                    )
                    print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            except Exception as reason:  # whatever a peer raises for what it does not support
                rows.append(row | {"skipped": (str(reason).splitlines() or [type(reason).__name__])[0][:200]})
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            save(found)
        row = {"engine": "fovea embed --text", "precision": precision}
        try:
            row |= {"batch": "all", "from_texts_per_second": of_program(options, precision, texts, folder)}
        except RuntimeError as reason:
            row["skipped"] = str(reason)
        rows.append(row)
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        save(found)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--precision", default="bf16,int8")
    parser.add_argument("--texts", type=int, default=32768)
    parser.add_argument("--batch", default="1,32,256,1024")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=True, help="torch.compile beside them"
    )
    parser.add_argument("--program", type=pathlib.Path, default=machine.PROGRAM)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.model = options.model.resolve()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    where = machine.describe(options.program) | ({"gpu": gpu} if (gpu := machine.gpu()) else {})

    def save(found):
        if options.json:
            machine.hand_over({"machine": where, "texts": [found]}, options.json)

    with tempfile.TemporaryDirectory() as name:
        found = measure(options, pathlib.Path(name), save)
    if not options.json:
        machine.hand_over({"machine": where, "texts": [found]}, None)


if __name__ == "__main__":
    main()
