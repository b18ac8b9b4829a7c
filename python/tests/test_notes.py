"""Notes of the engine about its operators become warnings."""

import pytest

from fovea import _library


def test_note_becomes_a_warning():
    set_handler = _library.library.fovea_set_note_handler
    handler = set_handler(_library._NOTE_HANDLER())  # what the engine would call
    try:
        assert handler, "importing fovea has set none"
        with pytest.warns(RuntimeWarning, match="fovea: attention runs at level wmma, not mma"):
            handler(b"attention runs at level wmma, not mma")
    finally:
        set_handler(handler)
