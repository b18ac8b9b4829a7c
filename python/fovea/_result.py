"""Results of a stream, of two classes, so that type checkers know which fields are set."""

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
        source: the path, when the image was given as a path or an open file; else None.
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
        source: the path, when the image was given as a path or an open file; else None.
        error: the reason why it could not be read.
    """

    index: int
    source: str | None
    error: ImageError
    embedding: None = None


#: Type checkers infer from a check of `error` whether `embedding` is set.
Result = EmbeddedImage | FailedImage
