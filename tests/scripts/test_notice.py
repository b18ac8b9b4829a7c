"""NOTICE names each file that follows another project's source, with the commit that the file names."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_what_follows_pillow_is_named_with_its_commit():
    notice = (ROOT / "NOTICE").read_text()
    named = set(re.findall(r"src/\w+/\w+\.(?:\w+|\*)", notice))
    (commit,) = re.findall(r"python-pillow/Pillow, commit (\w+)\)", notice)
    found = 0
    for path in sorted((ROOT / "src/image").glob("*.?pp")):
        commits = set(re.findall(r"python-pillow@(\w+)", path.read_text()))
        if commits:
            found += 1
            name = str(path.relative_to(ROOT))
            assert commits == {commit}, name
            assert name in named or re.sub(r"\.\w+$", ".*", name) in named, f"NOTICE does not name {name}"
    assert found > 8


def test_what_it_names_exists():
    for name in re.findall(r"src/\w+/\w+\.(?:\w+|\*)", (ROOT / "NOTICE").read_text()):
        assert list(ROOT.glob(name)), name


def test_darts_clone_is_named_with_its_commit():
    source = re.sub(r"\s*\n\s*///? ", " ", (ROOT / "src/text/charsmap.cpp").read_text())
    (commit,) = re.findall(r"google/sentencepiece@(\w+) third_party/darts_clone", source)
    assert re.search(
        rf"google/sentencepiece, commit {commit}, has it in third_party/darts_clone", (ROOT / "NOTICE").read_text()
    )


def test_every_python_requirement_is_pinned():
    for path in ROOT.glob("*/requirements.txt"):
        lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
        loose = [line for line in lines if line and not re.fullmatch(r"[\w.-]+==[\w.]+", line)]
        assert not loose, f"{path.relative_to(ROOT)}: {loose}"
