"""Compares the encoder rate of a NaFlex model with that of transformers, which pads images: same weights, sizes and
batches, in alternating rounds.

    python3 bench/naflex.py MODEL [--device cpu] [--precision fp32,bf16] [--batch 1,8,32] [--rounds 3] [--seconds 3]
                            [--threads 0] [--attention sdpa,eager] [--no-compile] [--fovea build/release/bin/fovea] [--json FILE]

The images have the aspect ratios of photos, the same as in `fovea bench` (src/image/target_size.cpp) and in the same
order. Before anything is timed, embeddings of such photos by Fovea, and by transformers in the measured type, are
compared with those of transformers in fp32 on the CPU. Both engines are timed without decoding, from patches in host
memory to embeddings in host memory: transformers reads float patches, padded to max_num_patches, and their mask, from
page-locked memory. On a GPU, `device_images_per_second` is the rate of the network alone, without the copies.
torch.compile compiles the first of --attention, once per batch size. An engine that is left out is listed with its
reason, as Fovea is for --device cuda with --precision fp32."""

import argparse
import json
import pathlib
import statistics
import tempfile

import machine
import measuring
import numpy
import torch
from measuring import add_skipped_row, attempt, interleaved_results, log_against_best_peer
from PIL import Image
from programs import answer, command_arguments, log
from transformers import Siglip2VisionModel
from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil

SIZES = ((1600, 1200), (1200, 1600), (1500, 1000), (1000, 1500), (1600, 900), (900, 1600), (1200, 1200), (2400, 800))
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
DEVICE_CALLS = 20


class Transformers:
    """Runs the model of transformers on padded images."""

    def __init__(self, options, precision, attention, compiled=False):
        dtype = TYPES.get(precision)
        if dtype is None:
            raise RuntimeError("measured only in fp32 and bf16")
        self.device, self.dtype = options.device, dtype
        model = Siglip2VisionModel.from_pretrained(options.model, dtype=dtype, attn_implementation=attention)
        self.model = model.eval().to(self.device)
        if compiled:
            torch._dynamo.reset()
            self.model = torch.compile(self.model, dynamic=False)

    def inputs(self, images, batch):
        """Returns a batch of padded images in host memory, page-locked for a GPU."""
        chosen = [number % len(images["pixel_values"]) for number in range(batch)]
        batch_inputs = {name: values[chosen] for name, values in images.items()}
        batch_inputs["pixel_values"] = batch_inputs["pixel_values"].to(self.dtype)
        return {name: values.pin_memory() if self.device == "cuda" else values for name, values in batch_inputs.items()}

    def to_device(self, inputs):
        return {name: values.to(self.device, non_blocking=True) for name, values in inputs.items()}

    def embed(self, inputs):
        with torch.inference_mode():
            return self.model(**self.to_device(inputs)).pooler_output.float().cpu().numpy()

    def rate(self, inputs, seconds):
        """Returns images per second from host to host, and those of the network alone or None, by medians of calls."""
        batch = len(inputs["pixel_values"])
        host_rate = measuring.rate(lambda: self.embed(inputs), batch, seconds, warm_up=2)
        return host_rate, batch / self.device_seconds(inputs) if self.device == "cuda" else None

    def device_seconds(self, inputs):
        device_inputs, pairs = self.to_device(inputs), []
        with torch.inference_mode():
            for _ in range(DEVICE_CALLS):
                pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
                pair[0].record()
                self.model(**device_inputs)
                pair[1].record()
                pairs.append(pair)
        torch.cuda.synchronize()
        return statistics.median(first.elapsed_time(last) * 1e-3 for first, last in pairs)


