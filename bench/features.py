"""Measures features of photos beside transformers' on the same machine: values token by token, and images per second.

    python3 bench/features.py --model MODEL [--device cuda] [--images 1000] [--layer penultimate] [--precision bf16,int8]
                              [--batch 256] [--repeats 3] [--fovea build/release/bin/fovea] [--json FILE]

Photos are made from the samples (bench/photos.py). `fovea preprocess` makes the model's pixels of them, which both
sides take, so that values differ by arithmetic alone: each token is compared with transformers' in fp32 on the same
device. `fp32` (on the CPU alone) passes when no number is off by more than 2e-5 of its token's norm; `bf16` when the
least cosine of all tokens is 0.9995, or its distance from 1 at most twice that of transformers' bf16; int8, calibrated
with the sample photos in a copy of the model, is told. Figures of a comparison that did not pass are not measured, and
the exit code is 1.

Rates, of four times as many images, each the best of --repeats: `features_images_per_second` of `Encoder.features` on
decoded pixels [images, height, width, 3] with the result left on the device as f16; `photos_images_per_second` the same
on the JPEG files; `written_images_per_second` of `fovea embed --features` on the JPEG files, which the program itself
reports, and of the whole command; `transformers_*` of its bf16 model (fp32 on the CPU) on float pixels that are on the
device already, without and with copying the result to the host as f16; `compiled_*` the same of torch.compile."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import fovea
import machine
import measuring
import numpy
import photos as made
import torch
from programs import answer, listed, log, reason, words
from transformers import SiglipVisionModel

FP32_LIMIT = 2e-5
BF16_COSINE = 0.9995
PIECE = 128  # images that are compared at once
TIMES = 4  # as many images in the runs that rates come from


class Transformers:
    """transformers' model, whose layers end where the features are; or torch.compile's of it, for the batch size
    alone."""

    def __init__(self, options, dtype, compiled=False):
        self.layer, self.device, self.dtype = options.layer, options.device, dtype
        model = SiglipVisionModel.from_pretrained(options.model, dtype=dtype, attn_implementation="sdpa")
        self.model = model.eval().to(options.device)
        if compiled:
            self.model = torch.compile(
                self.model, mode="max-autotune" if options.device == "cuda" else "default", dynamic=False
            )

    def values(self, pixels):
        """What it takes of uint8 [images, height, width, 3]."""
        there = torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2)
        return ((there.float() / 255 - 0.5) / 0.5).to(self.dtype).contiguous()

    @torch.inference_mode()
    def features(self, values):
        out = self.model(values, output_hidden_states=self.layer == "penultimate")
        if self.layer == "penultimate":
            return out.hidden_states[-2]
        return out.pooler_output if self.layer == "pooled" else out.last_hidden_state

    def rates(self, pixels, batch, repeats):
        """Images per second on values that are there, and with the result copied to the host as f16."""
        whole = min(len(pixels) // batch, 4) * batch or len(pixels)  # of one size, which a compiled model has
        parts = [self.values(pixels[first : min(first + batch, whole)]) for first in range(0, whole, batch)]
        images = sum(map(len, parts))
        host = torch.empty(
            (batch, *self.features(parts[0]).shape[1:]), dtype=torch.float16, pin_memory=self.device == "cuda"
        )

        def run(copies):
            start = time.perf_counter()
            for part in parts:
                found = self.features(part)
                if copies:
                    host[: len(found)].copy_(found, non_blocking=True)
            if self.device == "cuda":
                torch.cuda.synchronize()
            return time.perf_counter() - start

        run(True)
        return images / min(run(False) for _ in range(repeats)), images / min(run(True) for _ in range(repeats))


class Comparison:
    """Tokens beside those of transformers in fp32, piece by piece, as float64 where they are."""

    def __init__(self):
        self.worst, self.cosines = 0.0, []

    def add(self, got, want):
        got, want = got.double().flatten(0, -2), want.double().flatten(0, -2)
        norms = want.norm(dim=1)
        worst = ((got - want).abs().amax(1) / norms).max().item()
        self.worst = worst if not worst <= self.worst else self.worst
        self.cosines.append(((got * want).sum(1) / norms / got.norm(dim=1)).cpu())

    def figures(self):
        cosines = torch.cat(self.cosines)
        return {
            "tokens": len(cosines),
            "worst_difference_of_norm": self.worst,
            "cosine_mean": cosines.mean().item(),
            "cosine_first_percentile": float(numpy.percentile(cosines.numpy(), 1)),
            "cosine_least": cosines.min().item(),
        }


def compared(options, pixels, exact, make):
    """`make(first, last)` gives a tensor of these images' features."""
    comparison = Comparison()
    for first in range(0, len(pixels), PIECE):
        last = min(first + PIECE, len(pixels))
        comparison.add(make(first, last).to(options.device), exact.features(exact.values(pixels[first:last])))
    return comparison.figures()


def passes(precision, figures, peer):
    if precision == "fp32":
        return figures["worst_difference_of_norm"] <= FP32_LIMIT
    if precision == "bf16":
        least = figures["cosine_least"]
        return least >= BF16_COSINE or (peer is not None and 1 - least <= 2 * (1 - peer["cosine_least"]))
    return figures["cosine_least"] > 0  # told; not so NaN


