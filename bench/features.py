"""Compares features of photos with those of transformers on the same machine: values per token, and images per second.

    python3 bench/features.py --model MODEL [--device cuda] [--images 1000] [--layer penultimate] [--precision bf16,int8]
                              [--batch 256] [--repeats 3] [--fovea build/release/bin/fovea] [--json FILE]

The photos are made from the samples (bench/photos.py). `fovea preprocess` turns them into the pixels that both sides
read, so that values differ by arithmetic alone: each token is compared with that of transformers in fp32 on the same
device. `fp32` (CPU only) passes when no value is off by more than 2e-5 of its token's norm; `bf16` when the minimum
cosine of all tokens is at least 0.9995, or its distance from 1 at most twice that of transformers in bf16; int8,
calibrated with the sample photos in a copy of the model, is reported without a limit. A precision that fails the
comparison is not timed, and the exit code is then 1.

Rates are measured on four times as many images, each the best of --repeats: `features_images_per_second` is that of
`Encoder.features` on decoded pixels [images, height, width, 3], with the result left on the device as f16;
`photos_images_per_second` the same on JPEG files; `written_images_per_second` that of `fovea embed --features` on JPEG
files, as the program reports it, and `command_images_per_second` that of the whole command; `transformers_*` those of
the bf16 model (fp32 on the CPU) on float pixels that are on the device already, without and with copying the result to
the host as f16; `compiled_*` the same with torch.compile."""

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
from programs import answer, command_arguments, log, reason, write_list
from transformers import SiglipVisionModel

FP32_LIMIT = 2e-5
BF16_COSINE = 0.9995
PIECE = 128  # images per comparison
TIMES = 4  # rates are measured on this many repetitions of the images


