"""Measures encoder rates of Fovea, transformers, torch.compile and onnxruntime: with the same model, pixels
and threads, in the same run, in turns.

    python3 bench/peers_cpu.py MODEL [--batch 1,32] [--precision fp32,bf16] [--rounds 3] [--seconds 3]
                               [--threads 0] [--bench build/release/bin/encoder_bench]
                               [--tool build/release/tests/encode_tool] [--skip NAME,...] [--json FILE]

Before anything is timed, every engine's embeddings of the same pixels are compared with
transformers' in fp32. Each round times each engine once; the figure is the median of the rounds.
An engine that fails is skipped with its reason."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from transformers import SiglipVisionModel

import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
MINIMUM_COSINE = {"fp32": 0.99999, "bf16": 0.999}
CHECKED_IMAGES = 4


def log(*words):
    print(*words, file=sys.stderr, flush=True)


class Torch:
    """transformers' model, eager or compiled."""

    def __init__(self, options, precision, compiled, freezing=False):
        self.dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
        model = SiglipVisionModel.from_pretrained(options.model, dtype=self.dtype).eval()
        self.freezing = freezing
        self.model = model
        if compiled:
            import torch._inductor.config as inductor

            torch._dynamo.reset()
            inductor.freezing = freezing
            self.model = torch.compile(model, dynamic=False)

    def embed(self, values):
        with torch.no_grad():  # freezing does not support inference_mode
            return self.model(torch.from_numpy(values).to(self.dtype)).pooler_output.float().numpy()


class Onnx:
    """onnxruntime on the model that torch exports."""

    def __init__(self, options, precision):
        if precision != "fp32":
            raise RuntimeError("its CPU provider computes in fp32")
        import onnxruntime

        model = SiglipVisionModel.from_pretrained(options.model, attn_implementation="eager").eval()
        side = model.config.image_size
        folder = tempfile.mkdtemp(prefix="peers-")
        path = os.path.join(folder, "model.onnx")

        class Pooled(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = model

            def forward(self, values):
                return self.inner(values).pooler_output

        torch.onnx.export(
            Pooled().eval(), (torch.zeros(2, 3, side, side),), path, input_names=["values"], output_names=["pooled"],
            dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=1024)},), dynamo=True, verbose=False,
        )
        session = onnxruntime.SessionOptions()
        session.intra_op_num_threads = options.threads
        self.session = onnxruntime.InferenceSession(path, session, providers=["CPUExecutionProvider"])

    def embed(self, values):
        return self.session.run(None, {"values": values})[0]


class Fovea:
    """Runs encoder_bench and encode_tool, each in a new process."""

    def __init__(self, options, precision):
        self.options, self.precision = options, precision
        self.details = {}

    def embed_pixels(self, pixels):
        with tempfile.TemporaryDirectory() as folder:
            source, out = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
            numpy.save(source, pixels)
            command = [self.options.tool, self.options.model, source, self.precision, out, str(self.options.threads)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr.strip())
            return numpy.load(out)

    def rate(self, batch, _values, seconds):
        command = [
            self.options.bench, self.options.model, "--batch", str(batch), "--precision", self.precision,
            "--threads", str(self.options.threads), "--seconds", str(seconds),
        ]
        done = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        self.details[batch] = done["results"][0] | {"device": done["device"], "load_seconds": done["load_seconds"]}
        return done["results"][0]["images_per_second"]


def rate(engine, batch, values, seconds):
    """Images per second: the median of at least three calls."""
    if isinstance(engine, Fovea):
        return engine.rate(batch, values, seconds)
    engine.embed(values)  # this batch size may be new to it
    times, started = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - started < seconds:
        start = time.perf_counter()
        engine.embed(values)
        times.append(time.perf_counter() - start)
    return batch / statistics.median(times)


ENGINES = {
    "fovea": Fovea,
    "transformers eager": lambda o, p: Torch(o, p, compiled=False),
    "torch.compile": lambda o, p: Torch(o, p, compiled=True),
    "torch.compile freezing": lambda o, p: Torch(o, p, compiled=True, freezing=True),
    "onnxruntime": Onnx,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--batch", default="1,32")
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--bench", type=pathlib.Path, default=ROOT / "build/release/bin/encoder_bench")
    parser.add_argument("--tool", type=pathlib.Path, default=ROOT / "build/release/tests/encode_tool")
    parser.add_argument("--skip", default="", help="engines to leave out")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.threads = options.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(options.threads)
    batches = [int(item) for item in options.batch.split(",")]

    expected_model = SiglipVisionModel.from_pretrained(options.model).eval()
    side = expected_model.config.image_size
    random = numpy.random.default_rng(0)
    pixels = random.integers(0, 256, (max(CHECKED_IMAGES, *batches), side, side, 3), dtype=numpy.uint8)
    values = ((pixels.astype(numpy.float32) / 255 - 0.5) / 0.5).transpose(0, 3, 1, 2).copy()
    with torch.no_grad():
        expected = expected_model(torch.from_numpy(values[:CHECKED_IMAGES])).pooler_output.numpy()
    del expected_model

    results = []
    for precision in options.precision.split(","):
        engines, cosines = {}, {}
        for name, make in ENGINES.items():
            if name in options.skip.split(","):
                continue
            try:
                engine = make(options, precision)
                if isinstance(engine, Fovea):
                    got = engine.embed_pixels(pixels[:CHECKED_IMAGES])
                else:
                    got = engine.embed(values[:CHECKED_IMAGES])
                norms = numpy.linalg.norm(got, axis=1) * numpy.linalg.norm(expected, axis=1)
                cosines[name] = float(((got * expected).sum(1) / norms).min())
                if not cosines[name] >= MINIMUM_COSINE[precision]:
                    raise RuntimeError(f"its embeddings are off: cosine {cosines[name]}")
                engines[name] = engine
            except Exception as reason:  # noqa: BLE001: whatever a peer's export or compiler raises
                log(f"skipped {name} {precision}: {str(reason).splitlines()[0] if str(reason) else type(reason)}")
        for batch in batches:
            rates = {name: [] for name in engines}
            for turn in range(options.rounds):
                for name, engine in engines.items():
                    rates[name].append(rate(engine, batch, values[:batch], options.seconds))
                    log(f"{precision} batch {batch} round {turn}: {name} {rates[name][-1]:.2f} images/s")
            for name, engine in engines.items():
                row = {
                    "precision": precision, "batch": batch, "engine": name,
                    "images_per_second": statistics.median(rates[name]), "rounds": rates[name],
                    "minimum_cosine": cosines[name],
                }
                if isinstance(engine, Fovea):
                    row["details"] = engine.details[batch]
                results.append(row)
            peers = {name: statistics.median(r) for name, r in rates.items() if name != "fovea"}
            if peers and "fovea" in rates:
                best = max(peers, key=peers.get)
                own = statistics.median(rates["fovea"])
                print(f"{precision} batch {batch}: fovea {own:.2f} images/s, {own / peers[best]:.2f} x {best} "
                      f"{peers[best]:.2f}", flush=True)
    text = json.dumps({"machine": machine.describe(), "threads": options.threads, "results": results}, indent=1)
    if options.json:
        options.json.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