def program_rates(options, model, precision, files, folder):
    """Images per second of `fovea embed --features` on files, as it reports and by the whole command."""
    names_of_files = listed(folder / "names.txt", files)
    rates, wholes = [], []
    for turn in range(options.repeats):
        out = folder / f"written-{turn}"
        names = words(
            m=model, device=options.device, precision=precision, features=options.layer, progress="json", o=out
        )
        command = [str(options.fovea), "embed", names_of_files, *names]
        start = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        wholes.append(len(files) / (time.perf_counter() - start))
        rates.append(json.loads(done.stderr.splitlines()[-1])["images_per_second"])
        size = sum(file.stat().st_size for file in out.glob("embeddings-*.npy"))
        shutil.rmtree(out)
    return {"written_images_per_second": max(rates), "command_images_per_second": max(wholes), "written_bytes": size}


def best_rate(images, repeats, call):
    seconds = []
    for _ in range(repeats + 1):  # the first warms up
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
        del result
    return images / min(seconds[1:])


def calibrated(options, folder):
    model = measuring.uncalibrated(options.model, folder / "calibrated")
    answer(options.fovea, "calibrate", model, made.SAMPLES, "--precision", "int8")
    return model


def measure(options, folder):
    files = made.make_photos(folder / "photos", options.images)
    array = folder / "pixels.npy"
    answer(options.fovea, "preprocess", folder / "photos", *words(m=options.model, o=array, quiet=True))
    pixels = numpy.load(array)
    exact, rows, failed = Transformers(options, torch.float32), [], False
    peer, peer_figures = None, None
    for precision in options.precision.split(","):
        try:
            model = calibrated(options, folder) if precision == "int8" else pathlib.Path(options.model)
            encoder = fovea.load(model, options.device, precision)
        except (fovea.Error, RuntimeError) as error:
            log(f"skipped {precision}: {error}")
            rows.append({"precision": precision, "skipped": reason(error)})
            continue
        if peer is None:
            peer = Transformers(options, torch.float32 if options.device == "cpu" else torch.bfloat16)
            if options.device != "cpu":
                peer_figures = compared(options, pixels, exact, lambda a, b: peer.features(peer.values(pixels[a:b])))
        # Features of all images in one call, as a reader gets them: f16 is the default, f32 what arithmetic gives.
        wide = torch.from_dlpack(encoder.features(pixels, options.layer, dtype="f32"))
        figures = compared(options, pixels, exact, lambda a, b, wide=wide: wide[a:b])
        half = torch.from_dlpack(encoder.features(pixels, options.layer))
        same = bool(torch.equal(half, wide.half()))
        row = {
            "precision": precision,
            "device": encoder.device,
            "layer": options.layer,
            "images": len(pixels),
            "shape": list(half.shape[1:]),
            **figures,
            "f16_is_f32_rounded": same,
            "passes": passes(precision, figures, peer_figures) and same,
        }
        del wide, half
        rows.append(row)
        if not row["passes"]:
            failed = True
            log(f"{precision}: the features are off: {figures}")
            continue
        many_pixels, many_files = list(pixels) * TIMES, files * TIMES
        for name, given in (("features", many_pixels), ("photos", many_files)):
            rate = best_rate(len(given), options.repeats, lambda given=given: encoder.features(given, options.layer))
            row[f"{name}_images_per_second"] = rate
        encoder.close()
        row |= program_rates(options, model, precision, many_files, folder)
        log(
            f"{precision}: least cosine {row['cosine_least']:.6f}, {row['features_images_per_second']:.0f} images/s on the device, "
            f"{row['photos_images_per_second']:.0f} from files, {row['written_images_per_second']:.0f} written"
        )
    found = {"model": pathlib.Path(options.model).name, "layer": options.layer, "images": len(pixels), "rows": rows}
    if peer is not None:
        alone, copied = peer.rates(pixels, options.batch, options.repeats)
        found |= {
            "transformers_dtype": str(peer.dtype).removeprefix("torch."),
            "transformers_images_per_second": alone,
            "transformers_copied_images_per_second": copied,
            "transformers_batch": options.batch,
        }
        if peer_figures:
            found["transformers_figures"] = peer_figures
        log(f"transformers {found['transformers_dtype']}: {alone:.0f} images/s, {copied:.0f} copied to the host")
        try:
            compiled = Transformers(options, peer.dtype, compiled=True)
            alone, copied = compiled.rates(pixels, options.batch, options.repeats)
            found |= {"compiled_images_per_second": alone, "compiled_copied_images_per_second": copied}
            log(f"torch.compile: {alone:.0f} images/s, {copied:.0f} copied to the host")
        except Exception as error:  # whatever a compiler raises
            found["compiled_skipped"] = reason(error)
    return found, failed or peer is None


def main():
    parser = measuring.parser(__doc__, device="cuda")
    parser.add_argument("--model", required=True)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--layer", default="penultimate", choices=["last", "penultimate", "pooled"])
    parser.add_argument("--precision", help="default: bf16,int8 on a GPU, fp32 on the CPU")
    parser.add_argument("--batch", type=int, default=256, help="of transformers")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    options.precision = options.precision or ("bf16,int8" if options.device == "cuda" else "fp32")
    measuring.without_tf32()
    where = machine.describe(options.fovea, options.device)
    with tempfile.TemporaryDirectory() as folder:
        found, failed = measure(options, pathlib.Path(folder))
    machine.hand_over({"machine": where, "features": [found]}, options.json)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
