"""Pillow in a process of its own, which may take long or crash on what it is given."""

from __future__ import annotations

import io
import json
import pathlib
import subprocess
import sys
import threading
import warnings

import numpy as np

_SECONDS = 20


class Oracle:
    """Answers what Pillow makes of an image: pixels, or why not."""

    def __init__(self, model: pathlib.Path) -> None:
        config = json.loads((model / "preprocessor_config.json").read_text())
        self._size = (config["size"]["width"], config["size"]["height"])
        self._filter = config["resample"]
        self._process: subprocess.Popen | None = None

    def pixels(self, data: bytes) -> np.ndarray | None:
        """uint8 [height, width, 3] as the model takes them; None where Pillow does not read the image."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=subprocess.DEVNULL)  # fmt: skip
        width, height = self._size
        process = self._process
        timer = threading.Timer(_SECONDS, process.kill)
        timer.start()
        try:
            process.stdin.write(f"{len(data)} {width} {height} {self._filter}\n".encode() + data)
            process.stdin.flush()
            answer = process.stdout.readline()
            if answer != b"read\n":
                return None
            return np.frombuffer(process.stdout.read(width * height * 3), np.uint8).reshape(height, width, 3)
        except (BrokenPipeError, ValueError):
            return None  # it crashed, or took too long
        finally:
            timer.cancel()

    def close(self) -> None:
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()


def _serve() -> None:
    from PIL import Image, ImageOps

    warnings.simplefilter("ignore")
    while question := sys.stdin.buffer.readline():
        size, width, height, kernel = map(int, question.split())
        data = sys.stdin.buffer.read(size)
        try:
            image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
            answer = b"read\n" + image.resize((width, height), kernel).tobytes()
        except Exception:  # whatever Pillow raises on a broken file
            answer = b"refused\n"
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
