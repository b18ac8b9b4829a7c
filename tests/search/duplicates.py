"""What the tests of duplicates share: pictures, outputs with rows of given vectors, and what the program says of
them."""

import json
import os

import numpy as np
from PIL import Image
from test_similar import DIMENSION, write_output


def find(run_fovea, *arguments, **options):
    """The groups of the output "out"."""
    result = run_fovea("similar", "--duplicates", "--in", "out", "--json", *arguments, **options)
    return json.loads(result.stdout)["groups"]


def names(groups):
    return [[member["source"] for member in group["members"]] for group in groups]


def classes(groups):
    return {m["source"]: m["class"] for group in groups for m in group["members"] if not m["keep"]}


def print0(run_fovea, *arguments, **options):
    result = run_fovea("similar", "--duplicates", "--in", "out", "--print0", *arguments, **options)
    assert result.stdout == "" or result.stdout.endswith("\0")
    return result.stdout.split("\0")[:-1]


def save(name, size=(40, 30), seed=0, modified=1_500_000_000, **options):
    """A picture of coarse noise; the same for the same seed and size."""
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 4, (size[1], size[0], 3), np.uint8) * 60
    Image.fromarray(pixels).save(name, **options)
    os.utime(name, (modified, modified))


def write_rows(tmp_path, rows, folder="out"):
    """An output of rows (name, vector, (width, height))."""
    vectors = np.array([vector for _, vector, _ in rows], np.float32)
    write_output(tmp_path / folder, [name for name, _, _ in rows], vectors, shard_rows=3)
    lines = [line for path in sorted((tmp_path / folder).glob("index-*")) for line in path.read_text().splitlines()]
    for shard, first in enumerate(range(0, len(rows), 3)):
        text = ""
        for line, (_, _, size) in zip(lines[first : first + 3], rows[first : first + 3]):
            text += json.dumps(json.loads(line) | {"width": size[0], "height": size[1]}) + "\n"
        (tmp_path / folder / f"index-{shard:05}.jsonl").write_text(text)


def near(base, score):
    """A vector at this cosine to axis `base`, in a direction of its own."""
    vector = np.zeros(DIMENSION)
    vector[base] = score
    vector[base + 1] = np.sqrt(1 - score * score)
    return vector
