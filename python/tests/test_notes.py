"""Notes of the engine about its operators become warnings."""

import numpy as np
import pytest
from fovea import _library, _runs


def test_note_becomes_a_warning():
    set_handler = _library.library.fovea_set_note_handler
    handler = set_handler(_library._NOTE_HANDLER())  # what the engine would call
    try:
        assert handler, "importing fovea has set none"
        with pytest.warns(RuntimeWarning, match="fovea: attention runs at level wmma, not mma"):
            handler(b"attention runs at level wmma, not mma")
    finally:
        set_handler(handler)


def test_a_warning_names_the_callers_line(encoder, monkeypatch):
    monkeypatch.setattr(_runs, "text", lambda _: "a note of the engine")
    picture = np.zeros((9, 9, 3), np.uint8)
    for call in (
        lambda: encoder.embed([picture]),
        lambda: encoder.embed(iter([picture])),
        lambda: next(encoder.stream([picture])),
    ):
        with pytest.warns(RuntimeWarning, match="a note of the engine") as caught:
            call()
        assert [warning.filename for warning in caught] == [__file__]
