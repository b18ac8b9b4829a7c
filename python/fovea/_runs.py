"""Passes images through the engine, in windows of converted images, each of which is embedded by a run."""

from __future__ import annotations

import collections
import ctypes
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fovea import _images
from fovea._bar import Bar
from fovea._errors import Error, ImageError
from fovea._library import ENCODED, FILE, TEXT, EmbedOptions, EmbedTextsOptions, FeaturesOptions, library, text

Rows = npt.NDArray[np.float32]

# Interval at which a call returns to Python, to handle Ctrl-C and show progress.
_TICK_MILLISECONDS = 100
# Approximate memory for the images of a window; a larger image gets a window of its own.
_WINDOW_BYTES = 24 << 20
# Maximum number of windows in the engine. The oldest ends before the next is filled, which keeps every core busy and
# bounds the memory.
_MAX_RUNS = 3
# Minimum interval at which windows that are not full are passed to an idle engine.
_MIN_SECONDS = 0.01


def _caller_stacklevel() -> int:
    """Returns the stacklevel with which a warning names the caller's line outside of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == __name__.split(".")[0]:
        level, frame = level + 1, frame.f_back
    return level


Options = EmbedOptions | EmbedTextsOptions


class Window:
    """Converted images that are passed to the engine together."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.unreadable: dict[int, str] = {}
        self._sources: list[Any] = []
        self._converted: list[_images.Image] = []
        self._bytes = 0

    @classmethod
    def from_items(cls, items: Iterable[Any]) -> Window:
        window = cls(0)
        for item in items:
            window.add(item)
        return window

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, item: Any, copies: bool = False) -> None:
        """Converts and adds an image; with `copies`, its memory is not shared with the caller."""
        try:
            image = _images.convert(item, copies)
        except _images.Unreadable as error:
            # An image without bytes makes the engine report a failure in the order of images.
            self.unreadable[len(self)] = str(error)
            image = _images.Image(ENCODED, np.empty(0, np.uint8))
        except TypeError as error:
            raise TypeError(f"image {self.first + len(self)}: {error}") from error
        except ValueError as error:
            raise ValueError(f"image {self.first + len(self)}: {error}") from error
        self._converted.append(image)
        self._sources.append(_images.source_path(item))
        self._bytes += 0 if image.kind == FILE else image.data.size

    def is_full(self, limit: int) -> bool:
        """Returns whether the window has reached `limit` images or the maximum number of bytes."""
        return len(self) >= limit or self._bytes >= _WINDOW_BYTES

    def source(self, which: int) -> str | None:
        return _images.source_path(self._sources[which])

    def table(self) -> tuple[npt.NDArray[np.void], object]:
        """Returns the engine's table of the images, and the memory that must outlive it."""
        return _images.make_table(self._converted), self._converted

    def explain(self, error: Error) -> Error:
        """Returns the error of a failed run for the caller."""
        return error


class _WindowOfPaths(Window):
    """A window of paths, whose table is made in one step."""

    def __init__(self, paths: Sequence[Any]) -> None:
        super().__init__(0)
        self._sources = list(paths)

    def table(self) -> tuple[npt.NDArray[np.void], object]:
        return _images.make_path_table(self._sources)


class WindowOfTexts(Window):
    """Texts that are passed to the engine together."""

    def add(self, item: Any, copies: bool = False) -> None:
        which = self.first + len(self)
        if not isinstance(item, str):
            raise TypeError(f"text {which} must be a string, not {type(item).__name__}")
        try:
            self._sources.append(item.encode())
        except UnicodeEncodeError as error:
            raise ValueError(f"text {which} is not valid Unicode: {error}") from error
        self._bytes += len(self._sources[-1])

    def table(self) -> tuple[npt.NDArray[np.void], object]:
        return _images.make_byte_table(self._sources, TEXT)

    def explain(self, error: Error) -> Error:
        """Adds the position of the window: the engine counts texts within it."""
        return Error(f"texts {self.first} to {self.first + len(self) - 1}: {error}") if self.first else error


def single_window(images: Sequence[Any]) -> Window | None:
    """Returns one window with all images if no pixels need to be copied; else None."""
    if _images.are_paths(images):
        return _WindowOfPaths(images)
    return Window.from_items(images) if all(map(_images.is_borrowed, images)) else None


def make_windows(
    images: Iterable[Any],
    limit: int,
    is_idle: Callable[[], bool] | None = None,
    make: Callable[[int], Window] = Window,
) -> Iterator[Window]:
    """Yields windows of `limit` images; `make` creates one from the number of its first image. If `is_idle` is given,
    yields a partial window while the engine is idle, and, when `images` raises an exception, the images before as a
    last window. Pixels are copied, because the caller may reuse a buffer for the next image while the engine still
    reads this one."""
    window = make(0)
    last_yield = -math.inf
    try:
        for item in images:
            window.add(item, copies=True)
            if window.is_full(limit) or (is_idle and time.monotonic() - last_yield >= _MIN_SECONDS and is_idle()):
                yield window
                window = make(window.first + len(window))
                last_yield = time.monotonic()
    except Exception:
        if is_idle and len(window) > 0:
            yield window
        raise
    if len(window) > 0:
        yield window


