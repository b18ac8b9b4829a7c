"""Encoder: a model that turns images and texts into embeddings."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, Literal, NoReturn, SupportsIndex

import numpy as np
import numpy.typing as npt

from fovea import _images
from fovea._arguments import (
    TEXT_CLEANS,
    TOWERS,
    Device,
    Precision,
    TextClean,
    TorchType,
    Tower,
    choice,
    device_name,
    integer,
    name_text,
    path_text,
    precision_name,
)
from fovea._bar import Bar, progress_bar
from fovea._errors import Error, ImageError
from fovea._features import Features, FeatureType, Layer, compute_features, feature_type, layer_name
from fovea._images import ImageLike
from fovea._label import (
    DEFAULT_TEMPLATE,
    LabelScores,
    LogitScale,
    Numbers,
    as_embeddings,
    embed_labels,
    make_labels,
    score,
)
from fovea._library import EmbedOptions, EmbedTextsOptions, FeaturesOptions, library, text
from fovea._result import EmbeddedImage, FailedImage, Result
from fovea._runs import Options, Rows, Run, RunQueue, Window, WindowOfTexts, make_windows, single_window

OnError = Literal["raise", "nan"] | Callable[[ImageError], Any]

# Images per run of `embed` when the engine cannot take all of them in one run.
_MIN_WINDOW = 256
# Texts per run of `embed_text`.
_TEXTS_PER_WINDOW = 1024
# Bytes by which the array of rows grows while the number of images is unknown.
_ROWS_BYTES = 16 << 20
_LONG_BITS = 64


class Encoder:
    """A loaded model. An Encoder may be used from several threads; the device computes one batch at a time."""

    def __init__(
        self,
        model: str | os.PathLike[str],
        device: Device = "auto",
        precision: Precision | TorchType = "auto",
        *,
        threads: SupportsIndex = 0,
        decode_threads: SupportsIndex = 0,
        decode_memory: SupportsIndex = 0,
        max_pixels: SupportsIndex = 0,
        first: Tower = "images",
        calibration: str | os.PathLike[str] | None = None,
    ) -> None:
        """Loads a SigLIP or SigLIP 2 model. Models are never downloaded here; use `pull` for that.

        Args:
            model: a folder in Hugging Face layout, or a name such as
                "google/siglip2-base-patch16-224" that is in the local Hugging Face cache.
            device: "auto", "cpu", "cuda" or "cuda:N", or a torch.device. "auto" takes a GPU when one is usable,
                else the CPU; `Encoder.device` says which. "emu" and "emu:ARCH" (docs/emulator.md) run GPU kernels
                in an emulator on the CPU, which is far slower, and report errors of the kernels.
            precision: "auto" is "bf16" where the device has instructions for it, else "fp32". Precisions that the
                device lacks are an error, and so are calibrated ones, such as "int8", before `fovea calibrate` has
                prepared the model; the message says what to do. torch.float32 and torch.bfloat16 mean "fp32" and
                "bf16".
            threads: compute threads; 0: one per CPU that this process may use.
            decode_threads: threads that decode and resize images; 0: one per CPU that this process may use.
            decode_memory: limit in bytes for all images that are being read and decoded; 0: half of the memory, but
                no more than ordinary photos in all threads, or one image of the largest size, need.
            max_pixels: images with more pixels fail; 0: Pillow's limit, 178,956,970.
            first: the tower that is loaded now, "images" or "texts"; the other is loaded when it is first needed.
            calibration: the folder of calibrations; None: FOVEA_CALIBRATION, else where `fovea calibrate` writes them.

        Raises:
            Error: the model, the device or the precision is unavailable; the message says why.
            TypeError, ValueError: an argument has the wrong type, a number is negative, or a name contains a
                NUL character.
        """
        handle = ctypes.c_void_p()
        arguments = (
            path_text(model, "model"),
            name_text(device_name(device), "device"),
            name_text(precision_name(precision), "precision"),
            integer(threads, "threads", 0, least_is="one per CPU"),
            choice(first, "first", TOWERS),
            None if calibration is None else path_text(calibration, "calibration"),
        )
        self._decode_threads = integer(decode_threads, "decode_threads", 0, least_is="one per CPU")
        self._decode_limits = (
            integer(decode_memory, "decode_memory", 0, _LONG_BITS, least_is="automatic"),
            integer(max_pixels, "max_pixels", 0, _LONG_BITS, least_is="Pillow's limit"),
        )
        library.fovea_encoder_load_calibrated(*arguments, ctypes.byref(handle))
        self._handle = handle
        self._lock = threading.Lock()  # the handle must not be freed during its use
        self._pid = os.getpid()
        self._free = weakref.finalize(self, _free_encoder, handle, self._pid)
        self._free.atexit = False  # daemon threads may still use the handle; the end of the process frees it
        self._labels: tuple[Any, Numbers] | None = None  # arguments of the last call of `label`, and their vectors
        self._model = os.fsdecode(model)
        self._device = text(library.fovea_encoder_device(handle))
        self._precision = text(library.fovea_encoder_precision(handle))
        self._dimension: int = library.fovea_encoder_dimension(handle)
        self._batch_size: int = library.fovea_encoder_batch_size(handle)
        size = (library.fovea_encoder_height(handle), library.fovea_encoder_width(handle))
        self._image_size = size if all(size) else None

    @property
    def model(self) -> str:
        """The name of the model, as given to the constructor."""
        return self._model

    @property
    def device(self) -> str:
        """A human-readable description of the device, such as "cpu (avx512_bf16), bf16, 8 threads"."""
        return self._device

    @property
    def precision(self) -> str:
        """The precision in use, such as "bf16"; never "auto"."""
        return self._precision

    @property
    def dimension(self) -> int:
        """Dimension of the embeddings."""
        return self._dimension

    @property
    def batch_size(self) -> int:
        """The default batch size, which is the recommended one for the device."""
        return self._batch_size

    @property
    def image_size(self) -> tuple[int, int] | None:
        """(height, width) in pixels, to which every image is resized; None for a NaFlex model, whose images
        keep their aspect ratios."""
        return self._image_size

    @property
    def logit_scale(self) -> LogitScale:
        """The scale and bias that turn cosines of images and texts into logits and probabilities. The first use loads
        the text tower, and raises an Error when the model has none."""
        factor, bias = ctypes.c_double(), ctypes.c_double()
        with self._locked_handle() as handle:
            library.fovea_encoder_logit_scale(handle, ctypes.byref(factor), ctypes.byref(bias))
        return LogitScale(factor.value, bias.value)

    def __repr__(self) -> str:
        return f"<fovea.Encoder {self._model}: {self._device}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an Encoder cannot be pickled, because its threads and its memory belong to this process: load it in "
            f"the process that uses it, with fovea.load({self._model!r})"
        )

    def embed(
        self,
        images: Iterable[ImageLike],
        batch_size: SupportsIndex | None = None,
        normalize: bool = True,
        progress: bool = False,
        *,
        on_error: OnError = "raise",
    ) -> npt.NDArray[np.float32]:
        """Turns images into embeddings. Images are decoded on all cores while the device computes.

        Args:
            images: any mix of paths, bytes of image files, files opened in binary mode (they are rewound), PIL
                images, and pixels: uint8 [height, width, 3] of any size as numpy arrays, torch tensors or
                other objects that support DLPack. Gray ([height, width] or one channel) is repeated, and
                alpha (a second or fourth channel) is dropped, as for files. Tensors on a GPU are copied to
                the host. Lists, tuples and arrays [images, height, width, 3] are read at once; any other
                iterable, such as a generator, is read as its images are needed, so that at most about 100 MB
                of images, or four of them, are in memory in addition to the result.
            batch_size: images computed together; None: `Encoder.batch_size`.
            normalize: scale every embedding to length 1.
            progress: show a progress bar (needs tqdm).
            on_error: how to handle an unreadable image. "raise": the call ends with an
                ImageError that names it. "nan": its row is all NaN. A function: it is called with
                the ImageError of each such image, in order, and the rows of these images are all NaN;
                the method `append` of a list collects the errors.

        Returns:
            float32 [images, dimension], row i for image i. The values are those of
            `fovea embed` for the same files, device, precision and batch size.

        Raises:
            ImageError: an image cannot be read, and `on_error` is "raise".
            TypeError, ValueError: an item is not an image, whatever `on_error` says.
            Error: the device failed, or the Encoder is closed.
        """
        if on_error not in ("raise", "nan") and not callable(on_error):
            raise ValueError(f'on_error must be "raise", "nan" or a function, not {on_error!r}')
        options = self._options(batch_size, normalize, stop_at_failure=on_error == "raise")
        inputs = _iterable_images(images)
        total = len(inputs) if isinstance(inputs, (list, tuple)) else None
        with progress_bar(total, progress, "img") as bar:
            if isinstance(inputs, (list, tuple)):
                return self._embed_list(inputs, options, bar, on_error)
            return self._embed_windows(make_windows(inputs, self._window(options)), options, bar, on_error)

    def _embed_list(self, images: Sequence[Any], options: EmbedOptions, bar: Bar, on_error: OnError) -> Rows:
        rows = np.empty((len(images), self._dimension), np.float32)
        everything = single_window(images)
        windows = make_windows(images, self._window(options)) if everything is None else iter([everything])

        def start(window: Window) -> Run:
            return self._start(window, rows[window.first : window.first + len(window)], options)

        with RunQueue(start, bar) as running:
            for run in running.finished(windows):
                _handle_failures(run, on_error)
        return rows

    def _embed_windows(self, windows: Iterator[Window], options: Options, bar: Bar, on_error: OnError) -> Rows:
        rows = np.empty((0, self._dimension), np.float32)
        count = 0
        more = max(_ROWS_BYTES // (rows.itemsize * self._dimension), 1)
        with RunQueue(lambda window: self._start(window, self._rows_for(window), options), bar) as running:
            for run in running.finished(windows):
                _handle_failures(run, on_error)
                end = count + len(run.rows)
                if end > len(rows):  # resize() is cheap, as mremap() moves the pages of large arrays
                    rows.resize((end + more, self._dimension), refcheck=False)
                rows[count:end] = run.rows
                count = end
        rows.resize((count, self._dimension), refcheck=False)
        return rows

    def embed_text(
        self,
        texts: str | Iterable[str],
        *,
        clean: TextClean = "auto",
        normalize: bool = True,
        progress: bool = False,
    ) -> npt.NDArray[np.float32]:
        """Turns texts into embeddings, to be compared with those of images by their cosines.

        The first call loads the text tower, unless `load` did. The embedding of a text is the same, bit for bit,
        whatever the other texts are.

        Args:
            texts: one text, or any iterable of texts. The model reads the first 63 tokens or so of each; none may
                take more than 1 MiB.
            clean: how texts are normalised first. "auto": as in the model's training, which is "lower" (lower case)
                for SigLIP 2, and "canonicalize" (lower case, no ASCII punctuation) for SigLIP. Both also collapse
                white space. "none": texts are not changed.
            normalize: scale every embedding to length 1.
            progress: show a progress bar (needs tqdm).

        Returns:
            float32 [dimension] for one text, else [texts, dimension].

        Raises:
            TypeError, ValueError: an item is not a text, or contains an unpaired surrogate.
            Error: the model has no text tower or no tokenizer, the device failed, or the Encoder is closed.
        """
        options = EmbedTextsOptions(choice(clean, "clean", TEXT_CLEANS), bool(normalize))
        inputs = [texts] if isinstance(texts, str) else texts
        if isinstance(inputs, (bytes, bytearray)) or not isinstance(inputs, Iterable):
            raise TypeError(f"pass a string or several, not {type(inputs).__name__}")
        total = len(inputs) if isinstance(inputs, (list, tuple)) else None
        with progress_bar(total, progress, "text") as bar:
            windows = make_windows(inputs, _TEXTS_PER_WINDOW, make=WindowOfTexts)
            rows = self._embed_windows(windows, options, bar, "raise")
        return rows[0].copy() if isinstance(texts, str) else rows

    def label(
        self,
        images: Iterable[ImageLike] | npt.NDArray[np.floating[Any]],
        labels: Sequence[str],
        template: str | Sequence[str] = DEFAULT_TEMPLATE,
        *,
        clean: TextClean = "auto",
        batch_size: SupportsIndex | None = None,
        progress: bool = False,
        on_error: OnError = "raise",
    ) -> LabelScores:
        """Scores how well labels fit images. Each pair is scored independently, so the probabilities of an image do not
        add up to 1: several labels may fit, or none.

        Args:
            images: as for `embed`; or embeddings of images, a floating-point array [images, dimension] or
                [dimension].
            labels: such as ["cat", "dog"].
            template: a text in which a label replaces "{}". With several templates, the vector of a label is the mean
                of the unit vectors of its texts.
            clean: as for `embed_text`.
            batch_size, progress, on_error: as for `embed`. The scores of a failed image are NaN.

        Returns:
            The logits and probabilities [images, labels].

        Raises:
            ImageError, TypeError, ValueError, Error: as for `embed` and `embed_text`. ValueError also when there is no
                label, and Error when a template does not contain exactly one "{}".
        """
        label_texts = make_labels(labels, template)
        key = (label_texts, clean)
        known = self._labels
        if known is None or known[0] != key:
            cleaning = choice(clean, "clean", TEXT_CLEANS)
            known = self._labels = (key, embed_labels(label_texts, self._dimension, cleaning, self._locked_handle))
        embeddings = as_embeddings(images, self._dimension)
        if embeddings is None:
            embeddings = self.embed(images, batch_size, progress=progress, on_error=on_error)
        return score(embeddings, label_texts.names, known[1], self.logit_scale)

    def features(
        self,
        images: Iterable[ImageLike],
        layer: Layer = "last",
        *,
        dtype: FeatureType | npt.DTypeLike | TorchType = "f16",
        batch_size: SupportsIndex | None = None,
        progress: bool = False,
    ) -> Features:
        """Computes hidden states of the vision tower for every patch of an image, as inputs of other models. They stay
        in the memory of the device, where `torch.from_dlpack` can use them without a copy.

        Args:
            images: as for `embed`. All of them are read at once, and the result holds the features of all.
            layer: an index as in `hidden_states` of transformers: 0 is the input of the first layer, -1 the output of
                the last layer, before the final norm, and -2 the input of the last layer, which is also called
                "penultimate". "last" is `last_hidden_state`, after the norm, and "pooled" is `pooler_output`: the
                embedding before normalisation.
            dtype: "f16" or "f32", or the equivalent of numpy or torch. Values beyond 65504 are infinite in f16.
            batch_size: images computed together; None: `Encoder.batch_size`.
            progress: show a progress bar (needs tqdm).

        Returns:
            Features [images, tokens, hidden], or [images, hidden] for "pooled". The features of an image are the same,
            bit for bit, whatever the other images are.

        Raises:
            ImageError: an image cannot be read.
            TypeError, ValueError: an item is not an image, or an argument is invalid.
            Error: the model has no such layer, or no pooling head for "pooled"; a NaFlex model, whose images have
                different numbers of patches, is asked for anything but "pooled"; the features do not fit into the
                memory of the device, the device failed, or the Encoder is closed.
        """
        name = layer_name(layer)
        number = 0 if batch_size is None else integer(batch_size, "batch_size", 1)
        options = FeaturesOptions(feature_type(dtype), number, self._decode_threads, 0, *self._decode_limits)
        inputs = list(_iterable_images(images))
        window = single_window(inputs) or Window.from_items(inputs)

        def start(run: Run) -> ctypes.c_void_p:
            with self._locked_handle() as handle:
                return run.start_features(handle, name, options)

        with progress_bar(len(window), progress, "img") as bar:
            return compute_features(window, start, bar)

    def heat(self, text: str, image: ImageLike, *, clean: TextClean = "auto") -> npt.NDArray[np.float32]:
        """Computes a heat map: how well a text matches each part of an image.

        Args:
            text: such as "a dog".
            image: one image, as for `embed`.
            clean: as for `embed_text`.

        Returns:
            float32 [rows, columns], a value for each patch of the image, the top row first: the cosine between the
            text's embedding and the embedding that the image would have if the model attended only to that patch. The
            patches cover the whole image except for an incomplete patch at the right and the lower edge.

        Raises:
            TypeError, ValueError: the text is not a string, or the image is not an image.
            Error: the image cannot be read, the model has no text tower or no pooling head, the device failed, or the
                Encoder is closed.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a string, not {type(text).__name__}")
        window, texts = Window.from_items([image]), WindowOfTexts.from_items([text])
        if 0 in window.unreadable:
            raise ImageError(0, window.source(0), window.unreadable[0])
        image_table, kept_image = window.table()
        text_table, kept_text = texts.table()
        rows, columns = ctypes.c_int64(), ctypes.c_int64()
        with self._locked_handle() as handle:
            values = np.empty(library.fovea_encoder_patches(handle), np.float32)
            library.fovea_heat(
                *(handle, text_table.ctypes.data, image_table.ctypes.data, choice(clean, "clean", TEXT_CLEANS)),
                *(values.ctypes.data, len(values), ctypes.byref(rows), ctypes.byref(columns)),
            )
        del kept_image, kept_text
        return values[: rows.value * columns.value].reshape(rows.value, columns.value)

    def stream(
        self,
        images: Iterable[ImageLike],
        *,
        batch_size: SupportsIndex | None = None,
        normalize: bool = True,
        on_error: Literal["yield", "raise"] = "yield",
    ) -> Generator[Result, None, None]:
        """Yields the result of each image as soon as it is known, in the order of the images.

        Images are taken from the iterable when results are requested, a few batches in advance, so memory is
        bounded whatever the number of images, and a slow consumer slows the work down. Images are taken only in
        calls of `next`: closing the generator ends the stream, and it may be read from any thread, one at a
        time. Several streams may be read at once; they share the device batch by batch.

        Args:
            images: as for `embed`. When it raises an exception, the results of the images before come first.
            batch_size: images computed together; None: `Encoder.batch_size`. Smaller batches are computed while
                the device is idle, so that results of slow sources do not wait for a full batch.
            normalize: scale every embedding to length 1.
            on_error: how to handle an unreadable image. "yield": its result has an `error` in place of the
                embedding. "raise": the ImageError is raised, which ends the stream.

        Returns:
            A generator of `Result`: each has `index`, `source`, and either `embedding` or `error`; the other is None.

        Raises:
            ImageError: an image cannot be read, and `on_error` is "raise".
            TypeError, ValueError: an item is not an image, whatever `on_error` says; after the results of the
                images before it.
            Error: the device failed, or the Encoder is closed.
        """
        if on_error not in ("yield", "raise"):
            raise ValueError(f'on_error must be "yield" or "raise", not {on_error!r}')
        options = self._options(batch_size, normalize, stop_at_failure=False)
        return self._stream(iter(_iterable_images(images)), options, on_error)

    def _stream(self, images: Iterable[Any], options: EmbedOptions, on_error: str) -> Generator[Result, None, None]:
        with RunQueue(lambda window: self._start(window, self._rows_for(window), options), Bar()) as running:
            windows = make_windows(images, options.batch_size or self._batch_size, running.is_idle)
            for run in running.finished(windows, finish_on_error=True):
                failures = {failure.index: failure for failure in run.failures()}
                for which, row in enumerate(run.rows):
                    index = run.window.first + which
                    error = failures.get(index)
                    if error is not None and on_error == "raise":
                        raise error
                    # The row is copied, because a view would keep the rows of the whole run alive.
                    source = run.window.source(which)
                    yield FailedImage(index, source, error) if error else EmbeddedImage(index, source, row.copy())

    def close(self) -> None:
        """Frees the model's memory at once. Running calls are not interrupted."""
        with self._lock:
            self._free()

    def __enter__(self) -> Encoder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _options(self, batch_size: SupportsIndex | None, normalize: bool, stop_at_failure: bool) -> EmbedOptions:
        images = 0 if batch_size is None else integer(batch_size, "batch_size", 1)
        return EmbedOptions(images, self._decode_threads, bool(normalize), stop_at_failure, *self._decode_limits)

    def _window(self, options: EmbedOptions) -> int:
        """Returns the number of images per window of `embed`: a multiple of the batch size."""
        batch = options.batch_size or self._batch_size
        return -(-_MIN_WINDOW // batch) * batch

    def _rows_for(self, window: Window) -> Rows:
        return np.empty((len(window), self._dimension), np.float32)

    @contextlib.contextmanager
    def _locked_handle(self) -> Iterator[ctypes.c_void_p]:
        """Provides the handle, and keeps it from being freed within the context."""
        if os.getpid() != self._pid:
            raise Error(
                "this Encoder was loaded before the process forked, and its threads exist only in the parent: "
                'load it in the process that uses it, or start processes by "spawn"'
            )
        with self._lock:
            if not self._free.alive:
                raise Error("this Encoder is closed")
            yield self._handle

    def _start(self, window: Window, rows: Rows, options: Options) -> Run:
        run = Run(window, rows)
        with self._locked_handle() as handle:
            run.start(handle, options)
        return run


#: fovea.load(...) is the usual way to make an Encoder.
load = Encoder


def _handle_failures(run: Run, on_error: OnError) -> None:
    for failure in run.failures():
        if on_error == "raise":
            raise failure
        if callable(on_error):
            on_error(failure)


def _free_encoder(handle: ctypes.c_void_p, pid: int) -> None:
    if os.getpid() == pid:  # in a forked child this would wait for threads that exist only in the parent
        library.fovea_encoder_free(handle)


def _iterable_images(images: Any) -> Iterable[Any]:
    """Returns an array or tensor of images as a list, and any other iterable unchanged. Raises TypeError for a single
    image, whose rows or bytes would be taken for images."""
    single = isinstance(images, (str, os.PathLike, bytes, bytearray, memoryview))
    if single or not isinstance(images, Iterable) or _images.is_single(images):
        raise TypeError(f"pass a list of images, not one {type(images).__name__}: embed([image])[0]")
    batch = _images.as_host_array(images)
    return list(batch) if isinstance(batch, np.ndarray) else images
