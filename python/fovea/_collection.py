"""Collection: the outputs of `fovea embed`, which can be searched by words, photos and vectors."""

from __future__ import annotations

import concurrent.futures
import ctypes
import datetime
import numbers
import operator
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, SupportsIndex, Union, overload

import numpy as np
import numpy.typing as npt

from fovea import _library
from fovea._arguments import TEXT_CLEANS, Device, TextClean, choice, device_name, integer, name_text, path_text
from fovea._encoder import Encoder
from fovea._errors import Error
from fovea._images import ImageLike
from fovea._library import SEARCH_HANDLER, library, text
from fovea._match import Match, Nearest, Photo
from fovea._query import Queries, Query, make_queries

Path = Union[str, "os.PathLike[str]"]

MAX_WEIGHT = 1000  # the same limit as for --photo-weight
_LONG_BITS = 64
# Rows to read per call of the engine; Ctrl-C is handled between calls.
_ROWS_PER_READ = 1 << 14


class Collection:
    """The embeddings of photos, and their names. Rows are numbered consecutively through all outputs; len() is their
    number. A Collection may be used from several threads; searches run one at a time."""

    def __init__(
        self,
        outputs: Path | Sequence[Path],
        *,
        model: Path | None = None,
        encoder: Encoder | None = None,
        root: Path | None = None,
        threads: SupportsIndex = 0,
        device: Device = "cpu",
    ) -> None:
        """Opens outputs of `fovea embed` for searching.

        Args:
            outputs: the folder or the NAME.npy that `fovea embed -o` wrote, or several of them, which are searched as
                one. They must be of the same model.
            model: the model for words and for photos that are not in the outputs; None: the one that made the outputs.
                It is loaded when it is first needed: on the CPU, in fp32; with device="cuda" on that GPU, in bf16.
            encoder: an Encoder to use instead of `model`, which the caller still owns.
            root: the folder to which relative names of photos refer; None: the folder where `fovea embed` ran.
            threads: threads that compare; 0: one per CPU that this process may use.
            device: where rows are compared: "cpu", "cuda", "cuda:N", "emu", "auto", or a torch.device. A GPU keeps
                an 8-bit copy of all rows in its memory from the first search on, which suits collections that stay
                open; "auto" uses a GPU from the second search on, if one has enough free memory. Results are
                identical, bit for bit.

        Raises:
            Error: an output is missing, damaged, incomplete, or of another model (the message names the file), or the
                device is unavailable.
            TypeError, ValueError: an argument has the wrong type, there is no output, a number is negative, or a name
                contains a NUL character.
        """
        several = [outputs] if isinstance(outputs, (str, os.PathLike)) else list(outputs)
        if not several:
            raise ValueError("outputs must hold at least one path")
        if encoder is not None and not isinstance(encoder, Encoder):
            raise TypeError(f"encoder must be a fovea.Encoder, not {type(encoder).__name__}")
        if encoder is not None and model is not None:
            raise ValueError("pass a model or an encoder, not both")
        paths = [path_text(path, "outputs") for path in several]
        self._threads = integer(threads, "threads", 0, least_is="one per CPU")
        self._device = device_name(device)
        handle = ctypes.c_void_p()
        library.fovea_collection_open_on(
            (ctypes.c_char_p * len(paths))(*paths),
            len(paths),
            path_text("" if root is None else root, "root"),
            self._threads,
            name_text(self._device, "device"),
            ctypes.byref(handle),
        )
        self._handle: _Handle | None = _Handle(handle)
        self._outputs = [os.fsdecode(path) for path in several]
        self._rows: int = library.fovea_collection_rows(handle)
        self._dimension: int = library.fovea_collection_dimension(handle)
        self._finished = bool(library.fovea_collection_is_finished(handle))
        self._model = os.fsdecode(library.fovea_collection_model(handle) if model is None else model)
        self._lock = threading.Lock()  # guards loading of the model
        self._encoder = encoder
        self._is_own_encoder = False

    def __len__(self) -> int:
        return self._rows

    @property
    def dimension(self) -> int:
        """Dimension of the embeddings."""
        return self._dimension

    @property
    def model(self) -> str:
        """The model for queries: that of the outputs, unless another was given; "" when unknown."""
        return self._model

    @property
    def outputs(self) -> list[str]:
        """The paths of the outputs, as given."""
        return list(self._outputs)

    @property
    def is_finished(self) -> bool:
        """False when an output is unfinished, so that its last rows are missing."""
        return self._finished

    @property
    def sources(self) -> Sequence[str]:
        """The names of the photos by row, in UTF-8, with other bytes as \\\\xHH. Each name is read on access."""
        return _Sources(self)

    @property
    def encoder(self) -> Encoder:
        """The encoder of words and photos, which is loaded on first use. Raises an Error when the model is unknown."""
        with self._lock:
            self._opened()
            if self._encoder is None:
                if not self._model:
                    raise Error(
                        f"no manifest.json in {', '.join(self._outputs)} names the model: pass model= or encoder="
                    )
                # The CPU embeds a few texts faster than a GPU is initialised, but one with the rows is initialised.
                on_gpu = self._device.startswith(("cuda", "emu"))
                self._encoder = Encoder(
                    self._model,
                    self._device if on_gpu else "cpu",
                    "bf16" if on_gpu else "fp32",
                    threads=self._threads,
                    first="texts",
                )
                self._is_own_encoder = True
            return self._encoder

    def __repr__(self) -> str:
        return f"<fovea.Collection {', '.join(self._outputs)}: {self._rows} rows of {self._dimension}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Collection cannot be pickled, because its threads belong to this process: open it in the process that "
            f"uses it, with fovea.open({self._outputs!r})"
        )

    @overload
    def search(
        self,
        query: list[Any] | tuple[Any, ...],
        k: SupportsIndex = ...,
        *,
        photo: _Photos = ...,
        photo_weight: float = ...,
        without: _Queries = ...,
        without_weight: float = ...,
        clean: TextClean = ...,
    ) -> list[list[Match]]: ...
    @overload
    def search(
        self,
        query: Query,
        k: SupportsIndex = ...,
        *,
        photo: _Photos = ...,
        photo_weight: float = ...,
        without: _Queries = ...,
        without_weight: float = ...,
        clean: TextClean = ...,
    ) -> list[Match]: ...
    def search(
        self,
        query: Any,
        k: SupportsIndex = 10,
        *,
        photo: Any = (),
        photo_weight: float = 1.0,
        without: Any = (),
        without_weight: float = 1.0,
        clean: TextClean = "auto",
    ) -> list[Match] | list[list[Match]]:
        """Finds the photos that are nearest to words, to a photo, or to a vector.

        Args:
            query: what to look for. A string is words; a pathlib.Path, or any image that `Encoder.embed` takes, is a
                photo; an integer is a row of this collection; a floating-point array [dimension] is a vector. Each
                item of a list or tuple is a search of its own. A photo of the collection is not embedded again, and
                is not among its own results.
            k: photos to find per query.
            photo: a photo, or a list of photos, that the results should also resemble. A string is a name in the
                collection or a path here.
            photo_weight: the weight of each such photo; that of the query is 1.
            without: words (or a photo, or a list) for what the results should not show.
            without_weight: the weight of each item of `without`. The query is the weighted sum of all unit vectors,
                from which those of `without` are subtracted.
            clean: as for `Encoder.embed_text`.

        Returns:
            The matches, the best first; for a list of queries, a list of such lists. Scores are exact cosines. Cosines
            of words are low even for the right photos; when a query consists of words alone, matches also have SigLIP's
            logit and probability.

        Raises:
            Error: a photo cannot be read, the model cannot be loaded or has no text tower, a file of the collection has
                changed, or the Collection is closed.
            TypeError, ValueError: an argument has the wrong type or shape.
        """
        count = integer(k, "k", 1)
        choice(clean, "clean", TEXT_CLEANS)
        several = isinstance(query, (list, tuple))
        queries = make_queries(
            self,
            list(query) if several else [query],
            _as_list(photo),
            _weight(photo_weight, "photo_weight"),
            _as_list(without),
            _weight(without_weight, "without_weight"),
            clean,
        )
        nearest = self._nearest(queries.vectors, max(1, min(count, self._rows)), queries.left_out)
        results = list(self._matches(queries, nearest))
        return results if several else results[0]

    def nearest(
        self,
        vectors: npt.NDArray[np.floating[Any]],
        k: SupportsIndex = 10,
        *,
        left_out: npt.ArrayLike | None = None,
    ) -> Nearest:
        """Finds the rows that are nearest to vectors, as arrays. This is the fastest way for many queries.

        Args:
            vectors: floating-point [vectors, dimension] or [dimension], of any length but 0.
            k: rows per vector.
            left_out: per vector, a row to exclude, such as the vector's own, or -1 for none.

        Returns:
            Nearest(rows, scores): int64 and float64 [vectors, k], or [k] for one vector, nearest first, with rows of
            equal score in row order; -1 and NaN where there are fewer rows.

        Raises:
            Error: a vector holds NaN or infinity, or only zeros; a file of the collection has changed; the
                Collection is closed.
            TypeError, ValueError: an argument has the wrong type or shape.
        """
        array = np.asarray(vectors)
        if array.dtype.kind != "f" or array.ndim not in (1, 2) or array.shape[-1] != self._dimension:
            shape = "x".join(map(str, array.shape))
            raise ValueError(
                f"vectors must be floating-point [vectors, {self._dimension}] or [{self._dimension}], not "
                f"{array.dtype} {shape}"
            )
        several = np.ascontiguousarray(np.atleast_2d(array), np.float32)
        count = integer(k, "k", 1)
        excluded_rows = None
        if left_out is not None:
            excluded_rows = np.ascontiguousarray(np.atleast_1d(left_out))
            if excluded_rows.dtype.kind not in "iu" or excluded_rows.shape != (len(several),):
                raise ValueError(f"left_out must hold {len(several)} integers, one per vector")
            excluded_rows = excluded_rows.astype(np.int64)
        result = self._nearest(several, count, excluded_rows)
        return result if array.ndim == 2 else Nearest(result.rows[0], result.scores[0])

    def find(self, photo: Path) -> int | None:
        """Returns the first row of a photo, given by its name in the collection or by a path that leads to it, or None
        when it is not in the collection."""
        row = ctypes.c_int64()
        library.fovea_collection_find(self._opened().pointer, path_text(photo, "photo"), ctypes.byref(row))
        return None if row.value < 0 else row.value

    def photo(self, row: SupportsIndex) -> Photo:
        """Returns the photo of a row: its index entry, and the current state of its file."""
        entry = _library.Photo()
        number = self._number(row)
        library.fovea_collection_photo(self._opened().pointer, number, ctypes.byref(entry))
        modified = datetime.datetime.fromtimestamp(0, datetime.timezone.utc) + datetime.timedelta(
            seconds=entry.modified
        )
        return Photo(
            row=number,
            source=text(entry.source),
            path=os.fsdecode(entry.path),
            output=self._outputs[entry.output],
            width=entry.width,
            height=entry.height,
            bytes=None if entry.bytes < 0 else entry.bytes,
            modified=modified if entry.has_modified else None,
            captured=text(entry.captured) or None,
            is_member=bool(entry.is_member),
            has_changed=bool(entry.has_changed),
            error=text(entry.error) or None,
        )

    def embedding(self, row: SupportsIndex) -> npt.NDArray[np.float32]:
        """Returns the embedding of a row, float32 [dimension]."""
        return self.embeddings(self._number(row), 1).reshape(-1)

    def embeddings(self, first: SupportsIndex = 0, count: SupportsIndex | None = None) -> npt.NDArray[np.float32]:
        """Reads the embeddings of `count` rows from `first` on (None: all remaining rows), float32 [count, dimension].
        They are not normalised; f16 rows are converted."""
        begin = integer(first, "first", 0, _LONG_BITS)
        number = max(self._rows - begin, 0) if count is None else integer(count, "count", 0, _LONG_BITS)
        if begin + number > self._rows:
            raise IndexError(f"rows [{begin}, {begin + number}) are out of range: the collection has {self._rows} rows")
        rows = np.empty((number, self._dimension), np.float32)
        for start in range(0, number, _ROWS_PER_READ):
            part = rows[start : start + _ROWS_PER_READ]
            library.fovea_collection_embeddings(self._opened().pointer, begin + start, len(part), part.ctypes.data)
        return rows

    def close(self) -> None:
        """Frees the memory at once, including the model if this object loaded it. Running calls are not interrupted."""
        with self._lock:
            self._handle = None
            if self._is_own_encoder and self._encoder is not None:
                self._encoder.close()
            self._encoder = None

    def __enter__(self) -> Collection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self) -> _Handle:
        """Returns the handle of the open collection. A reference to it keeps the collection from being freed."""
        handle = self._handle
        if handle is None:
            raise Error("this Collection is closed")
        return handle

    def _number(self, row: SupportsIndex) -> int:
        number = integer(row, "row", 0, _LONG_BITS)
        if number >= self._rows:
            raise IndexError(f"row {number} is out of range: the collection has {self._rows} rows")
        return number

    def _source(self, row: int) -> tuple[str, str]:
        """Returns the name and the path of the photo of a row."""
        source, path = ctypes.c_char_p(), ctypes.c_char_p()
        library.fovea_collection_source(self._opened().pointer, row, ctypes.byref(source), ctypes.byref(path))
        return text(source.value or b""), os.fsdecode(path.value or b"")

    def _nearest(self, vectors: npt.NDArray[np.float32], k: int, left_out: npt.NDArray[np.int64] | None) -> Nearest:
        result = Nearest(np.empty((len(vectors), k), np.int64), np.empty((len(vectors), k), np.float64))
        handle = self._opened()

        def work(is_stopped: Any) -> None:
            library.fovea_collection_nearest(
                handle.pointer,
                vectors.ctypes.data,
                len(vectors),
                k,
                None if left_out is None else left_out.ctypes.data,
                SEARCH_HANDLER(lambda _done, _total, _context: int(is_stopped())),
                None,
                result.rows.ctypes.data,
                result.scores.ctypes.data,
            )

        _interruptible(work)
        return result

    def _matches(self, queries: Queries, nearest: Nearest) -> Iterator[list[Match]]:
        scale = self.encoder.logit_scale if any(queries.are_texts) else None
        for rows, scores, is_text in zip(
            nearest.rows.tolist(), nearest.scores.tolist(), queries.are_texts, strict=True
        ):
            matches = []
            for row, score in zip(rows, scores, strict=True):
                if row < 0:
                    break
                logit = probability = None
                if scale is not None and is_text:
                    logit, probability = float(scale.logit(score)), float(scale.probability(score))
                matches.append(Match(row, score, *self._source(row), logit, probability))
            yield matches


