"""A program that uses the whole public interface, for mypy: it is never run.

Each `type: ignore` stands where mypy must complain; mypy --strict reports those that it does not need."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Iterator
from typing import assert_type

import numpy as np
import numpy.typing as npt
import torch

import fovea
from fovea.nn.functional import scaled_dot_product_attention
from fovea.ops import attention


def show(progress: fovea.PullProgress) -> None:
    print(progress.file, progress.bytes / max(progress.total, 1), progress.received, progress.notice)


def arrays(count: int) -> Iterator[npt.NDArray[np.uint8]]:
    for _ in range(count):
        yield np.zeros((9, 9, 3), np.uint8)


def load() -> fovea.Encoder:
    folder = fovea.pull("org/name", revision="main", progress=show)
    assert_type(folder, str)
    fovea.pull("org/name", progress=True)
    fovea.load(pathlib.Path(folder), torch.device("cuda", 1), torch.bfloat16)
    fovea.load(folder, precision="fp33")  # type: ignore[arg-type]
    fovea.load(folder, device=0)  # type: ignore[arg-type]
    fovea.load(5)  # type: ignore[arg-type]
    fovea.pull("org/name", progress="yes")  # type: ignore[arg-type]
    return fovea.load(folder, "cpu", "bf16", threads=np.int64(2), decode_threads=1, decode_memory=1 << 30)


def embed(encoder: fovea.Encoder) -> None:
    images: list[fovea.ImageLike] = ["a.jpg", pathlib.Path("b.png"), b"bytes", io.BytesIO(), torch.zeros(9, 9, 3)]
    failures: list[fovea.ImageError] = []
    assert_type(encoder.embed(images, 8, on_error=failures.append), npt.NDArray[np.float32])
    encoder.embed(arrays(3), batch_size=np.int32(8), normalize=False, progress=True, on_error="nan")
    encoder.embed(arrays(3), on_error="ignore")  # type: ignore[arg-type]
    encoder.embed([3])  # type: ignore[list-item]
    encoder.embed(arrays(3), batch_size="8")  # type: ignore[arg-type]
    assert_type((encoder.model, encoder.device, encoder.precision), tuple[str, str, str])
    assert_type((encoder.dimension, encoder.batch_size, encoder.image_size), tuple[int, int, tuple[int, int]])
    for failure in failures:
        assert_type((failure.index, failure.source, failure.reason), tuple[int, str | None, str])


def stream(encoder: fovea.Encoder) -> fovea.Result | None:
    results = encoder.stream(arrays(3), batch_size=2, normalize=True, on_error="raise")
    encoder.stream(arrays(3), on_error="nan")  # type: ignore[arg-type]
    for result in results:
        assert_type((result.index, result.source), tuple[int, str | None])
        if result.embedding is None:
            assert_type(result.error, fovea.ImageError | None)
        else:
            assert_type(result.embedding, npt.NDArray[np.float32])
    results.close()
    return next(results, None)


def main() -> None:
    try:
        with load() as encoder:
            embed(encoder)
            stream(encoder)
    except fovea.Error as error:
        print(error, fovea.__version__)
    q = torch.zeros(1, 1, 8, 64)
    attention(q, q, q, is_causal=True, impl="mma")
    scaled_dot_product_attention(q, q, q, is_causal=True)
