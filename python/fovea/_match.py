"""Results of searches in a collection, and descriptions of its photos."""

from __future__ import annotations

import dataclasses
import datetime
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class Match:
    """A photo found by a search.

    Attributes:
        row: its row in the collection.
        score: the cosine to the query, in [-1, 1].
        source: its name in the index of the output.
        path: the expected path of its file; "x.tar#key.jpg" for a member of an archive.
        logit: SigLIP's logit of photo and text, when the query is a text alone; else None.
        probability: the sigmoid of the logit, independent of other photos.
    """

    row: int
    score: float
    source: str
    path: str
    logit: float | None = None
    probability: float | None = None


class Nearest(NamedTuple):
    """The rows nearest to vectors, nearest first.

    Attributes:
        rows: int64 [vectors, k], or [k] for one vector; -1 where there are fewer than k rows.
        scores: float64 of the same shape: cosines in [-1, 1]; NaN where there is no row.
    """

    rows: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Photo:
    """A photo: its index entry, and the current state of its file.

    Attributes:
        row: its row in the collection.
        source: its name in the index of the output: UTF-8, with other bytes as \\\\xHH.
        path: the expected path of its file; "x.tar#key.jpg" for a member of an archive.
        output: the output that contains it, as given to `open`.
        width, height: size in pixels when it was embedded; 0 when unknown.
        bytes: the size of its file; None when it cannot be read, and for members.
        modified: modification time of the file (for members, of the archive), in UTC; None when unknown.
        captured: capture time by the camera's clock, such as "2024-05-01 12:30:00"; None when unknown.
        is_member: whether it is in an archive.
        has_changed: whether the file may have changed since it was embedded.
        error: why its file cannot be read; None when it can.
    """

    row: int
    source: str
    path: str
    output: str
    width: int
    height: int
    bytes: int | None
    modified: datetime.datetime | None
    captured: str | None
    is_member: bool
    has_changed: bool
    error: str | None
