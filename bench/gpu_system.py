"""Times `fovea embed --device cuda` over many JPEGs, its stages alone, and two pipelines of torch for comparison.

    python3 bench/gpu_system.py --model MODEL [--images 50000] [--precision bf16,int8] [--no-peers]
                                [--fovea build/release/bin/fovea] [--json FILE]

Photos of 500x375 (quality 90, about 46 KB) are generated on all cores. Rates of `fovea embed` come from two runs of
different length, so that start-up cancels. The embeddings are compared with those of the CPU backend in fp32. The two
peers are timed after a warm-up, with the torch.compile'd model in bf16: torch's DataLoader with one worker per core and
transformers' image processor on torchvision; and nvJPEG, which torchvision calls for one batch at a time while threads
read the files, with resizing on the GPU. A peer that is left out is listed with its reason."""

import argparse
import concurrent.futures
import json
import pathlib
import shutil
import tempfile
import time

import machine
import measuring
import numpy
from photos import make_photos
from programs import command_arguments, reason, write_list
from system import Run, rate

COMPARED_PHOTOS = 64
BATCH = 256  # batch size of the peers
WARM_UP_BATCHES = 20
BATCHES_READ_AHEAD = 8  # of files, before they are decoded


def fovea_rates(options, photos, work, precision):
    out = work / f"out-{precision}"
    common = command_arguments(m=options.model, device="cuda", precision=precision, quiet=True, overwrite=True, o=out)
    short_count, count = len(photos) // 5, len(photos)
    names = work / "photos.txt"
    gpu = rate(2 * short_count, 2 * count, lambda n: Run(options.fovea, "embed", "--synthetic", n, *common), pairs=1)
    end_to_end = rate(
        short_count, count, lambda n: Run(options.fovea, "embed", write_list(names, photos[:n]), *common), pairs=1
    )
    return {"gpu_only": gpu, "end_to_end": end_to_end} | agreement(options, photos[:COMPARED_PHOTOS], work, precision)


def embeddings(options, photos, work, **names):
    out = work / "compared.npy"
    out.unlink(missing_ok=True)
    common = command_arguments(write_list(work / "photos.txt", photos), m=options.model, quiet=True, o=out, **names)
    Run(options.fovea, "embed", *common)
    return numpy.load(out)


def agreement(options, photos, work, precision):
    ours = embeddings(options, photos, work, device="cuda", precision=precision)
    cpu = embeddings(options, photos, work, device="cpu", precision="fp32")
    cosines = measuring.cosines(ours, cpu)
    return {"mean_cosine_to_cpu": float(cosines.mean()), "minimum_cosine_to_cpu": float(cosines.min())}


def decode_rate(options, photos, work):
    """Returns the images per second of decoding, which is the bottleneck with a model of one layer."""
    model, out = work / "one-layer", work / "out-decode"
    Run(options.fovea, "init", "--preset", "base-patch16-224", "--layers", 1, "-o", model)
    command = command_arguments(m=model, device="cuda", precision="bf16", quiet=True, overwrite=True, o=out)
    short_count, count = len(photos) // 5, len(photos)
    names = work / "photos.txt"
    return rate(
        short_count, count, lambda n: Run(options.fovea, "embed", write_list(names, photos[:n]), *command), pairs=1
    )


def compiled_model(options):
    import torch
    from transformers import SiglipVisionModel

    model = SiglipVisionModel.from_pretrained(options.model, dtype=torch.bfloat16).eval().cuda()
    return torch.compile(model, mode="max-autotune", dynamic=False)


def warm_rate(options, batches):
    """Returns the images per second of an iterable that yields the number of images of each batch. The first batches
    compile the model and fill queues, and are not timed."""
    timed_images, started = 0, None
    for number, count in enumerate(batches):
        if number == WARM_UP_BATCHES:
            started = time.perf_counter()
        elif number > WARM_UP_BATCHES:
            timed_images += count
        if started and time.perf_counter() - started > options.peer_seconds:
            break
    if not timed_images:
        raise RuntimeError(
            f"too few images: {number + 1} batches of {BATCH}, of which {WARM_UP_BATCHES} are for the warm-up"
        )
    return timed_images / (time.perf_counter() - started)


