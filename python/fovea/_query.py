"""Converts queries to vectors."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, SupportsIndex

import numpy as np
import numpy.typing as npt

from fovea import _images
from fovea._arguments import TextClean
from fovea._errors import Error, ImageError
from fovea._images import ImageLike
from fovea._library import library

if TYPE_CHECKING:
    from fovea._encoder import Encoder

# The kinds of queries: words, a row, an image, or a vector.
Query = str | SupportsIndex | ImageLike | npt.NDArray[np.floating[Any]]


class QueryTarget(Protocol):
    """The methods of a collection that queries use."""

    @property
    def dimension(self) -> int: ...
    @property
    def encoder(self) -> Encoder: ...
    def find(self, photo: str | os.PathLike[str]) -> int | None: ...
    def embedding(self, row: SupportsIndex) -> npt.NDArray[np.float32]: ...


class Queries(NamedTuple):
    """Vectors to search for.

    Attributes:
        vectors: float32 [queries, dimension].
        left_out: int64 [queries]: for a query that is a row, that row, which is excluded from its results; else -1.
        are_texts: whether each query is a text alone.
    """

    vectors: npt.NDArray[np.float32]
    left_out: npt.NDArray[np.int64]
    are_texts: list[bool]


class _Parts:
    """Collects the items of all queries, so that texts and images are embedded in batches."""

    def __init__(self, target: QueryTarget) -> None:
        self._place = target
        self._vectors: list[npt.NDArray[np.float32] | None] = []
        self._names: list[str] = []
        self._texts: dict[int, str] = {}
        self._images: dict[int, Any] = {}

    def add(self, item: Any, name: str, texts: bool) -> int:
        """Adds an item. A string is words if `texts`, else the name of a photo. Returns the item's row, or -1."""
        number = len(self._vectors)
        self._vectors.append(None)
        self._names.append(name)
        row = -1
        if isinstance(item, str) and texts:
            self._texts[number] = item
        elif (vector := _images.as_float_array(item)) is not None:
            if vector.shape != (self._place.dimension,):
                shape = "x".join(map(str, vector.shape))
                raise ValueError(
                    f"{name} is a vector of shape {shape}, but the collection has vectors of {self._place.dimension} "
                    "numbers; pass several vectors to `nearest`"
                )
            self._vectors[number] = _finite(vector, name)
        elif isinstance(item, (str, os.PathLike)):
            photo_row = self._place.find(item)
            row = -1 if photo_row is None else photo_row
            if row < 0 and not os.path.exists(item):
                raise Error(f"{os.fsdecode(item)}: is neither the name of a photo in the collection nor a file")
            if row < 0:
                self._images[number] = item
        elif _is_index(item):
            row = operator.index(item)
        else:
            _check_image(item, name, texts)
            self._images[number] = item
        if row >= 0 or _is_index(item):
            self._vectors[number] = _finite(self._place.embedding(row), name)
        return row

    def vectors(self, clean: TextClean) -> npt.NDArray[np.float32]:
        """Returns the vectors of all items [items, dimension], not normalised."""
        if self._texts:
            self._set(self._texts, self._place.encoder.embed_text(self._texts.values(), clean=clean))
        if self._images:
            self._set(self._images, self._embed_images())
        if not self._vectors:
            return np.empty((0, self._place.dimension), np.float32)
        return np.stack([vector for vector in self._vectors if vector is not None])

    def _embed_images(self) -> npt.NDArray[np.float32]:
        try:
            return self._place.encoder.embed(list(self._images.values()))
        except ImageError as error:
            name = self._names[list(self._images)[error.index]]
            source = "" if error.source is None else f" ({error.source})"
            raise Error(f"{name}{source}: {error.reason}") from None

    def _set(self, numbers: Iterable[int], rows: npt.NDArray[np.float32]) -> None:
        if rows.shape[1] != self._place.dimension:
            raise ValueError(
                f"the encoder {self._place.encoder.model} makes vectors of {rows.shape[1]} numbers, but the "
                f"collection has vectors of {self._place.dimension}: use the model that made the collection"
            )
        for number, row in zip(numbers, rows, strict=True):
            self._vectors[number] = row


def make_queries(
    target: QueryTarget,
    queries: list[Any],
    photos: list[Any],
    photo_weight: float,
    without: list[Any],
    without_weight: float,
    clean: TextClean,
) -> Queries:
    """Returns the unit vector of each query plus the weighted unit vectors of `photos`, minus those of `without`."""
    parts = _Parts(target)
    left_out = [parts.add(item, f"query {number}", texts=True) for number, item in enumerate(queries)]
    for number, item in enumerate(photos):
        parts.add(item, f"photo {number}", texts=False)
    for number, item in enumerate(without):
        parts.add(item, f"item {number} of without", texts=True)
    vectors = parts.vectors(clean)
    weights = np.array([photo_weight] * len(photos) + [-without_weight] * len(without), np.float64)
    terms = vectors[len(queries) :]
    combined = vectors[: len(queries)].copy()
    library.fovea_queries_combine(
        *(combined.ctypes.data, len(combined), target.dimension),
        *(terms.ctypes.data, weights.ctypes.data, len(terms), combined.ctypes.data),
    )
    is_plain = not photos and not without
    return Queries(
        combined,
        np.array(left_out, np.int64).reshape(-1),
        [is_plain and isinstance(item, str) for item in queries],
    )


def _is_index(item: Any) -> bool:
    """Returns whether an item is the number of a row; bools, arrays and tensors are not."""
    return hasattr(item, "__index__") and not isinstance(item, (bool, np.bool_)) and getattr(item, "ndim", 0) == 0


def _check_image(item: Any, name: str, texts: bool) -> None:
    """Checks the type of an item before any item is computed."""
    try:
        _images.convert(item)
    except _images.Unreadable:
        pass  # `embed` reports the error
    except TypeError:
        alternative = "words, " if texts else ""
        raise TypeError(
            f"{name} must be {alternative}a photo (a path, bytes, an image), a row or a vector, not {type(item).__name__}"
        ) from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _finite(vector: npt.NDArray[Any], name: str) -> npt.NDArray[np.float32]:
    """Converts a vector to float32. Raises ValueError for NaN, infinities and zeros. float64 is scaled by its largest
    value first, because float32 has a smaller range."""
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} holds NaN or infinity")
    if not vector.any():
        raise ValueError(f"{name}: cannot compare a vector of zeros, because it has no direction")
    return np.asarray(vector / np.abs(vector).max() if vector.dtype == np.float64 else vector, np.float32)
