"""Encoder: a model that turns images into embeddings."""

from __future__ import annotations

import collections
import ctypes
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Union

import numpy as np
import numpy.typing as npt

from fovea import _images
from fovea._errors import Error, ImageError
from fovea._images import ImageLike
from fovea._library import ENCODED, EmbedOptions, integer, library, text

OnError = Union[Literal["raise", "nan"], Callable[[ImageError], Any]]

# How often a call returns to Python, which handles Ctrl-C and shows progress.
_TICK_MILLISECONDS = 100
# Images that must be copied (PIL, tensors) are converted so many at a time, while earlier ones are
# computed: this keeps every core busy and bounds the memory.
_LEAST_WINDOW = 256


def load(
    model: str | os.PathLike[str],
    device: str = "auto",
    precision: Literal["auto", "fp32", "bf16", "int8", "fp8"] = "auto",
    *,
    threads: int = 0,
) -> Encoder:
    """Loads a SigLIP or SigLIP 2 vision tower.

    Args:
        model: a folder in Hugging Face layout, or a name such as
            "google/siglip2-base-patch16-224" that is in the local Hugging Face cache.
        device: "auto", "cpu", "cuda" or "cuda:N". "auto" takes a GPU when one is usable, else the
            CPU; `Encoder.device` says which.
        precision: "auto" is "bf16" where the device has instructions for it, else "fp32". A named
            precision that the device lacks is an error. "fp32" is for CPUs; "int8" and "fp8" are
            for GPUs and models that `fovea calibrate` has prepared.
        threads: compute threads; 0: one per CPU that this process may use.

    Raises:
        Error: the model, the device or the precision is unavailable; the message says why.
        ValueError: a name holds a NUL character, or `threads` is negative.
    """
    return Encoder(model, device, precision, threads=threads)


