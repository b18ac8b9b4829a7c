"""Binds libfovea.so by ctypes, which releases the GIL during calls.

This module declares all of include/fovea/c/ but the kernels, which _kernels.py declares."""

from __future__ import annotations

import atexit
import ctypes
import os
import pathlib
import time
import warnings
from typing import Any

import numpy as np

from fovea._errors import Error

# Mirrors fovea_image: kind, width, height, (padding), data, size.
IMAGE = np.dtype(
    {
        "names": ["kind", "width", "height", "data", "size"],
        "formats": ["i4", "i4", "i4", "u8", "u8"],
        "offsets": [0, 4, 8, 16, 24],
        "itemsize": 32,
    }
)
FILE, ENCODED, PIXELS = 0, 1, 2

# Mirrors fovea_text.
TEXT = np.dtype([("data", "u8"), ("size", "u8")])


_text, _size, _pointer = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p
_int, _long, _ulong, _double = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_double
_out = ctypes.POINTER


def fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    """Returns fields of one type for a ctypes.Structure."""
    return [(name, kind) for name in names.split()]


class EmbedOptions(ctypes.Structure):
    """Mirrors fovea_embed_options."""

    _fields_ = [
        *fields(_int, "batch_size decode_threads normalize stop_at_failure"),
        *(("decode_memory", _ulong), ("max_pixels", _long)),
    ]


class FeaturesOptions(ctypes.Structure):
    """Mirrors fovea_features_options."""

    _fields_ = [
        *fields(_int, "type batch_size decode_threads reserved"),
        *(("decode_memory", _ulong), ("max_pixels", _long)),
    ]


class EmbedTextsOptions(ctypes.Structure):
    """Mirrors fovea_embed_texts_options."""

    _fields_ = fields(_int, "clean normalize")


class Photo(ctypes.Structure):
    """Mirrors fovea_photo."""

    _fields_ = [
        *fields(_text, "source path captured error"),
        *fields(_long, "output bytes modified"),
        *fields(_int, "has_modified width height is_member has_changed"),
    ]


class PullProgress(ctypes.Structure):
    """Mirrors fovea_pull_progress."""

    _fields_ = [*fields(_text, "file notice"), *fields(_ulong, "bytes total received")]


PULL_HANDLER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(PullProgress), ctypes.c_void_p)
SEARCH_HANDLER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def _load() -> ctypes.CDLL:
    # FOVEA_LIBRARY is for use in the source tree, where the library is not next to this file.
    path = os.environ.get("FOVEA_LIBRARY") or pathlib.Path(__file__).with_name("libfovea.so")
    try:
        return ctypes.CDLL(os.fspath(path))
    except OSError as error:
        raise ImportError(f"Fovea's native library cannot be loaded: {error}") from error


_NOTE_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_char_p)

_STATUS = object()  # marks functions that return a status, which is checked

