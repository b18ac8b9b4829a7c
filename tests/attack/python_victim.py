"""A Python program that embeds images, to be interrupted or to end while its threads embed.

python_victim.py interrupt MODEL FILE...          embeds until Ctrl-C: then exit code 7
python_victim.py daemons MODEL THREADS SECONDS FILE...   ends while daemon threads embed: exit code 0
"""

from __future__ import annotations

import sys
import threading
import time

import fovea
import numpy as np


def interrupt(model: str, *files: str) -> int:
    encoder = fovea.load(model, device="cpu", precision="fp32", threads=1)
    print("ready", flush=True)
    try:
        while True:
            encoder.embed(list(files), on_error="nan")
    except KeyboardInterrupt:
        return 7


def daemons(model: str, threads: str, seconds: str, *files: str) -> int:
    encoder = fovea.load(model, device="cpu", precision="fp32", threads=1)

    def work(images: list) -> None:
        while True:
            encoder.embed(images, on_error="nan")

    # Arrays of the model's size take no decoding: such a thread is nearly always computing.
    arrays = [np.zeros((*encoder.image_size, 3), np.uint8)] * 256
    for number in range(int(threads)):
        threading.Thread(target=work, args=[list(files) if number % 2 else arrays], daemon=True).start()
    print("ready", flush=True)
    time.sleep(float(seconds))
    return 0


if __name__ == "__main__":
    sys.exit({"interrupt": interrupt, "daemons": daemons}[sys.argv[1]](*sys.argv[2:]))
