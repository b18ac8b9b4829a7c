"""A program that uses the whole public interface, for mypy: it is never run.

Each `type: ignore` stands where mypy must complain; mypy --strict reports those that it does not need."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Iterator, Sequence
from typing import assert_type

import fovea
import numpy as np
import numpy.typing as npt
import torch
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
    fovea.load(folder, "cpu", "int8", calibration=pathlib.Path("calibrations"))
    fovea.load(folder, first="words")  # type: ignore[arg-type]
    return fovea.load(
        folder, "cpu", "bf16", threads=np.int64(2), decode_threads=1, decode_memory=1 << 30, first="texts"
    )


def embed(encoder: fovea.Encoder) -> None:
    images: list[fovea.ImageLike] = ["a.jpg", pathlib.Path("b.png"), b"bytes", io.BytesIO(), torch.zeros(9, 9, 3)]
    failures: list[fovea.ImageError] = []
    assert_type(encoder.embed(images, 8, on_error=failures.append), npt.NDArray[np.float32])
    encoder.embed(arrays(3), batch_size=np.int32(8), normalize=False, progress=True, on_error="nan")
    encoder.embed(arrays(3), on_error="ignore")  # type: ignore[arg-type]
    encoder.embed([3])  # type: ignore[list-item]
    encoder.embed(arrays(3), batch_size="8")  # type: ignore[arg-type]
    assert_type((encoder.model, encoder.device, encoder.precision), tuple[str, str, str])
    assert_type((encoder.dimension, encoder.batch_size, encoder.image_size), tuple[int, int, tuple[int, int] | None])
    for failure in failures:
        assert_type((failure.index, failure.source, failure.reason), tuple[int, str | None, str])


def stream(encoder: fovea.Encoder) -> fovea.Result | None:
    results = encoder.stream(arrays(3), batch_size=2, normalize=True, on_error="raise")
    encoder.stream(arrays(3), on_error="nan")  # type: ignore[arg-type]
    for result in results:
        assert_type((result.index, result.source), tuple[int, str | None])
        if result.error is not None:
            assert_type(result.error, fovea.ImageError)
            assert_type(result.embedding, None)
        else:
            assert_type(result.embedding, npt.NDArray[np.float32])
    results.close()
    return next(results, None)


def texts(encoder: fovea.Encoder) -> None:
    assert_type(encoder.embed_text("a cat"), npt.NDArray[np.float32])
    encoder.embed_text((text for text in ["a cat"]), clean="lower", normalize=False, progress=True)
    encoder.embed_text(["a cat"], clean="upper")  # type: ignore[arg-type]
    encoder.embed_text(b"a cat")  # type: ignore[arg-type]
    encoder.embed_text(["a", 3])  # type: ignore[list-item]
    scale: fovea.LogitScale = encoder.logit_scale
    assert_type(scale.probability([0.1, 0.2]), npt.NDArray[np.float64])
    assert_type((scale.factor, scale.bias, scale.logit(0.1)), tuple[float, float, npt.NDArray[np.float64]])
    scores = encoder.label(["a.jpg"], ("cat", "dog"), ["{}", "a {}"], clean="none", batch_size=8, on_error="nan")
    assert_type(scores, fovea.LabelScores)
    assert_type((scores.labels, scores.logits), tuple[tuple[str, ...], npt.NDArray[np.float64]])
    encoder.label(encoder.embed(["a.jpg"]), ["cat"], progress=True)
    encoder.label(["a.jpg"], [3])  # type: ignore[list-item]
    for best in scores.best:
        assert_type(best, fovea.LabelScore | None)
    for label, probability, logit in scores[0]:
        assert_type((label, probability, logit), tuple[str, float, float])


def features(encoder: fovea.Encoder) -> None:
    found = encoder.features(arrays(3), -2, dtype="f32", batch_size=np.int32(8), progress=True)
    assert_type(found, fovea.Features)
    encoder.features(["a.jpg"], layer="pooled", dtype=torch.float16)
    encoder.features(["a.jpg"], np.int64(3), dtype=np.float16)
    encoder.features(["a.jpg"], "first")  # type: ignore[arg-type]
    assert_type((found.shape, found.ndim, found.device, len(found)), tuple[tuple[int, ...], int, str, int])
    np.asarray(found), found.numpy(), found.dtype, torch.from_dlpack(found)
    assert_type(encoder.heat("a cat", pathlib.Path("a.jpg"), clean="none"), npt.NDArray[np.float32])
    encoder.heat(b"a cat", "a.jpg")  # type: ignore[arg-type]


def search(encoder: fovea.Encoder) -> None:
    fovea.open(["a", pathlib.Path("b.npy")], model="org/name", root="photos", threads=2)
    fovea.open(3)  # type: ignore[arg-type]
    with fovea.open("out", encoder=encoder) as photos:
        assert_type(photos, fovea.Collection)
        assert_type(photos.search("a cat", 3, photo="a.jpg", without=["people", b"bytes"]), list[fovea.Match])
        assert_type(photos.search(["a cat", 3], k=np.int64(3)), list[list[fovea.Match]])
        photos.search(pathlib.Path("a.jpg"), photo_weight=0.5, without_weight=2, clean="none")
        photos.search(photos.embedding(3), photo=[pathlib.Path("a.jpg"), np.zeros((9, 9, 3), np.uint8)])
        photos.search(torch.zeros(9, 9, 3))
        photos.search(None)  # type: ignore[call-overload]
        found = photos.nearest(photos.embeddings(0, 3), k=5, left_out=[0, 1, 2])
        assert_type(found, fovea.Nearest)
        assert_type((found.rows, found.scores), tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]])
        photo: fovea.Photo = photos.photo(0)
        assert_type((photo.path, photo.bytes, photo.captured), tuple[str, int | None, str | None])
        assert_type((len(photos), photos.dimension, photos.is_finished), tuple[int, int, bool])
        assert_type((photos.find("a.jpg"), photos.model, photos.outputs), tuple[int | None, str, list[str]])
        assert_type((photos.sources[0], photos.sources[:2]), tuple[str, Sequence[str]])
        assert_type(photos.encoder, fovea.Encoder)
        for match in photos.search("a cat"):
            assert_type((match.row, match.score, match.path), tuple[int, float, str])
            assert_type((match.source, match.logit, match.probability), tuple[str, float | None, float | None])


def main() -> None:
    try:
        with load() as encoder:
            embed(encoder)
            stream(encoder)
            texts(encoder)
            features(encoder)
            search(encoder)
    except fovea.Error as error:
        print(error, fovea.__version__)
    q = torch.zeros(1, 1, 8, 64)
    attention(q, q, q, is_causal=True, impl="mma")
    scaled_dot_product_attention(q, q, q, is_causal=True)