class Transformers:
    """The model of transformers, or that model compiled by torch.compile for a single batch size."""

    def __init__(self, options, dtype, compiled=False):
        self.layer, self.device, self.dtype = options.layer, options.device, dtype
        model = SiglipVisionModel.from_pretrained(options.model, dtype=dtype, attn_implementation="sdpa")
        self.model = model.eval().to(options.device)
        if compiled:
            self.model = torch.compile(
                self.model, mode="max-autotune" if options.device == "cuda" else "default", dynamic=False
            )

    def values(self, pixels):
        """Returns the model's input for uint8 pixels [images, height, width, 3]."""
        device_pixels = torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2)
        return ((device_pixels.float() / 255 - 0.5) / 0.5).to(self.dtype).contiguous()

    @torch.inference_mode()
    def features(self, values):
        out = self.model(values, output_hidden_states=self.layer == "penultimate")
        if self.layer == "penultimate":
            return out.hidden_states[-2]
        return out.pooler_output if self.layer == "pooled" else out.last_hidden_state

    def rates(self, pixels, batch, repeats):
        """Returns images per second on inputs that are on the device, without and with a copy of the result to the host
        as f16."""
        count = min(len(pixels) // batch, 4) * batch or len(pixels)  # batches of one size, as the compiled model needs
        parts = [self.values(pixels[first : min(first + batch, count)]) for first in range(0, count, batch)]
        images = sum(map(len, parts))
        host = torch.empty(
            (batch, *self.features(parts[0]).shape[1:]), dtype=torch.float16, pin_memory=self.device == "cuda"
        )

        def run(copies):
            start = time.perf_counter()
            for part in parts:
                features = self.features(part)
                if copies:
                    host[: len(features)].copy_(features, non_blocking=True)
            if self.device == "cuda":
                torch.cuda.synchronize()
            return time.perf_counter() - start

        run(True)
        return images / min(run(False) for _ in range(repeats)), images / min(run(True) for _ in range(repeats))


class Comparison:
    """Compares tokens with those of transformers in fp32, batch by batch, in float64 on their device."""

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


def compare_features(options, pixels, exact, make):
    """Returns the figures of a comparison; `make(first, last)` returns the features of images in that range."""
    comparison = Comparison()
    for first in range(0, len(pixels), PIECE):
        last = min(first + PIECE, len(pixels))
        comparison.add(make(first, last).to(options.device), exact.features(exact.values(pixels[first:last])))
    return comparison.figures()


def passes(precision, figures, peer):
    if precision == "fp32":
        return figures["worst_difference_of_norm"] <= FP32_LIMIT
    if precision == "bf16":
        minimum_cosine = figures["cosine_least"]
        return minimum_cosine >= BF16_COSINE or (
            peer is not None and 1 - minimum_cosine <= 2 * (1 - peer["cosine_least"])
        )
    return figures["cosine_least"] > 0  # no limit, but NaN fails


def program_rates(options, model, precision, files, folder):
    """Returns the images per second of `fovea embed --features` on files: as it reports them, and over the whole
    command."""
    file_list = write_list(folder / "names.txt", files)
    rates, command_rates = [], []
    for turn in range(options.repeats):
        out = folder / f"written-{turn}"
        arguments = command_arguments(
            m=model, device=options.device, precision=precision, features=options.layer, progress="json", o=out
        )
        command = [str(options.fovea), "embed", file_list, *arguments]
        start = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        command_rates.append(len(files) / (time.perf_counter() - start))
        rates.append(json.loads(done.stderr.splitlines()[-1])["images_per_second"])
        size = sum(file.stat().st_size for file in out.glob("embeddings-*.npy"))
        shutil.rmtree(out)
    return {
        "written_images_per_second": max(rates),
        "command_images_per_second": max(command_rates),
        "written_bytes": size,
    }


def best_rate(images, repeats, call):
    seconds = []
    for _ in range(repeats + 1):  # the first run warms up
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
        del result
    return images / min(seconds[1:])


def calibrate_copy(options, folder):
    model = measuring.link_uncalibrated(options.model, folder / "calibrated")
    answer(options.fovea, "calibrate", model, made.SAMPLES, "--precision", "int8")
    return model


def measure(options, folder):
    files = made.make_photos(folder / "photos", options.images)
    array = folder / "pixels.npy"
    answer(options.fovea, "preprocess", folder / "photos", *command_arguments(m=options.model, o=array, quiet=True))
    pixels = numpy.load(array)
    exact, rows, failed = Transformers(options, torch.float32), [], False
    peer, peer_figures = None, None
    for precision in options.precision.split(","):
        try:
            model = calibrate_copy(options, folder) if precision == "int8" else pathlib.Path(options.model)
            encoder = fovea.load(model, options.device, precision)
        except (fovea.Error, RuntimeError) as error:
            log(f"skipped {precision}: {error}")
            rows.append({"precision": precision, "skipped": reason(error)})
            continue
        if peer is None:
            peer = Transformers(options, torch.float32 if options.device == "cpu" else torch.bfloat16)
            if options.device != "cpu":
                peer_figures = compare_features(
                    options, pixels, exact, lambda a, b: peer.features(peer.values(pixels[a:b]))
                )
        # One call for all images, as users make it. The default is f16; f32 is the result before rounding.
        wide = torch.from_dlpack(encoder.features(pixels, options.layer, dtype="f32"))
        figures = compare_features(options, pixels, exact, lambda a, b, wide=wide: wide[a:b])
        half = torch.from_dlpack(encoder.features(pixels, options.layer))
        is_rounded = bool(torch.equal(half, wide.half()))
        row = {
            "precision": precision,
            "device": encoder.device,
            "layer": options.layer,
            "images": len(pixels),
            "shape": list(half.shape[1:]),
            **figures,
            "f16_is_f32_rounded": is_rounded,
            "passes": passes(precision, figures, peer_figures) and is_rounded,
        }
        del wide, half
        rows.append(row)
        if not row["passes"]:
            failed = True
            log(f"{precision}: features differ from those of transformers by more than the limit: {figures}")
            continue
        many_pixels, many_files = list(pixels) * TIMES, files * TIMES
        for name, inputs in (("features", many_pixels), ("photos", many_files)):
            rate = best_rate(
                len(inputs), options.repeats, lambda inputs=inputs: encoder.features(inputs, options.layer)
            )
            row[f"{name}_images_per_second"] = rate
        encoder.close()
        row |= program_rates(options, model, precision, many_files, folder)
        log(
            f"{precision}: minimum cosine {row['cosine_least']:.6f}, "
            f"{row['features_images_per_second']:.0f} images/s on the device, "
            f"{row['photos_images_per_second']:.0f} from files, {row['written_images_per_second']:.0f} written"
        )
    entry = {
        "model": pathlib.Path(options.model).name,
        "layer": options.layer,
        "images": len(pixels),
        "rows": rows,
    }
    if peer is not None:
        device_rate, host_rate = peer.rates(pixels, options.batch, options.repeats)
        entry |= {
            "transformers_dtype": str(peer.dtype).removeprefix("torch."),
            "transformers_images_per_second": device_rate,
            "transformers_copied_images_per_second": host_rate,
            "transformers_batch": options.batch,
        }
        if peer_figures:
            entry["transformers_figures"] = peer_figures
        log(
            f"transformers {entry['transformers_dtype']}: {device_rate:.0f} images/s, {host_rate:.0f} copied to the host"
        )
        try:
            compiled = Transformers(options, peer.dtype, compiled=True)
            device_rate, host_rate = compiled.rates(pixels, options.batch, options.repeats)
            entry |= {"compiled_images_per_second": device_rate, "compiled_copied_images_per_second": host_rate}
            log(f"torch.compile: {device_rate:.0f} images/s, {host_rate:.0f} copied to the host")
        except Exception as error:  # compilers raise exceptions of any type
            entry["compiled_skipped"] = reason(error)
    return entry, failed or peer is None


def main():
    parser = measuring.parser(__doc__, device="cuda")
    parser.add_argument("--model", required=True)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--layer", default="penultimate", choices=["last", "penultimate", "pooled"])
    parser.add_argument("--precision", help="default: bf16,int8 on a GPU, fp32 on the CPU")
    parser.add_argument("--batch", type=int, default=256, help="batch size of transformers")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    options.precision = options.precision or ("bf16,int8" if options.device == "cuda" else "fp32")
    measuring.disable_tf32()
    where = machine.describe(options.fovea, options.device)
    with tempfile.TemporaryDirectory() as folder:
        entry, failed = measure(options, pathlib.Path(folder))
    machine.write_result({"machine": where, "features": [entry]}, options.json)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
