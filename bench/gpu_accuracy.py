"""Embeddings of photos on the GPU, by precision, beside transformers in fp32 on the same pixels.

    python3 bench/gpu_accuracy.py MODEL... [--photos examples/photos] [--precision bf16,int8,fp8]
                                  [--fovea build/release/bin/fovea] [--json FILE]

For the 8-bit precisions the models are calibrated here, twice: each half of the photos is embedded by a model that was
calibrated on the other half alone: on these photos and pieces of them, as many together as `fovea calibrate` looks at.
Cosines are of single photos; the table gives mean and minimum."""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy
import PIL.Image
import torch
from transformers import SiglipVisionModel

import machine
from eight_bit_accuracy import CALIBRATION_PIECES, pieces

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*command):
    subprocess.run([str(part) for part in command], check=True, stderr=subprocess.PIPE, text=True)


def expected(model, pixels):
    """transformers' embeddings in fp32 of uint8 pixels [n, height, width, 3]."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tower = SiglipVisionModel.from_pretrained(model).eval().to(device)
    values = torch.from_numpy(pixels.astype(numpy.float32) / 127.5 - 1).permute(0, 3, 1, 2).to(device)
    with torch.inference_mode():
        return tower(values).pooler_output.double().cpu().numpy()


def embed(options, model, photos, precision, work):
    """Fovea's embeddings [photos, d], not normalised."""
    out, listed = work / "out.npy", work / "photos.txt"
    out.unlink(missing_ok=True)
    listed.write_text("".join(f"{photo}\n" for photo in photos))
    run(options.fovea, "embed", f"@{listed}", "-m", model, "--quiet", "--device", options.device,
        "--precision", precision, "--no-normalize", "-o", out)
    return numpy.load(out).astype(numpy.float64)


def calibrated(options, model, photos, precision, work):
    """A folder with the model's files and a calibration on these photos alone, and pieces of them."""
    folder, chosen = (pathlib.Path(tempfile.mkdtemp(dir=work)) for _ in range(2))
    for file in pathlib.Path(model).resolve().iterdir():
        if not file.name.startswith("calibration-"):
            (folder / file.name).symlink_to(file)
    for photo in photos:
        (chosen / photo.name).symlink_to(photo)
    opened = [PIL.Image.open(photo).convert("RGB") for photo in photos]
    for number, piece in enumerate(pieces(opened, CALIBRATION_PIECES - len(photos), seed=2)):
        piece.save(chosen / f"piece-{number:02}.png")
    run(options.fovea, "calibrate", folder, chosen, "--precision", precision)
    return folder


def embed_held_out(options, model, photos, precision, work):
    """As embed, each photo by a model that was calibrated without it."""
    halves = photos[::2], photos[1::2]
    models = [calibrated(options, model, half, precision, work) for half in reversed(halves)]
    first, second = (embed(options, *pair, precision, work) for pair in zip(models, halves, strict=True))
    together = numpy.empty((len(photos), first.shape[1]))
    together[::2], together[1::2] = first, second
    return together


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--photos", type=pathlib.Path, default=ROOT / "examples" / "photos")
    parser.add_argument("--precision", default="bf16,int8,fp8")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--fovea", default=str(ROOT / "build/release/bin/fovea"))
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    for model in options.models:
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            photos = sorted(path.resolve() for path in options.photos.glob("*.jpg"))
            run(options.fovea, "preprocess", *photos, "-m", model, "--quiet", "-o", work / "pixels.npy")
            truth = expected(model, numpy.load(work / "pixels.npy"))
            for precision in options.precision.split(","):
                one = embed_held_out if precision in ("int8", "fp8") else embed
                ours = one(options, model, photos, precision, work)
                cosines = (ours * truth).sum(1) / numpy.linalg.norm(ours, axis=1) / numpy.linalg.norm(truth, axis=1)
                rows.append({"model": pathlib.Path(model).name, "precision": precision, "photos": len(cosines),
                             "mean_cosine": float(cosines.mean()), "minimum_cosine": float(cosines.min())})
                print("{model:32} {precision:5} mean {mean_cosine:.5f} minimum {minimum_cosine:.5f}".format(**rows[-1]),
                      flush=True)
    result = {"machine": machine.describe() | {"gpu": machine.gpu()}, "gpu_accuracy": rows}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