#: fovea.open(...) is the usual way to make a Collection.
open = Collection

_Photos = Union[SupportsIndex, ImageLike, npt.NDArray[np.floating[Any]], "list[Any]", "tuple[Any, ...]"]
_Queries = Union[Query, "list[Any]", "tuple[Any, ...]"]


class _Handle:
    """The engine's collection, which is freed with the last reference to this object."""

    def __init__(self, pointer: ctypes.c_void_p) -> None:
        self.pointer = pointer
        weakref.finalize(self, _free_collection, pointer, os.getpid()).atexit = False


def _free_collection(pointer: ctypes.c_void_p, pid: int) -> None:
    if os.getpid() == pid:  # in a forked child this would wait for threads that exist only in the parent
        library.fovea_collection_free(pointer)


class _Sources(Sequence[str]):
    """The names of a collection's photos."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def __len__(self) -> int:
        return len(self._collection)

    @overload
    def __getitem__(self, row: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: Any) -> str | list[str]:
        if isinstance(row, slice):
            return [self[number] for number in range(*row.indices(len(self)))]
        number = operator.index(row)
        number += len(self) if number < 0 else 0
        if not 0 <= number < len(self):
            raise IndexError(f"row {operator.index(row)} is out of range: the collection has {len(self)} rows")
        return self._collection._source(number)[0]


def _interruptible(work: Callable[[Callable[[], bool]], None]) -> None:
    """Calls work(is_stopped) so that signals can interrupt it: the engine polls is_stopped, and fails soon after it
    returns True. In the main thread, where Python handles signals, `work` runs in another thread, and an exception
    raised by a signal handler stops it."""
    if threading.current_thread() is not threading.main_thread():
        work(lambda: False)
        return
    stopped = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1, "fovea.search") as thread:
        call = thread.submit(work, stopped.is_set)
        try:
            call.result()
        finally:
            stopped.set()


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _weight(value: float, name: str) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    if not 0 < value <= MAX_WEIGHT:
        raise ValueError(f"{name} must be more than 0 and at most {MAX_WEIGHT}, not {value}")
    return float(value)
