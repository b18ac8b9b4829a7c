"""Photos, and the program to embed them with."""

import pytest
from pipeline_support import Embedder, write_photos


@pytest.fixture(scope="session")
def embed(run_fovea, fovea_bin, model):
    return Embedder(run_fovea, fovea_bin, model)


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Forty photos in a folder; not to be changed."""
    return write_photos(tmp_path_factory.mktemp("photos") / "p", 40)
