"""Photos to embed, and readers of what `fovea embed` writes."""

import io
import json
import pathlib
import re

import numpy as np
from PIL import Image


def jpeg(seed, width=None, height=None):
    """The bytes of a JPEG that no other seed gives, with its own size."""
    random = np.random.default_rng(seed)
    width = width or 20 + seed % 60
    height = height or 15 + seed % 45
    small = random.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(small).resize((width, height), Image.BICUBIC).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def write_photos(folder, count, first=0):
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + count):
        (folder / f"{seed:05}.jpg").write_bytes(jpeg(seed))
    return folder


def name_of(source):
    """The bytes of a name, as docs/output.md says to get them back."""

    def unescaped(match):
        return b"\\" if match[0] == b"\\\\" else bytes.fromhex(match[1].decode())

    return re.sub(rb"\\(?:\\|x([0-9a-f]{2}))", unescaped, source.encode())


def read_lines(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text("utf-8").splitlines()]


def read_output(folder):
    """(sources, sizes, embeddings, errors by source) of an output folder, checked for alignment."""
    sources, sizes, arrays = [], [], []
    files = sorted(folder.glob("embeddings-*.npy"))
    assert files == [folder / f"embeddings-{i:05}.npy" for i in range(len(files))]
    for i, file in enumerate(files):
        array = np.load(file)
        lines = read_lines(folder / f"index-{i:05}.jsonl")
        assert [line["row"] for line in lines] == list(range(len(array)))
        sources += [line["source"] for line in lines]
        sizes += [(line["width"], line["height"]) for line in lines]
        arrays.append(array)
    listed = read_lines(folder / "errors.jsonl")
    errors = {line["source"]: line["error"] for line in listed}
    assert len(errors) == len(listed), "an input is listed twice"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["finished"]
    assert manifest["counts"]["rows"] == len(sources)
    assert manifest["counts"]["failed"] == len(errors)
    return sources, sizes, np.concatenate(arrays), errors


def contents(folder):
    """Every file of an output folder but the lock."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != ".lock"}


class Embedder:
    """Runs `fovea embed` on a model."""

    def __init__(self, run_fovea, fovea_bin, model):
        self.run_fovea = run_fovea
        self.fovea_bin = fovea_bin
        self.model = model

    def arguments(self, *inputs, out, flags=()):
        return ["embed", *inputs, "-m", self.model, "-o", out, "--precision", "fp32", *flags]

    def __call__(self, *inputs, out, flags=(), code=0, **run):
        result = self.run_fovea(*self.arguments(*inputs, out=out, flags=flags), code=code, **run)
        assert result.stdout == ""
        return result
