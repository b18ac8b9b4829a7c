"""Collection: what `fovea embed` wrote, to be searched by words, photos and vectors."""

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

MAX_WEIGHT = 1000  # as for --photo-weight
_LONG_BITS = 64
# Rows to read per call of the engine: Ctrl-C works between calls.
_ROWS_PER_READ = 1 << 14


class Collection:
    """The embeddings of photos, and their names. Rows are counted through all outputs, in order; len() is their
    number. May be used from several threads; searches take turns."""

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
        """Opens what `fovea embed` wrote, to search in it.

        Args:
            outputs: the folder or the NAME.npy that `fovea embed -o` wrote, or several of them, which are searched as
                one. They must be of the same model.
            model: the model for words and for photos that are not in the outputs; None: the one that made the outputs.
                It is loaded when it is first needed: on the CPU, in fp32; with device="cuda" on that GPU, in bf16.
            encoder: an Encoder for this instead, which the caller still owns.
            root: where relative names of photos start; None: in the folder where `fovea embed` ran.
            threads: threads that compare; 0: one per CPU that this process may use.
            device: where rows are compared: "cpu", "cuda", "cuda:N", "emu", "auto", or a torch.device. A GPU keeps
                all rows, in 8 bits a number, in its memory from the first search on, which suits collections that stay
                open; "auto" takes one from the second search on, where there is one that has room. Results are the
                same, to the last bit.

        Raises:
            Error: an output is absent, damaged or not whole, or of another model, and the message names the file; or
                the device is unavailable.
            TypeError, ValueError: an argument is of another type, there is no output, a number is negative, or a name
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
        self._lock = threading.Lock()  # the model is loaded once
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
        """The model for words: the one that made the outputs, unless another was given; "" when unknown."""
        return self._model

    @property
    def outputs(self) -> list[str]:
        """The paths that were given."""
        return list(self._outputs)

    @property
    def is_finished(self) -> bool:
        """False when an output is unfinished, so that its last rows are absent."""
        return self._finished

    @property
    def sources(self) -> Sequence[str]:
        """The names of the photos, by their rows: in UTF-8, with other bytes as \\\\xHH. Each is read when it is
        asked for."""
        return _Sources(self)

    @property
    def encoder(self) -> Encoder:
        """The encoder of words and photos, which is loaded by its first use. Raises an Error when there is none."""
        with self._lock:
            self._opened()
            if self._encoder is None:
                if not self._model:
                    raise Error(
                        f"no manifest.json in {', '.join(self._outputs)} names the model: pass model= or encoder="
                    )
                # The CPU embeds a few texts faster than a GPU starts; a GPU that holds the rows has started already.
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
                photo; an integer is a row of this collection; a floating-point array [dimension] is a vector. A list
                or tuple of these is one search each. A photo of the collection is not embedded again, and is not
                found by itself.
            k: photos to find per query.
            photo: a photo, or a list of them, that the results should be like as well. Here a string is a name in
                the collection or a path.
            photo_weight: the weight of each such photo, where the query has 1.
            without: words (or a photo, or a list) for what the results should not show.
            without_weight: the weight of each of them. The query becomes the sum of all unit vectors times their
                weights, those of `without` subtracted.
            clean: as for `Encoder.embed_text`.

        Returns:
            The matches, the best first; for a list of queries a list of such lists. Scores are exact cosines. Those
            of words are low even for the right photos; when a query is words alone, matches also have SigLIP's logit
            and probability.

        Raises:
            Error: a photo cannot be read, the model cannot be loaded or has no text tower, a file of the collection has
                changed, the Collection is closed.
            TypeError, ValueError: an argument is of another type or shape.
        """
        wanted = integer(k, "k", 1)
        choice(clean, "clean", TEXT_CLEANS)
        several = isinstance(query, (list, tuple))
        queries = make_queries(
            self,
            list(query) if several else [query],
            _list_of(photo),
            _weight(photo_weight, "photo_weight"),
            _list_of(without),
            _weight(without_weight, "without_weight"),
            clean,
        )
        found = self._nearest(queries.vectors, max(1, min(wanted, self._rows)), queries.left_out)
        results = list(self._matches(queries, found))
        return results if several else results[0]

    def nearest(
        self,
        vectors: npt.NDArray[np.floating[Any]],
        k: SupportsIndex = 10,
        *,
        left_out: npt.ArrayLike | None = None,
    ) -> Nearest:
        """Finds the rows that are nearest to vectors, as arrays: the way for many queries.

        Args:
            vectors: floating-point [vectors, dimension] or [dimension], of any length but 0.
            k: rows per vector.
            left_out: per vector a row that it must not find, such as its own, or -1 for none.

        Returns:
            Nearest(rows, scores): int64 and float64 [vectors, k], or [k] for one vector, nearest first and rows of
            equal score in row order; -1 and NaN where there are not as many rows.

        Raises:
            Error: a vector holds NaN or infinity, or only zeros; a file of the collection has changed; the
                Collection is closed.
            TypeError, ValueError: an argument is of another type or shape.
        """
        given = np.asarray(vectors)
        if given.dtype.kind != "f" or given.ndim not in (1, 2) or given.shape[-1] != self._dimension:
            shape = "x".join(map(str, given.shape))
            raise ValueError(
                f"vectors must be floating-point [vectors, {self._dimension}] or [{self._dimension}], not "
                f"{given.dtype} {shape}"
            )
        several = np.ascontiguousarray(np.atleast_2d(given), np.float32)
        wanted = integer(k, "k", 1)
        not_found = None
        if left_out is not None:
            not_found = np.ascontiguousarray(np.atleast_1d(left_out))
            if not_found.dtype.kind not in "iu" or not_found.shape != (len(several),):
                raise ValueError(f"left_out must hold {len(several)} integers, one per vector")
            not_found = not_found.astype(np.int64)
        found = self._nearest(several, wanted, not_found)
        return found if given.ndim == 2 else Nearest(found.rows[0], found.scores[0])

    def find(self, photo: Path) -> int | None:
        """The first row of a photo, given by its name in the collection or by a path that leads to it; None when
        there is none."""
        row = ctypes.c_int64()
        library.fovea_collection_find(self._opened().pointer, path_text(photo, "photo"), ctypes.byref(row))
        return None if row.value < 0 else row.value

    def photo(self, row: SupportsIndex) -> Photo:
        """Returns the photo of a row: its index entry, and the current state of its file."""
        found = _library.Photo()
        number = self._number(row)
        library.fovea_collection_photo(self._opened().pointer, number, ctypes.byref(found))
        modified = datetime.datetime.fromtimestamp(0, datetime.timezone.utc) + datetime.timedelta(
            seconds=found.modified
        )
        return Photo(
            row=number,
            source=text(found.source),
            path=os.fsdecode(found.path),
            output=self._outputs[found.output],
            width=found.width,
            height=found.height,
            bytes=None if found.bytes < 0 else found.bytes,
            modified=modified if found.has_modified else None,
            captured=text(found.captured) or None,
            is_member=bool(found.is_member),
            has_changed=bool(found.has_changed),
            error=text(found.error) or None,
        )

    def embedding(self, row: SupportsIndex) -> npt.NDArray[np.float32]:
        """The embedding of a row, float32 [dimension]."""
        return self.embeddings(self._number(row), 1).reshape(-1)

    def embeddings(self, first: SupportsIndex = 0, count: SupportsIndex | None = None) -> npt.NDArray[np.float32]:
        """Reads the embeddings of `count` rows from `first` on (None: all of them), float32 [count, dimension]. They
        are as they were written: f16 rows are converted, and none is normalised."""
        begin = integer(first, "first", 0, _LONG_BITS)
        number = max(self._rows - begin, 0) if count is None else integer(count, "count", 0, _LONG_BITS)
        if begin + number > self._rows:
            raise IndexError(f"there are no {number} rows from row {begin} on: the collection has {self._rows}")
        rows = np.empty((number, self._dimension), np.float32)
        for start in range(0, number, _ROWS_PER_READ):
            part = rows[start : start + _ROWS_PER_READ]
            library.fovea_collection_embeddings(self._opened().pointer, begin + start, len(part), part.ctypes.data)
        return rows

    def close(self) -> None:
        """Frees the memory now instead of with the object, including the model if this object loaded it. Running calls
        are not interrupted."""
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
        """Handle of the open collection; holding it keeps the collection from being freed."""
        handle = self._handle
        if handle is None:
            raise Error("this Collection is closed")
        return handle

    def _number(self, row: SupportsIndex) -> int:
        number = integer(row, "row", 0, _LONG_BITS)
        if number >= self._rows:
            raise IndexError(f"there is no row {number}: the collection has {self._rows}")
        return number

    def _source(self, row: int) -> tuple[str, str]:
        """Returns the name and the path of the photo of a row."""
        source, path = ctypes.c_char_p(), ctypes.c_char_p()
        library.fovea_collection_source(self._opened().pointer, row, ctypes.byref(source), ctypes.byref(path))
        return text(source.value or b""), os.fsdecode(path.value or b"")

    def _nearest(self, vectors: npt.NDArray[np.float32], k: int, left_out: npt.NDArray[np.int64] | None) -> Nearest:
        found = Nearest(np.empty((len(vectors), k), np.int64), np.empty((len(vectors), k), np.float64))
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
                found.rows.ctypes.data,
                found.scores.ctypes.data,
            )

        _interruptible(work)
        return found

    def _matches(self, queries: Queries, found: Nearest) -> Iterator[list[Match]]:
        scale = self.encoder.logit_scale if any(queries.are_texts) else None
        for rows, scores, is_text in zip(found.rows.tolist(), found.scores.tolist(), queries.are_texts, strict=True):
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
    """A collection of the engine, which is freed with the last reference to this object."""

    def __init__(self, pointer: ctypes.c_void_p) -> None:
        self.pointer = pointer
        weakref.finalize(self, _free_collection, pointer, os.getpid()).atexit = False


def _free_collection(pointer: ctypes.c_void_p, pid: int) -> None:
    if os.getpid() == pid:  # a forked child does not have the threads for which this would wait
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
            raise IndexError(f"there is no row {operator.index(row)}: the collection has {len(self)}")
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


def _list_of(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _weight(value: float, name: str) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    if not 0 < value <= MAX_WEIGHT:
        raise ValueError(f"{name} must be more than 0 and at most {MAX_WEIGHT}, not {value}")
    return float(value)