class Fovea:
    """Runs `fovea embed` on photos of SIZES, and `fovea bench` on batches of the same sizes."""

    def __init__(self, options, precision):
        self.options, self.precision = options, precision

    def run(self, *positional, **names):
        options = self.options
        common = {"m": options.model, "device": options.device, "precision": self.precision, "threads": options.threads}
        return answer(options.fovea, *command_arguments(*positional, **common, **names))

    def embed(self, photos, folder):
        out = folder / f"{self.precision}.npy"
        self.run("embed", photos, no_normalize=True, dtype="f32", quiet=True, overwrite=True, o=out)
        return numpy.load(out)

    def rate(self, batch, seconds):
        figures = json.loads(self.run("bench", batch_size=batch, seconds=seconds, json=True))["figures"][0]
        return figures["images_per_second"], figures.get("device_images_per_second") or None


def make_photos(folder):
    """Makes photos of SIZES, in this order. Writes them as files and returns the images."""
    random = numpy.random.default_rng(0)
    images = []
    for number, (width, height) in enumerate(SIZES):
        small = random.integers(0, 256, (height // 25, width // 25, 3), dtype=numpy.uint8)
        images.append(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))
        images[-1].save(folder / f"{number}.png", compress_level=1)
    return images


def engine_makers(options, precision, rows):
    """Returns functions that make the engines, by name; adds a row for an engine that the options exclude."""
    makers = {"fovea": lambda: Fovea(options, precision)}
    for attention in options.attention.split(","):
        makers[f"transformers {attention}"] = lambda attention=attention: Transformers(options, precision, attention)
    attention = options.attention.split(",")[0]
    if options.compile:
        makers[f"torch.compile {attention}"] = lambda: Transformers(options, precision, attention, True)
    else:
        add_skipped_row(rows, f"torch.compile {attention}", precision, "--no-compile")
    return makers


def measure(options, folder):
    photos = folder / "photos"
    photos.mkdir()
    processor = Siglip2ImageProcessorPil.from_pretrained(options.model)
    images = processor(make_photos(photos), return_tensors="pt")
    exact = Siglip2VisionModel.from_pretrained(options.model, attn_implementation="eager").eval()
    with torch.inference_mode():
        truth = exact(**images).pooler_output.numpy()
    tokens = images["spatial_shapes"].prod(1)
    rows = []
    for precision in options.precision.split(","):

        def embedded(name, engine):
            arguments = (photos, folder) if name == "fovea" else (engine.inputs(images, len(SIZES)),)
            return measuring.checked_cosine(engine.embed(*arguments), truth, precision)

        makers = engine_makers(options, precision, rows)
        engines = attempt(makers, precision, rows, lambda _, make: make())
        cosines = attempt(engines, precision, rows, embedded)
        for batch in measuring.numbers(options.batch):

            def rate(name, engine):
                rates = engine.rate(batch if name == "fovea" else engine.inputs(images, batch), options.seconds)
                log(f"{precision} batch {batch}: {name} {rates[0]:.2f} images/s")
                return rates

            rates = interleaved_results(options.rounds, engines, precision, rows, rate)
            median = {name: statistics.median(rate for rate, _ in rounds) for name, rounds in rates.items()}
            for name, rounds in rates.items():
                row = {
                    "precision": precision,
                    "batch": batch,
                    "engine": name,
                    "images_per_second": median[name],
                    "rounds": [rate for rate, _ in rounds],
                    "minimum_cosine": cosines[name],
                }
                if all(alone is not None for _, alone in rounds):
                    row["device_images_per_second"] = statistics.median(alone for _, alone in rounds)
                rows.append(row)
            peers = [name for name in median if name != "fovea"]
            log_against_best_peer(f"{precision} batch {batch}", "fovea", peers, median)
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
    parser.add_argument("--threads", type=int, default=0, help="threads of both engines; 0: one per CPU")
    parser.add_argument("--attention", default="sdpa,eager", help="attention implementations of transformers")
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=True, help="also measure torch.compile"
    )
    options = parser.parse_args()
    options.threads = options.threads or machine.cpus()
    torch.set_num_threads(options.threads)
    measuring.disable_tf32()
    where = machine.describe(options.fovea, options.device)
    with tempfile.TemporaryDirectory() as folder:
        machine.write_result({"machine": where, "naflex": [measure(options, pathlib.Path(folder))]}, options.json)


if __name__ == "__main__":
    main()
