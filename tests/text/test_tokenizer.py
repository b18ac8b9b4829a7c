"""Token ids against transformers' tokenizers and SentencePiece, live.

transformers is asked not to take the names of special tokens in a text for these tokens: Fovea never does.
"""

import random
import unicodedata

import pytest
import sentencepiece
from text_cases import SPECIAL, collapse, is_assigned, texts
from tokenizers import Tokenizer, normalizers
from transformers import AutoProcessor, AutoTokenizer, GemmaTokenizer, Siglip2Tokenizer, SiglipTokenizer

LENGTH = 64
#: The last one differs from run to run; a failure shows the text.
SEEDS = [1, 2, random.SystemRandom().randrange(1 << 32)]


def expected_ids(tokenizer, given, length=LENGTH):
    return [
        tokenizer(collapse(text), padding="max_length", max_length=length, truncation=True, split_special_tokens=True)[
            "input_ids"
        ]
        for text in given
    ]


def assert_equal(given, ours, expected):
    assert len(given) == len(ours) == len(expected)
    for text, mine, wanted in zip(given, ours, expected, strict=True):
        assert mine == wanted, repr(text)


def is_tie(pieces, ours, expected):
    """Whether two rows differ only in the order of the same few pieces, whose sums of scores differ by rounding."""
    differing = [i for i in range(len(ours)) if ours[i] != expected[i]]
    if not differing:
        return False
    span = slice(differing[0], differing[-1] + 1)
    same_pieces = sorted(ours[span]) == sorted(expected[span])
    return same_pieces and pieces.decode(ours[span]) == pieces.decode(expected[span])


@pytest.fixture(scope="module")
def siglip2(small):
    tokenizer = Siglip2Tokenizer.from_pretrained(small)
    assert tokenizer.padding_side == "right"
    return tokenizer


@pytest.mark.parametrize("seed", SEEDS, ids=["1", "2", "random"])
def test_ids_are_those_of_siglip2(seed, small, small_json, siglip2, tokenize):
    given = [*texts(1000, seed), "", " ", *SPECIAL]
    expected = expected_ids(siglip2, given)
    assert_equal(given, tokenize(small, given), expected)
    assert_equal(given, tokenize(small_json, given), expected)
    for length in (16, 200):
        assert_equal(given, tokenize(small, given, "--length", str(length)), expected_ids(siglip2, given, length))


@pytest.mark.parametrize("space", ["\t", "\n", "\r\n", "\u00a0", "\u2003", "\u3000", "  ", "\x1c"])
def test_white_space_is_one_space_here_and_kept_by_siglip2(space, small, siglip2, tokenize):
    def by_siglip2(text):
        return siglip2(text, padding="max_length", max_length=LENGTH, truncation=True)["input_ids"]

    plain = by_siglip2("a red cat")
    given = [f"a{space}red cat", f"a red cat{space}", f"{space}a red{space}cat"]
    assert tokenize(small, ["a red cat", *given]) == [plain] * 4
    assert all(by_siglip2(text) != plain for text in given)
    assert tokenize(small, given, "--text-clean", "none") == [by_siglip2(text) for text in given]


def greedy(vocabulary, text):
    """Longest match from the left."""
    ids, text = [], text.lower().replace(" ", "▁")
    while text:
        length = next((n for n in range(len(text), 0, -1) if text[:n] in vocabulary), 0)
        ids += [vocabulary[text[:length]]] if length else [5 + byte for byte in text[0].encode()]
        text = text[max(length, 1) :]
    return ids


def test_wrong_ways_are_told_apart(small, siglip2):
    """Each way in which others got SigLIP 2's texts wrong differs from the oracle on these very texts."""
    given = [text for text in texts(300, 5) if text.strip()]
    right = expected_ids(siglip2, given)
    gemma = GemmaTokenizer.from_pretrained(small)
    gemma.backend_tokenizer.normalizer = normalizers.Replace(" ", "▁")
    used = [row[: row.index(1) + 1] for row in right]
    vocabulary = siglip2.get_vocab()
    wrong = {
        "no lower case": expected_ids(gemma, given),
        "<bos>": [([2] + row)[:LENGTH] for row in right],
        "no <eos>": [[0 if token == 1 else token for token in row] for row in right],
        "left padding": [[0] * (LENGTH - len(row)) + row for row in used],
        "padding to the longest": used,  # of one text at a time
        "greedy": [(greedy(vocabulary, collapse(text))[: LENGTH - 1] + [1] + [0] * LENGTH)[:LENGTH] for text in given],
        "white space kept": [
            siglip2(text, padding="max_length", max_length=LENGTH, truncation=True, split_special_tokens=True)[
                "input_ids"
            ]
            for text in given
        ],
        "names of special tokens": [
            siglip2(collapse(text), padding="max_length", max_length=LENGTH, truncation=True)["input_ids"]
            for text in given
        ],
    }
    for name, rows in wrong.items():
        assert rows != right, name
        with pytest.raises(AssertionError):
            assert_equal(given, rows, right)


def test_every_letter_is_lowered_as_tokenizers_does(small, siglip2, tokenize):
    """All characters with cases that this Python knows, and as many others; bytes show what became of them."""
    lower = normalizers.Lowercase()
    cased = [
        character
        for character in map(chr, range(0x110000))
        if is_assigned(character) and lower.normalize_str(character) != character
    ]
    assert len(cased) > 1300
    draw = random.Random(3)
    others = [c for c in (chr(draw.randrange(0x110000)) for _ in range(5000)) if is_assigned(c)]
    characters = cased + others
    given = ["x".join(characters[begin : begin + 16]) for begin in range(0, len(characters), 16)]
    assert_equal(given, tokenize(small, given, "--length", "128"), expected_ids(siglip2, given, 128))


