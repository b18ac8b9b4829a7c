"""Result: what a stream yields for an image."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from fovea._errors import ImageError


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """The result of one image of `Encoder.stream`: an embedding or an error.

    Attributes:
        index: position among the images of the stream.
        source: the path, when the image was given as one or as an open file; else None.
        embedding: float32 [dimension], or None when the image could not be read.
        error: why the image could not be read, else None.
    """

    index: int
    source: str | None
    embedding: npt.NDArray[np.float32] | None
    error: ImageError | None