class Run:
    """A window that the engine embeds in the background."""

    def __init__(self, window: Window, rows: Rows) -> None:
        self.window = window
        self.rows = rows
        self._run = ctypes.c_void_p()
        self._pid = os.getpid()
        self._table, self._kept = window.table()
        self._seen = 0

    def start(self, encoder: ctypes.c_void_p, options: Options) -> None:
        begin = library.fovea_embed_start if isinstance(options, EmbedOptions) else library.fovea_embed_texts_start
        begin(
            encoder, self._table.ctypes.data, len(self._table), options, self.rows.ctypes.data, ctypes.byref(self._run)
        )

    def start_labels(self, encoder: ctypes.c_void_p, templates: Window, clean: int) -> None:
        """Starts to embed the texts as labels, with all templates."""
        patterns, memory = templates.table()  # the engine copies them
        library.fovea_embed_labels_start(
            *(encoder, self._table.ctypes.data, len(self._table), patterns.ctypes.data, len(patterns)),
            *(clean, self.rows.ctypes.data, ctypes.byref(self._run)),
        )
        del memory

    def start_features(self, encoder: ctypes.c_void_p, layer: bytes, options: FeaturesOptions) -> ctypes.c_void_p:
        """Starts to compute features. Returns the engine's object that holds them once the run has ended."""
        features = ctypes.c_void_p()
        library.fovea_features_start(
            *(encoder, self._table.ctypes.data, len(self._table), layer),
            *(options, ctypes.byref(features), ctypes.byref(self._run)),
        )
        return features

    def has_ended(self, milliseconds: int = 0) -> bool:
        """Waits with a timeout, and returns whether the run has ended. Raises an Error when it failed."""
        ended = ctypes.c_int32()
        try:
            library.fovea_embed_wait(self._run, milliseconds, ctypes.byref(ended))
        except Error as error:
            raise self.window.explain(error) from None
        return bool(ended.value)

    def wait(self, bar: Bar) -> None:
        """Waits until the run has ended, without delaying Python's signals and other threads."""
        ended = False
        while not ended:
            ended = self.has_ended(_TICK_MILLISECONDS)
            done = library.fovea_embed_done(self._run)
            bar.update(done - self._seen)
            self._seen = done
        if notes := text(library.fovea_embed_notes(self._run)):
            warnings.warn(notes, RuntimeWarning, stacklevel=_caller_stacklevel())

    def failures(self) -> Iterator[ImageError]:
        index, reason = ctypes.c_size_t(), ctypes.c_char_p()
        for which in range(library.fovea_embed_failures(self._run)):
            library.fovea_embed_failure(self._run, which, ctypes.byref(index), ctypes.byref(reason))
            why = self.window.unreadable.get(index.value) or text(reason.value or b"")
            yield ImageError(self.window.first + index.value, self.window.source(index.value), why)

    def stop(self) -> None:
        """Asks the run to end early."""
        if self._run and os.getpid() == self._pid:
            library.fovea_embed_stop(self._run)

    def close(self) -> None:
        """Ends the run; the engine uses neither images nor rows afterwards."""
        run, self._run = self._run, ctypes.c_void_p()
        if run and os.getpid() == self._pid:  # a forked child lacks the run's threads
            library.fovea_embed_free(run)

    # The engine writes to this object's memory, so the run must end before the object does.
    __del__ = close


class RunQueue:
    """The runs of one call, in the order of their images. Leaving the context ends them."""

    def __init__(self, start: Callable[[Window], Run], bar: Bar) -> None:
        self._start = start
        self._bar = bar
        self._runs: collections.deque[Run] = collections.deque()

    def is_idle(self) -> bool:
        """Returns whether all runs that were started have ended."""
        return all(run.has_ended() for run in self._runs)

    def finished(self, windows: Iterator[Window], finish_on_error: bool = False) -> Iterator[Run]:
        """Yields runs that have ended. An exception of `windows` is raised at once, or, if `finish_on_error`, after all
        runs before it."""
        failure: Exception | None = None
        while failure is None:
            try:
                window = next(windows, None)
            except Exception as error:
                if not finish_on_error:
                    raise
                failure = error
                break
            if window is None:
                break
            self._runs.append(self._start(window))
            while self._runs and (len(self._runs) >= _MAX_RUNS or self._runs[0].has_ended()):
                yield from self._oldest()
        while self._runs:
            yield from self._oldest()
        if failure is not None:
            raise failure

    def _oldest(self) -> Iterator[Run]:
        run = self._runs.popleft()
        try:
            run.wait(self._bar)
            yield run
        finally:
            run.close()

    def __enter__(self) -> RunQueue:
        return self

    def __exit__(self, *_: object) -> None:
        for run in self._runs:
            run.stop()  # stop all runs before waiting for the first
        for run in self._runs:
            run.close()