def test_white_space_is_what_python_says(small, siglip2, tokenize):
    spaces = [character for character in map(chr, range(0x110000)) if character.isspace()]
    assert len(spaces) == 29
    given = [f"{space}a{space}{space}cat{space}" for space in spaces]
    ours = tokenize(small, given)
    assert all(row == ours[0] for row in ours)
    assert_equal(given, ours, expected_ids(siglip2, given))
    others = [c for c in map(chr, range(0x3100)) if unicodedata.category(c) in ("Cc", "Cf", "Mn") and not c.isspace()]
    given = [f"a{other}{other} cat" for other in others]
    assert all(row != ours[0] for row in tokenize(small, given))


def test_transformers_loads_the_folder(small, siglip2, run_fovea, write_small, tokenize, tmp_path):
    texts_ = ["A Red bicycle", "two cats on a sofa, at night", "猫"]
    auto = AutoTokenizer.from_pretrained(small)
    assert type(auto) is Siglip2Tokenizer
    ours = tokenize(small, texts_)
    batch = auto(texts_, padding="max_length")
    assert list(batch) == ["input_ids"]
    assert batch["input_ids"] == ours
    model = tmp_path / "model"
    run_fovea("init", "--preset", "tiny", "-o", model)
    write_small(model)
    processor = AutoProcessor.from_pretrained(model)
    assert processor(text=texts_, padding="max_length", return_tensors="pt")["input_ids"].tolist() == ours
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(small / "tokenizer.model"))
    assert [pieces.pad_id(), pieces.eos_id(), pieces.bos_id(), pieces.unk_id()] == [0, 1, 2, 3]
    assert [pieces.id_to_piece(piece) for piece in range(len(pieces))] == auto.convert_ids_to_tokens(range(len(pieces)))


def corpus():
    """Lines to train on, of all scripts."""
    return [line for text in texts(1500, 11) if (line := collapse(text))[:1]]


@pytest.fixture(scope="module")
def gemma_like(tmp_path_factory):
    """A tokenizer.model with what Gemma's has: found-first pieces, also of spaces and line breaks, and bytes."""
    folder = tmp_path_factory.mktemp("gemma")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()),
        model_prefix=str(folder / "tokenizer"),
        model_type="bpe",
        vocab_size=4000,
        byte_fallback=True,
        split_digits=True,
        allow_whitespace_only_pieces=True,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        character_coverage=0.99,
        max_sentence_length=100_000,
        user_defined_symbols=["<mask>", "<start_of_turn>", "<b>", "\n", "\n\n", "▁▁", "▁▁▁"],
        **{f"{name}_id": index for index, name in enumerate(["pad", "eos", "bos", "unk"])},
        pad_piece="<pad>",
        eos_piece="<eos>",
        bos_piece="<bos>",
        minloglevel=2,
    )
    return folder


def test_models_of_sentencepiece_give_its_ids(gemma_like, tokenize):
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(gemma_like / "tokenizer.model"))
    given = list(texts(1000, 21))
    for clean, prepare in {
        "none": str,
        "lower": lambda text: normalizers.Lowercase().normalize_str(collapse(text)),
    }.items():
        expected = [(pieces.encode(prepare(text))[: LENGTH - 1] + [1] + [0] * LENGTH)[:LENGTH] for text in given]
        assert_equal(given, tokenize(gemma_like, given, "--text-clean", clean), expected)


def test_tokenizer_json_of_transformers_gives_the_ids_of_its_model(gemma_like, tokenize, tmp_path):
    """Converts the model as transformers does, and reads the result alone."""
    GemmaTokenizer.from_pretrained(gemma_like).save_pretrained(tmp_path / "saved")
    folder = tmp_path / "json"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes((tmp_path / "saved/tokenizer.json").read_bytes())
    backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(gemma_like / "tokenizer.model"))
    assert backend.get_vocab_size() == len(pieces)
    # Names of tokens that are found first may be special in one of both.
    given = [text for text in texts(1000, 22) if "<" not in text]
    assert_equal(given, tokenize(folder, given), tokenize(gemma_like, given))


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc_cf", "identity"])
def test_ids_are_those_of_siglip(rule, tokenize, tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()),
        model_prefix=str(tmp_path / "spiece"),
        model_type="unigram",
        vocab_size=4000,
        normalization_rule_name=rule,
        max_sentence_length=100_000,
        **{f"{name}_id": index for index, name in enumerate(["pad", "eos", "unk"])},
        bos_id=-1,
        minloglevel=2,
    )
    tokenizer = SiglipTokenizer(str(tmp_path / "spiece.model"))
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == 1
    given = [*texts(1000, f"{rule} {SEEDS[0]}"), *texts(300, SEEDS[-1]), "", "! cat", "...", "ΟΔΟΣ, ΟΔΟΣ.", *SPECIAL]
    expected = expected_ids(tokenizer, given)
    ours = tokenize(tmp_path, given)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spiece.model"))
    ties = [text for text, mine, wanted in zip(given, ours, expected, strict=True) if is_tie(pieces, mine, wanted)]
    assert len(ties) <= 5, ties
    kept = [row for row in zip(given, ours, expected, strict=True) if row[0] not in ties]
    assert_equal(*zip(*kept, strict=True))
    # The gate tells apart: the cleaning of SigLIP 2, and <pad> in the place of </s>.
    assert tokenize(tmp_path, given, "--text-clean", "lower") != expected
    assert any(0 not in row and row.count(1) > 1 for row in ours)
