"""What the tests of the tokenizer share: folders with tokenizers, and the ids that the program gives."""

import json
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LENGTH = 64


@pytest.fixture(scope="session")
def write_small():
    """write_small(folder): writes the small tokenizer."""
    tool = ROOT / "build/release/tests/small_tokenizer_tool"
    return lambda folder: subprocess.run([tool, folder], check=True)


@pytest.fixture(scope="session")
def small(write_small, tmp_path_factory):
    """A folder with the small tokenizer."""
    folder = tmp_path_factory.mktemp("small")
    write_small(folder)
    return folder


@pytest.fixture(scope="session")
def small_json(small, tmp_path_factory):
    """The same without tokenizer.model."""
    folder = tmp_path_factory.mktemp("small_json")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((small / name).read_bytes())
    return folder


@pytest.fixture
def tokenize(run_fovea, tmp_path):
    """tokenize(folder, texts, *options) -> the ids of each text."""

    def run(folder, texts, *options):
        texts = list(texts)
        lines = tmp_path / "texts.jsonl"
        lines.write_text("".join(json.dumps(text) + "\n" for text in texts))
        result = tmp_path / "tokens.json"
        run_fovea("tokenize", f"@{lines}", "-m", folder, f"--json={result}", *options)
        rows = json.loads(result.read_text())["texts"]
        assert [row["text"] for row in rows] == texts
        return [row["ids"] for row in rows]

    return run
