"""Embeddings of photos on the GPU, by precision, beside transformers in fp32 on the same pixels.

    python3 bench/gpu_accuracy.py MODEL... [--photos examples/photos] [--precision bf16,int8,fp8]
                                  [--fovea build/release/bin/fovea] [--json FILE]

The models must be calibrated for the 8-bit precisions. Cosines are of single photos; the table gives mean and minimum."""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy
import torch
from transformers import SiglipVisionModel

import machine

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
            pixels, out = pathlib.Path(folder) / "pixels.npy", pathlib.Path(folder) / "out.npy"
            run(options.fovea, "preprocess", options.photos, "-m", model, "--quiet", "-o", pixels)
            truth = expected(model, numpy.load(pixels))
            for precision in options.precision.split(","):
                out.unlink(missing_ok=True)
                run(options.fovea, "embed", options.photos, "-m", model, "--quiet", "--device", options.device,
                    "--precision", precision, "--no-normalize", "-o", out)
                ours = numpy.load(out).astype(numpy.float64)
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
