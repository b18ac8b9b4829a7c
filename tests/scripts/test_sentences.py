"""Documents have one sentence a line, and scripts/sentences.py writes them so without changing what they say."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))
import sentences


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("One. Two\nis two.\n", "One.\nTwo is two.\n"),
        ("- One. `two` too.\n  Three.\n", "- One.\n  `two` too.\n  Three.\n"),
        ("1. One\n   of many. Two.\n", "1. One of many.\n   Two.\n"),
        ("It is 1.5 ms, e.g. Fovea's. Done.\n", "It is 1.5 ms, e.g. Fovea's.\nDone.\n"),
        ("See [a. B](c.md). Then.\n", "See [a.\nB](c.md).\nThen.\n"),
    ],
)
def test_sentences_are_lines(text, formatted):
    assert sentences.formatted(text) == formatted
    assert sentences.formatted(formatted) == formatted


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nrun it. Then this.\n```\n",
        "| a. B | c |\n",
        "# Title. With two\n",
        "    code. With two\n",
        "`a. B` is code, and 3. is no end.\n",
        "Numbers end. 1. is no item then.\n",
    ],
)
def test_what_is_no_prose_stays(text):
    assert sentences.formatted(text) == text


def test_words_stay():
    for path in sentences.documents():
        text = path.read_text()
        assert sentences.formatted(text).split() == text.split(), path
