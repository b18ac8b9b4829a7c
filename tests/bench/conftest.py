"""Fixtures of several tests of bench/."""

import pytest
from page_files import Folder


@pytest.fixture
def folder(tmp_path):
    """One for files of results."""
    return Folder(tmp_path)
