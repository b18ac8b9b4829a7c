"""What the engine has to tell of its operators becomes a warning."""

import ctypes

import pytest

from fovea import _library


def test_note_becomes_a_warning():
    handler = ctypes.cast(_library._on_note, ctypes.c_void_p)
    call = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(handler.value)
    with pytest.warns(RuntimeWarning, match="fovea: attention runs at level wmma, not mma"):
        call("attention runs at level wmma, not mma".encode())
