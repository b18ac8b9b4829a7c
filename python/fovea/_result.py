"""Result of a stream for an image: one of two classes, so that type checkers know which fields are set."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from fovea._errors import ImageError


@dataclasses.dataclass(frozen=True, eq=False)
class EmbeddedImage:
    """An image of `Encoder.stream` that was embedded.

    Attributes:
        index: position among the images of the stream.
        source: the path, when the image was given as one or as an open file; else None.
        embedding: float32 [dimension].
    """

    index: int
    source: str | None
    embedding: npt.NDArray[np.float32]
    error: None = None


@dataclasses.dataclass(frozen=True, eq=False)
class FailedImage:
    """An image of `Encoder.stream` that could not be read.

    Attributes:
        index: position among the images of the stream.
        source: the path, when the image was given as one or as an open file; else None.
        error: why it could not be read.
    """

    index: int
    source: str | None
    error: ImageError
    embedding: None = None


#: After `if result.error is not None`, the rest of the code has an embedding.
Result = EmbeddedImage | FailedImage
