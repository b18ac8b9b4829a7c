"""Photos that differ."""

import pytest


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """A folder of three; not to be changed."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("photos")
    for index, spread in enumerate((10, 100, 200)):
        image.effect_noise((40, 30), spread).save(folder / f"{index}.png")
    return folder
