"""A folder in which the documents' commands find all that they name."""

import os
import pathlib
import re
import shutil
import sys
import tarfile

import pytest
from snippets import DOCUMENTS, ROOT

# The models that the documents name; in the cache of this folder each is the smallest one, so nothing goes over a
# network.
HUB_MODELS = {name for document in DOCUMENTS for name in re.findall(r"google/siglip[\w-]*\d", document.read_text())}
PHOTOS = sorted((ROOT / "examples" / "photos").glob("*.jpg"))


@pytest.fixture
def sandbox(tmp_path, model, fovea_bin, run_fovea):
    """Files that documents name: add those of new snippets here."""
    for name in ("MODEL", "models/tiny"):
        shutil.copytree(model, tmp_path / name)
    for name in HUB_MODELS:
        repository = tmp_path / "cache/hub" / f"models--{name.replace('/', '--')}"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs/main").write_text("0" * 40)
        (repository / "snapshots").mkdir()
        (repository / "snapshots" / ("0" * 40)).symlink_to(tmp_path / "MODEL")
    photos = tmp_path / "photos"
    photos.mkdir()
    for photo in PHOTOS:
        (photos / photo.name).symlink_to(photo)
    for name, photo in {"cat.jpg": "cat.jpg", "dog.png": "coffee.jpg", "extra.jpg": "rocket.jpg"}.items():
        (tmp_path / name).symlink_to(ROOT / "examples/photos" / photo)
    for example in (ROOT / "examples/emulate").iterdir():
        shutil.copy(example, tmp_path)
    (tmp_path / "captions.txt").write_text("a cat on a sofa\na red bicycle\n")
    (tmp_path / "labels.txt").write_text("cat\ndog\na rocket\n")
    (tmp_path / "list.txt").write_text("photos/cat.jpg\nphotos/grass.jpg\n")
    with tarfile.open(tmp_path / "shard-00000.tar", "w") as archive:
        archive.add(PHOTOS[0], "0.jpg")
    for number in range(1, 100):
        (tmp_path / f"shard-{number:05}.tar").symlink_to("shard-00000.tar")
    for name in ("bench", "examples", "include", "scripts"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "build").mkdir()
    (tmp_path / "build/release").symlink_to(fovea_bin.parent.parent)
    run_fovea("embed", "photos", "-m", "MODEL", "-o", "OUT", cwd=tmp_path)
    for part in ("0", "1"):
        run_fovea("embed", "photos", "-m", "MODEL", "-o", f"OUT-{part}", "--shard", f"{part}/2", cwd=tmp_path)
    return tmp_path


@pytest.fixture
def environment(sandbox, fovea_bin):
    """Environment of every command and program."""
    tools = f"{fovea_bin.parent}:{pathlib.Path(sys.executable).parent}"
    return os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HF_HOME": str(sandbox / "cache"),
        "HF_HUB_OFFLINE": "1",
        "FOVEA_SECONDS": "0.01",  # for each figure of `fovea bench`
        "FOVEA_LIBRARY": str(fovea_bin.parent.parent / "lib/libfovea.so"),
        "FOVEA_BIN": str(fovea_bin),
        "PYTHONPATH": str(ROOT / "python"),
    }
