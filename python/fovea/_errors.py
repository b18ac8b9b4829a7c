"""The exceptions that Fovea raises."""

from __future__ import annotations


class Error(RuntimeError):
    """Raised when the engine fails. The message says what went wrong and what to do."""


class ImageError(Error):
    """Raised when an image could not be embedded.

    Attributes:
        index: position among the images of the call.
        source: the path, when the image was given as a path or an open file; else None.
        reason: the cause, such as "cannot open: No such file or directory".
    """

    def __init__(self, index: int, source: str | None, reason: str) -> None:
        name = f"image {index}" if source is None else f"image {index} ({source})"
        super().__init__(f"{name}: {reason}")
        self.index = index
        self.source = source
        self.reason = reason

    def __reduce__(self) -> tuple[type[ImageError], tuple[int, str | None, str]]:
        return (ImageError, (self.index, self.source, self.reason))
