"""The exceptions that Fovea raises."""

from __future__ import annotations


class Error(RuntimeError):
    """The engine failed; the message says what was wrong and what to do."""


class ImageError(Error):
    """One image could not be embedded.

    Attributes:
        index: position among the images of the call.
        source: the path, when the image was given as one or as an open file; else None.
        reason: what was wrong, such as "cannot open: No such file or directory".
    """

    def __init__(self, index: int, source: str | None, reason: str) -> None:
        name = f"image {index}" if source is None else f"image {index} ({source})"
        super().__init__(f"{name}: {reason}")
        self.index = index
        self.source = source
        self.reason = reason

    def __reduce__(self) -> tuple[type[ImageError], tuple[int, str | None, str]]:
        return (ImageError, (self.index, self.source, self.reason))