class Encoder:
    """A loaded model. May be used from several threads; the device computes one batch at a time."""

    def __init__(
        self,
        model: str | os.PathLike[str],
        device: str = "auto",
        precision: str = "auto",
        *,
        threads: int = 0,
    ) -> None:
        """Loads a model; see `load`."""
        handle = ctypes.c_void_p()
        arguments = [os.fsencode(model), device.encode(), precision.encode()]
        if any(b"\0" in argument for argument in arguments):
            raise ValueError("names of models, devices and precisions must not hold a NUL character")
        library.fovea_encoder_load(*arguments, integer(threads, "threads", 0), ctypes.byref(handle))
        self._handle = handle
        self._lock = threading.Lock()  # the handle is not freed while it is being used
        self._pid = os.getpid()
        self._free = weakref.finalize(self, _free_encoder, handle, self._pid)
        self._free.atexit = False  # daemon threads may still use it, and the end of the process frees it
        self._model = os.fsdecode(model)
        self._device = text(library.fovea_encoder_device(handle))
        self._precision = text(library.fovea_encoder_precision(handle))
        self._dimension: int = library.fovea_encoder_dimension(handle)
        self._batch_size: int = library.fovea_encoder_batch_size(handle)
        self._image_size = (library.fovea_encoder_height(handle), library.fovea_encoder_width(handle))

    @property
    def model(self) -> str:
        """The name of the model, as it was given."""
        return self._model

    @property
    def device(self) -> str:
        """A description of the device for people: "cpu (oneDNN, avx512_core_bf16), bf16, 8 threads"."""
        return self._device

    @property
    def precision(self) -> str:
        """The precision in use: "fp32", "bf16", "int8" or "fp8"."""
        return self._precision

    @property
    def dimension(self) -> int:
        """Numbers in one embedding."""
        return self._dimension

    @property
    def batch_size(self) -> int:
        """Images computed together by default: the recommended batch size."""
        return self._batch_size

    @property
    def image_size(self) -> tuple[int, int]:
        """(height, width) in pixels, to which every image is resized."""
        return self._image_size

    def __repr__(self) -> str:
        return f"<fovea.Encoder {self._model}: {self._device}>"

    def embed(
        self,
        images: Iterable[ImageLike],
        batch_size: int | None = None,
        normalize: bool = True,
        progress: bool = False,
        *,
        on_error: OnError = "raise",
    ) -> npt.NDArray[np.float32]:
        """Turns images into embeddings, decoding on all cores while the device computes.

        Args:
            images: any mix of paths, bytes of image files, PIL images, and pixels: uint8
                [height, width, 3] of any size as numpy arrays, torch tensors or other objects that
                support DLPack. Gray ([height, width] or one channel) is repeated, and alpha (a second
                or fourth channel) is dropped, as for files. Tensors on a GPU are copied to the host.
            batch_size: images computed together; None: `Encoder.batch_size`.
            normalize: scale every embedding to length 1.
            progress: show a progress bar (needs tqdm).
            on_error: what happens with an unreadable image. "raise": the call ends with an
                ImageError that names it. "nan": its row is all NaN. A function: it is called with
                the ImageError of each such image, in order, and their rows are all NaN; the method
                `append` of a list collects them.

        Returns:
            float32 [len(images), dimension], row i for image i. The values are those of
            `fovea embed` for the same files, device, precision and batch size.

        Raises:
            ImageError: an image cannot be read, and `on_error` is "raise".
            TypeError, ValueError: an item is not an image, whatever `on_error` says.
            Error: the device failed, or the Encoder is closed.
        """
        if on_error not in ("raise", "nan") and not callable(on_error):
            raise ValueError(f'on_error must be "raise", "nan" or a function, not {on_error!r}')
        if batch_size is not None:
            batch_size = integer(batch_size, "batch_size", 1)
        self._check_process()
        images = _as_list(images)
        rows = np.empty((len(images), self._dimension), np.float32)
        options = EmbedOptions(batch_size or 0, 0, bool(normalize), on_error == "raise")
        with _progress_bar(len(images), progress) as bar:
            running: collections.deque[_Run] = collections.deque()
            try:
                for first, last in self._windows(images, batch_size or self._batch_size):
                    running.append(self._start(images[first:last], first, rows[first:last], options))
                    if len(running) > 1:  # the next window is converted while the last one runs
                        _finish(running.popleft(), bar, on_error)
                while running:
                    _finish(running.popleft(), bar, on_error)
            finally:
                for run in running:
                    run.stop()  # stops all of them before it waits for the first
                for run in running:
                    run.close()
        return rows

    def close(self) -> None:
        """Frees the model's memory now and not with the object. Running calls are not cut short."""
        with self._lock:
            self._free()

    def __enter__(self) -> Encoder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise Error(
                "this Encoder was loaded before the process forked, and its threads exist only in the parent: "
                'load it in the process that uses it, or start processes by "spawn"'
            )

    @staticmethod
    def _windows(images: Sequence[Any], batch_size: int) -> Iterable[tuple[int, int]]:
        """Ranges of whole batches, so that batches do not depend on the kinds of the images."""
        if all(map(_images.is_borrowed, images)):
            window = max(len(images), 1)
        else:
            window = -(-_LEAST_WINDOW // batch_size) * batch_size
        for first in range(0, len(images), window):
            yield first, min(first + window, len(images))

    def _start(self, images: Sequence[Any], first: int, rows: np.ndarray, options: EmbedOptions) -> _Run:
        run = _Run(images, first, rows)
        with self._lock:
            if not self._free.alive:
                raise Error("this Encoder is closed")
            run.start(self._handle, options)
        return run


class _Run:
    """One window of a call's images, computed by the engine."""

    def __init__(self, images: Sequence[Any], first: int, rows: np.ndarray) -> None:
        self._run = ctypes.c_void_p()
        self._pid = os.getpid()
        self._images = images
        self._first = first
        self._rows = rows
        self._unreadable: dict[int, str] = {}
        self._kept: Any
        if _images.are_paths(images):
            self._table, self._kept = _images.table_of_paths(images)
        else:
            self._kept = [self._convert(index) for index in range(len(images))]
            self._table = _images.table_of(self._kept)
        self._seen = 0

    def _convert(self, index: int) -> _images.Image:
        try:
            return _images.convert(self._images[index])
        except _images.Unreadable as error:
            # Without bytes the image fails in the engine, too, when its turn comes.
            self._unreadable[index] = str(error)
            return _images.Image(ENCODED, np.empty(0, np.uint8))
        except TypeError as error:
            raise TypeError(f"image {self._first + index}: {error}") from error
        except ValueError as error:
            raise ValueError(f"image {self._first + index}: {error}") from error

    def start(self, encoder: ctypes.c_void_p, options: EmbedOptions) -> None:
        library.fovea_embed_start(
            encoder, self._table.ctypes.data, len(self._table), options, self._rows.ctypes.data, ctypes.byref(self._run)
        )

    def wait(self, bar: Any) -> None:
        """Waits until the run has ended, without delaying Python's signals and other threads."""
        ended = ctypes.c_int32()
        while not ended.value:
            library.fovea_embed_wait(self._run, _TICK_MILLISECONDS, ctypes.byref(ended))
            done = library.fovea_embed_done(self._run)
            bar.update(done - self._seen)
            self._seen = done
        if notes := text(library.fovea_embed_notes(self._run)):
            warnings.warn(notes, RuntimeWarning, stacklevel=4)

    def failures(self) -> Iterable[ImageError]:
        index, reason = ctypes.c_size_t(), ctypes.c_char_p()
        for which in range(library.fovea_embed_failures(self._run)):
            library.fovea_embed_failure(self._run, which, ctypes.byref(index), ctypes.byref(reason))
            why = self._unreadable.get(index.value) or text(reason.value or b"")
            yield ImageError(self._first + index.value, _images.source_of(self._images[index.value]), why)

    def stop(self) -> None:
        """Asks the run to end early."""
        if self._run and os.getpid() == self._pid:
            library.fovea_embed_stop(self._run)

    def close(self) -> None:
        """Ends the run, after which the engine uses neither images nor rows."""
        run, self._run = self._run, ctypes.c_void_p()
        if run and os.getpid() == self._pid:  # as in _free_encoder
            library.fovea_embed_free(run)

    # The engine writes to this object's memory, so the run must end before the object does.
    __del__ = close


def _finish(run: _Run, bar: Any, on_error: OnError) -> None:
    try:
        run.wait(bar)
        for failure in run.failures():
            if on_error == "raise":
                raise failure
            if callable(on_error):
                on_error(failure)
    finally:
        run.close()


def _free_encoder(handle: ctypes.c_void_p, pid: int) -> None:
    if os.getpid() == pid:  # a forked child does not have the threads for which this would wait
        library.fovea_encoder_free(handle)


def _as_list(images: Any) -> Sequence[Any]:
    """The images as a sequence. A single image is refused, because its parts would count as images."""
    single = isinstance(images, (str, os.PathLike, bytes, bytearray, memoryview))
    if single or not isinstance(images, Iterable) or _images.is_single(images):
        raise TypeError(f"pass a list of images, not one {type(images).__name__}: embed([image])[0]")
    return images if isinstance(images, (list, tuple)) else list(_images.as_host_array(images))


class _NoBar:
    def update(self, count: int) -> None:
        pass

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _progress_bar(total: int, wanted: bool) -> Any:
    if not wanted:
        return _NoBar()
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True needs tqdm: pip install tqdm") from error
    return tqdm(total=total, unit="img")
