"""Measures a NaFlex model's encoder beside transformers, which pads its images: same weights, sizes and batches, in
turns.

    python3 bench/naflex.py MODEL [--device cpu] [--precision fp32,bf16] [--batch 1,8,32] [--rounds 3] [--seconds 3]
                            [--threads 0] [--attention sdpa,eager] [--no-compile] [--fovea build/release/bin/fovea] [--json FILE]

Images have the proportions of photos, those that `fovea bench` takes (src/image/target_size.cpp), in its order. Before
anything is timed, Fovea's embeddings of such photos, and transformers' in the type that is timed, are compared with
transformers' in fp32 on the CPU. Both engines are timed without decoding, from patches in the host's memory to
embeddings there: transformers' are float patches, padded to max_num_patches, with their mask, from page-locked memory.
On a GPU `device_images_per_second` is the network alone, without the copies. torch.compile is that of transformers'
first attention, for each batch size alone. An engine that is left out is listed with its reason, as Fovea is for
--device cuda with --precision fp32."""

import argparse
import json
import pathlib
import statistics
import tempfile

import machine
import measuring
import numpy
import torch
from measuring import attempt, in_turns, left_out, tell_beside
from PIL import Image
from programs import answer, log, words
from transformers import Siglip2VisionModel
from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil

SIZES = ((1600, 1200), (1200, 1600), (1500, 1000), (1000, 1500), (1600, 900), (900, 1600), (1200, 1200), (2400, 800))
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
DEVICE_CALLS = 20


class Transformers:
    """transformers' model, on images that it pads."""

    def __init__(self, options, precision, attention, compiled=False):
        dtype = TYPES.get(precision)
        if dtype is None:
            raise RuntimeError("only its fp32 and bf16 are measured")
        self.device, self.dtype = options.device, dtype
        model = Siglip2VisionModel.from_pretrained(options.model, dtype=dtype, attn_implementation=attention)
        self.model = model.eval().to(self.device)
        if compiled:
            torch._dynamo.reset()
            self.model = torch.compile(self.model, dynamic=False)

    def inputs(self, images, batch):
        """Padded images, as many as a batch has, where the engine reads them."""
        chosen = [number % len(images["pixel_values"]) for number in range(batch)]
        found = {name: values[chosen] for name, values in images.items()}
        found["pixel_values"] = found["pixel_values"].to(self.dtype)
        return {name: values.pin_memory() if self.device == "cuda" else values for name, values in found.items()}

    def to_device(self, inputs):
        return {name: values.to(self.device, non_blocking=True) for name, values in inputs.items()}

    def embed(self, inputs):
        with torch.inference_mode():
            return self.model(**self.to_device(inputs)).pooler_output.float().cpu().numpy()

    def rate(self, inputs, seconds):
        """(images per second from host to host, those of the network alone or None): medians of calls."""
        batch = len(inputs["pixel_values"])
        whole = measuring.rate(lambda: self.embed(inputs), batch, seconds, warm_up=2)
        return whole, batch / self.device_seconds(inputs) if self.device == "cuda" else None

    def device_seconds(self, inputs):
        there, pairs = self.to_device(inputs), []
        with torch.inference_mode():
            for _ in range(DEVICE_CALLS):
                pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
                pair[0].record()
                self.model(**there)
                pair[1].record()
                pairs.append(pair)
        torch.cuda.synchronize()
        return statistics.median(first.elapsed_time(last) * 1e-3 for first, last in pairs)


class Fovea:
    """The program: `fovea embed` on photos of these sizes, and `fovea bench` on as many images."""

    def __init__(self, options, precision):
        self.options, self.precision = options, precision

    def run(self, *positional, **names):
        options = self.options
        common = {"m": options.model, "device": options.device, "precision": self.precision, "threads": options.threads}
        return answer(options.fovea, *words(*positional, **common, **names))

    def embed(self, photos, folder):
        out = folder / f"{self.precision}.npy"
        self.run("embed", photos, no_normalize=True, dtype="f32", quiet=True, overwrite=True, o=out)
        return numpy.load(out)

    def rate(self, batch, seconds):
        found = json.loads(self.run("bench", batch_size=batch, seconds=seconds, json=True))["figures"][0]
        return found["images_per_second"], found.get("device_images_per_second") or None


