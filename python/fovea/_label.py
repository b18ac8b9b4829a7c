"""Scores labels of images: the texts of labels, their vectors, and the scores."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fovea._bar import progress_bar
from fovea._images import as_float_array
from fovea._runs import Rows, Run, WindowOfTexts

DEFAULT_TEMPLATE = "This is a photo of {}."

Numbers = npt.NDArray[np.float64]


class LogitScale(NamedTuple):
    """Converts the cosine of an image and a text into a model's logit and probability. SigLIP's
    probabilities are sigmoids of each pair, so they do not add up to 1 over texts.

    Attributes:
        factor: exp(logit_scale).
        bias: logit_bias.
    """

    factor: float
    bias: float

    def logit(self, cosine: npt.ArrayLike) -> Numbers:
        """Returns factor * cosine + bias for an array of any shape."""
        return np.asarray(self.factor * np.asarray(cosine, np.float64) + self.bias)

    def probability(self, cosine: npt.ArrayLike) -> Numbers:
        """Returns 1 / (1 + exp(-logit)) for an array of any shape."""
        return sigmoid(self.logit(cosine))


class LabelScore(NamedTuple):
    """The score of one label for one image.

    Attributes:
        label: its name.
        probability: the probability that the label fits, 0 to 1, independent of other labels.
        logit: the probability before the sigmoid.
    """

    label: str
    probability: float
    logit: float


@dataclasses.dataclass(frozen=True, eq=False)
class LabelScores:
    """The scores of labels for images, as `Encoder.label` returns them. It is also a sequence: item i lists the
    LabelScore of every label for image i, the best first (empty for an image that could not be read).

    Attributes:
        labels: their names.
        logits: float64 [images, labels].
        probabilities: float64 [images, labels], the sigmoid of the logits.
    """

    labels: tuple[str, ...]
    logits: Numbers
    probabilities: Numbers

    @property
    def best(self) -> list[LabelScore | None]:
        """The best label for each image; None for an image that could not be read."""
        return [
            None if np.isnan(logits).any() else self._score(image, int(logits.argmax()))
            for image, logits in enumerate(self.logits)
        ]

    def __len__(self) -> int:
        return len(self.logits)

    def __getitem__(self, image: int) -> list[LabelScore]:
        logits = self.logits[image]
        if np.isnan(logits).any():
            return []
        return [self._score(image, int(label)) for label in np.argsort(-logits, kind="stable")]

    def __iter__(self) -> Iterator[list[LabelScore]]:
        return (self[image] for image in range(len(self)))

    def _score(self, image: int, label: int) -> LabelScore:
        return LabelScore(self.labels[label], float(self.probabilities[image, label]), float(self.logits[image, label]))


class Labels(NamedTuple):
    """Labels, and the templates that turn them into texts."""

    names: tuple[str, ...]
    templates: tuple[str, ...]


def sigmoid(logits: Numbers) -> Numbers:
    with np.errstate(invalid="ignore"):  # logits are NaN for images that could not be read
        return np.asarray(np.exp(-np.logaddexp(0, -logits)))  # does not overflow, unlike 1 / (1 + exp(-logits))


def make_labels(labels: Sequence[str], template: str | Sequence[str]) -> Labels:
    names = _strings(labels, "labels", "label")
    return Labels(names, (template,) if isinstance(template, str) else _strings(template, "template", "template"))


def embed_labels(
    labels: Labels, dimension: int, clean: int, using: Callable[[], AbstractContextManager[ctypes.c_void_p]]
) -> Numbers:
    """Returns the unit vectors of labels, float64 [labels, dimension]. `using()` provides the engine's encoder."""
    names, templates = WindowOfTexts.from_items(labels.names), WindowOfTexts.from_items(labels.templates)
    run = Run(names, np.empty((len(names), dimension), np.float32))
    try:
        with using() as encoder:
            run.start_labels(encoder, templates, clean)
        with progress_bar(None, False, "text") as bar:
            run.wait(bar)
    finally:
        run.close()  # stops the run if it is still active
    return unit(run.rows)


def unit(vectors: npt.NDArray[Any]) -> Numbers:
    """Returns rows scaled to length 1. Raises ValueError for a row of zeros; keeps NaN."""
    rows = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    if (lengths == 0).any():
        raise ValueError("cannot compare a vector of zeros, because it has no direction")
    return np.asarray(rows / lengths)


def as_embeddings(images: Any, dimension: int) -> Rows | None:
    """Returns embeddings [images, dimension] if they were given instead of images, or else None."""
    rows = as_float_array(images)
    if rows is None:
        return None
    if rows.ndim not in (1, 2) or rows.shape[-1] != dimension:
        shape = "x".join(map(str, rows.shape))
        raise ValueError(
            f"a floating-point array must hold embeddings [images, {dimension}], but has the shape {shape}; "
            "pixels must be uint8"
        )
    return np.atleast_2d(rows)


def score(embeddings: Rows, labels: tuple[str, ...], vectors: Numbers, scale: LogitScale) -> LabelScores:
    logits = scale.logit(unit(embeddings) @ vectors.T)
    return LabelScores(labels, logits, sigmoid(logits))


def _strings(values: Sequence[str], name: str, item: str) -> tuple[str, ...]:
    if isinstance(values, str):
        raise TypeError(f"{name} must be a list of strings, not one string")
    strings = tuple(values)
    if not strings:
        raise ValueError(f"{name} must hold at least one {item}")
    for text in strings:
        if not isinstance(text, str):
            raise TypeError(f"{name} must be strings, not {type(text).__name__}")
    return strings