_FUNCTIONS = {
    "fovea_last_error": (_text,),
    "fovea_version": (_text,),
    "fovea_shut_down": (_STATUS, _int),
    "fovea_set_note_handler": (_NOTE_HANDLER, _NOTE_HANDLER),
    "fovea_set_wording": (None, _int),
    "fovea_pull": (_STATUS, _text, _text, PULL_HANDLER, _pointer, _out(_text)),
    "fovea_encoder_load_calibrated": (_STATUS, _text, _text, _text, _int, _int, _text, _out(_pointer)),
    "fovea_encoder_logit_scale": (_STATUS, _pointer, _out(_double), _out(_double)),
    "fovea_encoder_free": (None, _pointer),
    "fovea_encoder_dimension": (_long, _pointer),
    "fovea_encoder_height": (_int, _pointer),
    "fovea_encoder_width": (_int, _pointer),
    "fovea_encoder_batch_size": (_long, _pointer),
    "fovea_encoder_device": (_text, _pointer),
    "fovea_encoder_precision": (_text, _pointer),
    "fovea_embed_start": (_STATUS, _pointer, _pointer, _size, _out(EmbedOptions), _pointer, _out(_pointer)),
    "fovea_embed_texts_start": (_STATUS, _pointer, _pointer, _size, _out(EmbedTextsOptions), _pointer, _out(_pointer)),
    "fovea_embed_labels_start": (_STATUS, _pointer, _pointer, _size, _pointer, _size, _int, _pointer, _out(_pointer)),
    "fovea_encoder_patches": (_long, _pointer),
    "fovea_features_start": (
        *(_STATUS, _pointer, _pointer, _size, _text),
        *(_out(FeaturesOptions), _out(_pointer), _out(_pointer)),
    ),
    "fovea_features_shape": (_int, _pointer, _out(_long)),
    "fovea_features_type": (_int, _pointer),
    "fovea_features_cuda_device": (_int, _pointer),
    "fovea_features_data": (_pointer, _pointer),
    "fovea_features_bytes": (_size, _pointer),
    "fovea_features_copy": (_STATUS, _pointer, _pointer, _size),
    "fovea_features_dlpack": (_STATUS, _pointer, _out(_pointer)),
    "fovea_features_free": (None, _pointer),
    "fovea_heat": (_STATUS, _pointer, _pointer, _pointer, _int, _pointer, _size, _out(_long), _out(_long)),
    "fovea_embed_wait": (_STATUS, _pointer, _int, _out(_int)),
    "fovea_embed_done": (_size, _pointer),
    "fovea_embed_stop": (None, _pointer),
    "fovea_embed_failures": (_size, _pointer),
    "fovea_embed_failure": (_STATUS, _pointer, _size, _out(_size), _out(_text)),
    "fovea_embed_notes": (_text, _pointer),
    "fovea_embed_free": (None, _pointer),
    "fovea_collection_open_on": (_STATUS, _out(_text), _size, _text, _int, _text, _out(_pointer)),
    "fovea_collection_free": (None, _pointer),
    "fovea_collection_rows": (_long, _pointer),
    "fovea_collection_dimension": (_long, _pointer),
    "fovea_collection_model": (_text, _pointer),
    "fovea_collection_is_finished": (_int, _pointer),
    "fovea_collection_source": (_STATUS, _pointer, _long, _out(_text), _out(_text)),
    "fovea_collection_photo": (_STATUS, _pointer, _long, _out(Photo)),
    "fovea_collection_find": (_STATUS, _pointer, _text, _out(_long)),
    "fovea_collection_embeddings": (_STATUS, _pointer, _long, _long, _pointer),
    "fovea_collection_nearest": (
        *(_STATUS, _pointer, _pointer, _size, _int, _pointer),
        *(SEARCH_HANDLER, _pointer, _pointer, _pointer),
    ),
    "fovea_queries_combine": (_STATUS, _pointer, _size, _long, _pointer, _pointer, _size, _pointer),
}


def _check(status: int) -> None:
    if status != 0:
        raise Error(text(library.fovea_last_error()))


def _declare(functions: ctypes.CDLL) -> ctypes.CDLL:
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(functions, name)
        function.argtypes = arguments
        function.restype = _check if result is _STATUS else result
    return functions


def text(message: bytes) -> str:
    """Decodes a UTF-8 text of the engine."""
    return message.decode("utf-8", "replace")


library = _declare(_load())

_WORDING_PYTHON = 1
library.fovea_set_wording(_WORDING_PYTHON)

# Longest time that the interpreter waits for the engine at exit.
_MAX_EXIT_SECONDS = 10
_SLICE_MILLISECONDS = 50


def _shut_down() -> None:
    """Shuts the engine down, because daemon threads could still use objects that the interpreter destroys."""
    last = time.monotonic() + _MAX_EXIT_SECONDS
    while True:
        try:
            library.fovea_shut_down(_SLICE_MILLISECONDS)  # waits in slices, so that Ctrl-C works
            return
        except Error:
            if time.monotonic() > last:
                raise


# atexit runs its functions after all threads but daemons have ended.
atexit.register(_shut_down)


def _show_note(note: bytes) -> None:
    warnings.warn(f"fovea: {text(note)}", RuntimeWarning, stacklevel=2)


_on_note = _NOTE_HANDLER(_show_note)  # kept alive here, because the engine does not
library.fovea_set_note_handler(_on_note)


def version() -> str:
    """Returns the version of the native library, such as "0.1.0"."""
    return text(library.fovea_version())