def made_photos(folder):
    """Photos of SIZES, in their order, as files and as images."""
    random = numpy.random.default_rng(0)
    images = []
    for number, (width, height) in enumerate(SIZES):
        small = random.integers(0, 256, (height // 25, width // 25, 3), dtype=numpy.uint8)
        images.append(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))
        images[-1].save(folder / f"{number}.png", compress_level=1)
    return images


def makers_of(options, precision, rows):
    """Functions that make the engines, by name; what is not asked for becomes a row that says so."""
    makers = {"fovea": lambda: Fovea(options, precision)}
    for attention in options.attention.split(","):
        makers[f"transformers {attention}"] = lambda attention=attention: Transformers(options, precision, attention)
    attention = options.attention.split(",")[0]
    if options.compile:
        makers[f"torch.compile {attention}"] = lambda: Transformers(options, precision, attention, True)
    else:
        left_out(rows, f"torch.compile {attention}", precision, "--no-compile")
    return makers


def measure(options, folder):
    photos = folder / "photos"
    photos.mkdir()
    processor = Siglip2ImageProcessorPil.from_pretrained(options.model)
    images = processor(made_photos(photos), return_tensors="pt")
    exact = Siglip2VisionModel.from_pretrained(options.model, attn_implementation="eager").eval()
    with torch.inference_mode():
        truth = exact(**images).pooler_output.numpy()
    tokens = images["spatial_shapes"].prod(1)
    rows = []
    for precision in options.precision.split(","):

        def embedded(name, engine):
            given = (photos, folder) if name == "fovea" else (engine.inputs(images, len(SIZES)),)
            return measuring.least_cosine(engine.embed(*given), truth, precision)

        makers = makers_of(options, precision, rows)
        engines = attempt(makers, precision, rows, lambda _, make: make())
        cosines = attempt(engines, precision, rows, embedded)
        for batch in measuring.numbers(options.batch):

            def rate(name, engine):
                found = engine.rate(batch if name == "fovea" else engine.inputs(images, batch), options.seconds)
                log(f"{precision} batch {batch}: {name} {found[0]:.2f} images/s")
                return found

            rates = in_turns(options.rounds, engines, precision, rows, rate)
            median = {name: statistics.median(rate for rate, _ in found) for name, found in rates.items()}
            for name, found in rates.items():
                row = {
                    "precision": precision,
                    "batch": batch,
                    "engine": name,
                    "images_per_second": median[name],
                    "rounds": [rate for rate, _ in found],
                    "minimum_cosine": cosines[name],
                }
                if all(alone is not None for _, alone in found):
                    row["device_images_per_second"] = statistics.median(alone for _, alone in found)
                rows.append(row)
            peers = [name for name in median if name != "fovea"]
            tell_beside(f"{precision} batch {batch}", "fovea", peers, median)
    return {
        "model": pathlib.Path(options.model).name,
        "device": options.device,
        "threads": options.threads,
        "most_tokens": int(images["pixel_values"].shape[1]),
        "mean_tokens": float(tokens.double().mean()),
        "rates": rows,
    }


def main():
    parser = measuring.parser(__doc__, device="cpu")
    parser.add_argument("model")
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--batch", default="1,8,32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=0, help="of both engines; 0: one per CPU")
    parser.add_argument("--attention", default="sdpa,eager", help="transformers' implementations")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True, help="also torch.compile")
    options = parser.parse_args()
    options.threads = options.threads or machine.cpus()
    torch.set_num_threads(options.threads)
    measuring.without_tf32()
    where = machine.describe(options.fovea, options.device)
    with tempfile.TemporaryDirectory() as folder:
        machine.hand_over({"machine": where, "naflex": [measure(options, pathlib.Path(folder))]}, options.json)


if __name__ == "__main__":
    main()
