"""`fovea tokenize`: where its texts come from, what it prints, and how it fails."""

import json
import resource

import pytest


@pytest.fixture
def rows(run_fovea, small):
    """rows(*arguments, **popen) -> what --json gives of each text."""

    def run(*arguments, **popen):
        return json.loads(run_fovea("tokenize", "-m", small, "--json", *arguments, **popen).stdout)["texts"]

    return run


def test_texts_come_from_arguments_lists_and_standard_input(rows, tmp_path):
    (tmp_path / "list.txt").write_bytes("a cat\r\n\n@home\nκόκκινο".encode())
    (tmp_path / "list.jsonl").write_text('"two\\nlines"\n"nul \\u0000"\n')
    texts = [
        row["text"]
        for row in rows(f"@{tmp_path}/list.txt", "A Dog", f"@{tmp_path}/list.jsonl", "@@here", "-", input="x\n\ny\n")
    ]
    assert texts == ["a cat", "", "@home", "κόκκινο", "A Dog", "two\nlines", "nul \0", "@here", "x", "", "y"]


def test_json_has_ids_and_pieces(rows):
    (row,) = rows("A photo", "--length", "8")
    assert len(row["ids"]) == len(row["pieces"]) == 8
    assert "".join(row["pieces"][: row["tokens"]]) == "a▁photo"
    assert row["pieces"][row["tokens"] :] == ["<eos>"] + ["<pad>"] * (7 - row["tokens"])
    assert not row["truncated"]
    # Lengths with room for all tokens beside the end, and for one less.
    for length, truncated in ((row["tokens"] + 1, False), (row["tokens"], True)):
        (short,) = rows("A photo", "--length", str(length))
        assert short["truncated"] is truncated
        assert short["tokens"] == row["tokens"]
        assert short["ids"] == row["ids"][: length - 1] + [1]


def test_the_length_is_the_models(run_fovea, small, tmp_path):
    for name in ("tokenizer.model", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((small / name).read_bytes())
    text = {"model_type": "siglip_text_model", "vocab_size": 2048, "max_position_embeddings": 16}
    config = {"model_type": "siglip", "text_config": text, "vision_config": {"model_type": "siglip_vision_model"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for options, length in (([], 16), (["--length", "7"], 7)):
        output = run_fovea("tokenize", "a cat", "-m", tmp_path, "--json", *options).stdout
        assert json.loads(output)["length"] == length == len(json.loads(output)["texts"][0]["ids"])
    assert len(json.loads(run_fovea("tokenize", "a cat", "-m", small, "--json").stdout)["texts"][0]["ids"]) == 64


def test_text_shows_the_pieces_on_one_line(run_fovea, small):
    output = run_fovea("tokenize", "A cat", "-m", small).stdout.splitlines()
    assert output[0] == "A cat"
    assert "tokens" in output[1]
    assert output[2].startswith("  a ") and output[2].endswith(" <eos>")
    assert " + " in output[3] and "<pad> (0)" in output[3]
    cut = run_fovea("tokenize", "a cat and a dog", "-m", small, "--length", "3").stdout
    assert "the first 2 are used" in cut
    harmless = run_fovea("tokenize", "a\x1b[31m\u202e", "-m", small).stdout
    assert "\x1b" not in harmless and "\u202e" not in harmless


def test_text_clean_is_an_option(rows):
    lower, canonical, unchanged = (
        rows("Don't", "--text-clean", way)[0]["pieces"] for way in ("lower", "canonicalize", "none")
    )
    assert "".join(lower).startswith("don't<eos>")
    assert "".join(canonical).startswith("dont<eos>")
    assert "".join(unchanged).startswith("Don't<eos>")
    assert rows("Don't")[0]["pieces"] == lower


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([b"caf\xe9"], "byte 3"),
        (["good", b"caf\xe9"], "text 2 of 2"),
        (["@missing.txt"], "missing.txt"),
        (["@bad.jsonl"], "bad.jsonl, line 2: expected one JSON string"),
    ],
)
def test_what_is_no_text_is_refused(run_fovea, small, tmp_path, arguments, said):
    (tmp_path / "bad.jsonl").write_text('"good"\n{"text": "bad"}\n')
    result = run_fovea("tokenize", "-m", small, *arguments, code=1, cwd=tmp_path)
    assert said in result.stderr
    assert not result.stdout


def test_models_without_a_tokenizer_are_told(run_fovea, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert "no tokenizer" in run_fovea("tokenize", "a", "-m", tmp_path, code=1).stderr
    assert "such as a text" in run_fovea("tokenize", "a", code=2).stderr


def test_lists_as_windows_writes_them(rows, run_fovea, small, tmp_path):
    lists = {"plain": b"cat\r\ndog\r\n", "bom": b"\xef\xbb\xbfcat\r\ndog\r\n"}
    for name, content in lists.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "bom.jsonl").write_bytes(b'\xef\xbb\xbf"cat"\r\n"dog"\r\n')
    expected = rows(f"@{tmp_path}/plain")
    assert [row["text"] for row in expected] == ["cat", "dog"]
    assert rows(f"@{tmp_path}/bom") == rows(f"@{tmp_path}/bom.jsonl") == expected
    assert rows("-", input=lists["bom"].decode()) == expected
    for encoding in ("utf-16", "utf-32", "utf-16-be"):
        (tmp_path / "wide").write_bytes("cat\ndog\n".encode(encoding))
        said = run_fovea("tokenize", "-m", small, f"@{tmp_path}/wide", code=1).stderr
        assert f"wide: the list is in {encoding[:6].upper()}; expected UTF-8" in said


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


@pytest.mark.parametrize(
    "line", [b"[" * (60 << 20), b'["x",' * (12 << 20), b'"' + b"a" * (60 << 20)], ids=["nested", "long", "text"]
)
def test_a_line_that_is_no_text_takes_little_memory(run_fovea, small, tmp_path, line):
    (tmp_path / "x.jsonl").write_bytes(b'"cat"\n' + line + b"\n")
    said = run_fovea("tokenize", "-m", small, f"@{tmp_path}/x.jsonl", code=1, preexec_fn=limited).stderr
    assert "x.jsonl: line 2 is too long (more than 6291456 bytes)" in said
    (tmp_path / "x.jsonl").write_bytes(b'"cat"\n' + line[: 6 << 20] + b"\n")
    said = run_fovea("tokenize", "-m", small, f"@{tmp_path}/x.jsonl", code=1, preexec_fn=limited).stderr
    assert "x.jsonl, line 2: expected one JSON string" in said


def test_a_line_may_be_longer_than_its_text(rows, tmp_path):
    (tmp_path / "x.jsonl").write_text('"' + "\\u0061" * 200_000 + '"\n')
    assert [len(row["text"]) for row in rows(f"@{tmp_path}/x.jsonl", "--length", "4")] == [200_000]