def dataloader_rate(options, photos):
    import torch
    from PIL import Image
    from transformers import AutoImageProcessor

    processor = AutoImageProcessor.from_pretrained(options.model, use_fast=True)

    class Photos(torch.utils.data.Dataset):
        def __len__(self):
            return len(photos)

        def __getitem__(self, index):
            with Image.open(photos[index]) as photo:
                return processor(photo.convert("RGB"), return_tensors="pt").pixel_values[0]

    model = compiled_model(options)
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(Photos(), BATCH, num_workers=machine.cpus(), pin_memory=True, drop_last=True)

    def batches():
        with torch.inference_mode():
            for values in loader:
                model(values.cuda(non_blocking=True).bfloat16()).pooler_output.float().cpu()
                yield len(values)

    return warm_rate(options, batches())


def nvjpeg_rate(options, photos):
    import torch
    import torchvision
    from torchvision.transforms.v2 import functional

    model = compiled_model(options)
    side = model.config.image_size

    def files(first):
        return [torchvision.io.read_file(str(photo)) for photo in photos[first : first + BATCH]]

    def batches():
        firsts = range(0, len(photos) - BATCH + 1, BATCH)
        with concurrent.futures.ThreadPoolExecutor(machine.cpus()) as pool, torch.inference_mode():
            ahead = [pool.submit(files, first) for first in firsts[:BATCHES_READ_AHEAD]]
            for number in range(len(firsts)):
                if number + BATCHES_READ_AHEAD < len(firsts):
                    ahead.append(pool.submit(files, firsts[number + BATCHES_READ_AHEAD]))
                decoded = torchvision.io.decode_jpeg(
                    ahead.pop(0).result(), mode=torchvision.io.ImageReadMode.RGB, device="cuda"
                )
                pixels = functional.resize(torch.stack(decoded), [side, side], antialias=True)
                model(pixels.bfloat16() / 127.5 - 1).pooler_output.float().cpu()
                yield BATCH

    return warm_rate(options, batches())


PEERS = {"DataLoader, torch.compile bf16": dataloader_rate, "nvJPEG, torch.compile bf16": nvjpeg_rate}


def peer_row(options, photos, name):
    try:
        return {"peer": name, "images_per_second": PEERS[name](options, photos)}
    except Exception as error:  # peers raise exceptions of any type for what they do not support
        return {"peer": name, "skipped": reason(error)}


def main():
    parser = measuring.parser(__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--images", type=int, default=50000)
    parser.add_argument("--precision", default="bf16,int8")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--peer-seconds", type=float, default=5)
    options = parser.parse_args()

    work = pathlib.Path(tempfile.mkdtemp(prefix="fovea-bench-"))
    result = {"machine": machine.describe(options.fovea, "cuda")}
    entries = result["gpu_end_to_end"] = []

    def save(row):
        print(json.dumps(row), flush=True)
        if options.json:
            machine.write_result(result, options.json)

    try:
        photos = make_photos(work / "photos", options.images)
        size = sum(photo.stat().st_size for photo in photos) / len(photos)
        decode = decode_rate(options, photos, work)
        for precision in options.precision.split(","):
            entry = {"images": len(photos), "mean_bytes": size, "precision": precision, "decode_only": decode}
            entries.append(entry | fovea_rates(options, photos, work, precision))
            save(entries[-1])
        for name in PEERS:
            row = peer_row(options, photos, name) if options.peers else {"peer": name, "skipped": "--no-peers"}
            entries[0].setdefault("peers", []).append(row)  # one list for all precisions
            save(row)
        if not options.json:
            machine.write_result(result, None)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
