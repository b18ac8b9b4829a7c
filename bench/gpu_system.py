"""`fovea embed --device cuda` over many JPEGs, its stages alone, and a DataLoader pipeline beside it.

    python3 bench/gpu_system.py --model MODEL [--images 50000] [--precision bf16,int8] [--dataloader]
                                [--fovea build/release/bin/fovea] [--json FILE]

Photos of 500x375 (quality 90, about 46 KB) are made on the spot by all cores. Rates of `fovea embed` come from two runs of
different length, so that start-up cancels. The embeddings are compared with the CPU backend's in fp32. `--dataloader`:
torch's DataLoader with one worker a core, transformers' image processor on torchvision, and the torch.compile'd model
in bf16, warm."""

import argparse
import json
import os
import pathlib
import shutil
import tempfile
import time

import numpy

import machine
from photos import make_photos
from system import ROOT, Run

COMPARED = 64


def listed(work, photos):
    path = work / f"{len(photos)}.txt"
    path.write_text("".join(f"{photo}\n" for photo in photos))
    return f"@{path}"


def rate_between(short, long, run):
    """Images a second between a run over `short` images and one over `long`."""
    return (long - short) / (run(long).seconds - run(short).seconds)


def fovea_rates(options, photos, work, precision):
    out = work / f"out-{precision}"
    common = ["-m", options.model, "--device", "cuda", "--precision", precision, "--quiet", "--overwrite", "-o", out]
    few, many = len(photos) // 5, len(photos)
    gpu = rate_between(2 * few, 2 * many, lambda n: Run(options.fovea, "embed", "--synthetic", n, *common))
    both = rate_between(few, many, lambda n: Run(options.fovea, "embed", listed(work, photos[:n]), *common))
    return {"gpu_only": gpu, "end_to_end": both} | agreement(options, photos[:COMPARED], work, precision)


def embeddings(options, photos, work, *arguments):
    out = work / "compared.npy"
    out.unlink(missing_ok=True)
    Run(options.fovea, "embed", listed(work, photos), "-m", options.model, "--quiet", "-o", out, *arguments)
    return numpy.load(out)


def agreement(options, photos, work, precision):
    ours = embeddings(options, photos, work, "--device", "cuda", "--precision", precision)
    cpu = embeddings(options, photos, work, "--device", "cpu", "--precision", "fp32")
    cosines = (ours * cpu).sum(1) / numpy.linalg.norm(ours, axis=1) / numpy.linalg.norm(cpu, axis=1)
    return {"mean_cosine_to_cpu": float(cosines.mean()), "minimum_cosine_to_cpu": float(cosines.min())}


def decode_rate(options, photos, work):
    """With a model of one layer, which leaves the GPU next to nothing to do."""
    model, out = work / "one-layer", work / "out-decode"
    Run(options.fovea, "init", "--preset", "base-patch16-224", "--layers", 1, "-o", model)
    command = ["-m", model, "--device", "cuda", "--precision", "bf16", "--quiet", "--overwrite", "-o", out]
    few, many = len(photos) // 5, len(photos)
    return rate_between(few, many, lambda n: Run(options.fovea, "embed", listed(work, photos[:n]), *command))


def dataloader_rate(options, photos):
    import torch
    from PIL import Image
    from transformers import AutoImageProcessor, SiglipVisionModel

    processor = AutoImageProcessor.from_pretrained(options.model, use_fast=True)
    batch = 256

    class Photos(torch.utils.data.Dataset):
        def __len__(self):
            return len(photos)

        def __getitem__(self, index):
            with Image.open(photos[index]) as photo:
                return processor(photo.convert("RGB"), return_tensors="pt").pixel_values[0]

    model = SiglipVisionModel.from_pretrained(options.model, dtype=torch.bfloat16).eval().cuda()
    model = torch.compile(model, dynamic=False)
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(Photos(), batch, num_workers=os.cpu_count(), pin_memory=True, drop_last=True)
    seen, started = 0, None
    with torch.inference_mode():
        for number, values in enumerate(loader):
            model(values.cuda(non_blocking=True).bfloat16()).pooler_output.float().cpu()
            if number == 20:  # compiled, and the workers' queues are at their usual length
                started = time.perf_counter()
            elif number > 20:
                seen += batch
            if started and time.perf_counter() - started > options.dataloader_seconds:
                break
    return seen / (time.perf_counter() - started)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--images", type=int, default=50000)
    parser.add_argument("--precision", default="bf16,int8")
    parser.add_argument("--fovea", default=str(ROOT / "build/release/bin/fovea"))
    parser.add_argument("--dataloader", action="store_true")
    parser.add_argument("--dataloader-seconds", type=float, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()

    work = pathlib.Path(tempfile.mkdtemp(prefix="fovea-bench-"))
    result = {"machine": machine.describe() | {"gpu": machine.gpu()}}
    entries = result["gpu_end_to_end"] = []

    def save():
        text = json.dumps(result, indent=1)
        if options.json:
            options.json.write_text(text + "\n")
        return text

    try:
        photos = make_photos(work / "photos", options.images)
        size = sum(photo.stat().st_size for photo in photos) / len(photos)
        decode = decode_rate(options, photos, work)
        for precision in options.precision.split(","):
            entry = {"images": len(photos), "mean_bytes": size, "precision": precision, "decode_only": decode}
            entries.append(entry | fovea_rates(options, photos, work, precision))
            print(json.dumps(entries[-1]), flush=True)
            save()
        if options.dataloader:
            entries[0]["dataloader"] = dataloader_rate(options, photos)  # of bf16, the first
            print(f"DataLoader: {entries[0]['dataloader']:.0f} images/s", flush=True)
        text = save()
        if not options.json:
            print(text)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
