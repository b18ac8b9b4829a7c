"""Planted causes of slowness: each edit still fits the sources, and the kernel compiles with it."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import planted


@pytest.mark.parametrize("name", sorted(planted.CAUSES))
def test_the_edit_fits_and_compiles(name: str, tmp_path: pathlib.Path, fovea_bin: pathlib.Path) -> None:
    cause = planted.CAUSES[name]
    planted.plant(cause, tmp_path)
    changed = [
        path.relative_to(planted.KERNELS).as_posix()
        for path in planted.KERNELS.rglob("*.*")
        if "__pycache__" not in path.parts
        and path.read_bytes() != (tmp_path / "kernels" / path.relative_to(planted.KERNELS)).read_bytes()
    ]
    assert changed == [cause.file]
    command = [str(fovea_bin), "kernel", "try", *cause.run, "--sources", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "no compiler for kernels" in done.stderr:
        pytest.skip("there is no CUDA compiler")
    result = json.loads(done.stdout)
    spills = name == "spill"
    assert result["failed_at"] == ("resources" if spills else None), result["reason"]
    assert (result["spill_bytes"] > 0) == spills


def test_an_edit_that_no_longer_fits_is_refused(tmp_path: pathlib.Path) -> None:
    kernels = tmp_path / "old"
    cause = planted.CAUSES["banks"]
    (kernels / cause.file).parent.mkdir(parents=True)
    (kernels / cause.file).write_text("// nothing of it\n")
    with pytest.raises(ValueError, match="row_tile.cuh: the text to replace must occur once"):
        planted.plant(cause, tmp_path / "new", kernels)
    assert not (tmp_path / "new").exists()


def test_a_folder_that_is_there_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kernels").mkdir()
    command = [sys.executable, ROOT / "bench/planted.py", "banks", "-o", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("planted.py: ") and "already exists" in done.stderr
