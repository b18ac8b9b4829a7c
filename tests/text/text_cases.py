"""Texts for the comparison of tokenizers: words of many scripts and everything that may stand between them."""

import random
import re
import string
import unicodedata

#: First and last characters of a range of each script.
SCRIPTS = {
    "latin": ("A", "\u017f"),
    "vietnamese": ("\u1ea0", "\u1ef9"),
    "greek": ("\u0370", "\u03ff"),
    "cyrillic": ("\u0400", "\u04ff"),
    "armenian": ("\u0531", "\u058f"),
    "hebrew": ("\u05d0", "\u05ea"),
    "arabic": ("\u0620", "\u06ff"),
    "devanagari": ("\u0900", "\u097f"),
    "bengali": ("\u0980", "\u09fe"),
    "tamil": ("\u0b82", "\u0bfa"),
    "thai": ("\u0e01", "\u0e5b"),
    "georgian": ("\u10a0", "\u10ff"),
    "ethiopic": ("\u1200", "\u1250"),
    "cherokee": ("\u13a0", "\u13f5"),
    "kana": ("\u3041", "\u30ff"),
    "han": ("\u4e00", "\u4f00"),
    "hangul": ("\uac00", "\uad00"),
    "fullwidth": ("\uff01", "\uff5e"),
    "deseret": ("\U00010400", "\U0001044f"),
}
WORDS = [
    "the",
    "a",
    "photo",
    "of",
    "cat",
    "Dog",
    "running",
    "on",
    "Street",
    "with",
    "red",
    "BICYCLE",
    "in",
    "snow",
    "İstanbul",
    "ΟΔΥΣΣΕΥΣ",
    "ΣΑΣ.",
    "Σ",
    "don't",
    "well-known",
    "STRASSE",
    "ẞ",
    "ﬁne",
    "Ǆ",
    "½",
    "①",
    "Å",
    "I'M",
    "12.50",
    "2024-03-17",
    "КОТ",
    "кошка",
    "γάτα",
    "חתול",
    "قطة",
    "บิลลี่",
    "बिल्ली",
    "고양이",
    "猫",
    "ねこ",
]
EMOJI = [
    "😀",
    "👩\u200d👩\u200d👧\u200d👦",
    "🏳️\u200d🌈",
    "👍🏽",
    "❤️",
    "🇩🇪",
    "1️⃣",
    "🧑🏿\u200d🚀",
    "🐱",
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
]
SPECIAL = [
    "<eos>",
    "<pad>",
    "<bos>",
    "<unk>",
    "<mask>",
    "</s>",
    "<s>",
    "<0x41>",
    "<EOS>",
    "▁",
    "▁▁",
    "<start_of_turn>",
    "[CLS]",
]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\v", "\u00a0", "\u3000", "\u2003", "\x1c", "\x85", "\u2028"]
NO_SPACES = ["\u200b", "\ufeff", "\u2060", "\u00ad", "\u200d", "\u0301"]


def is_assigned(character):
    """Whether this Python knows it; others may know more."""
    return unicodedata.category(character) not in ("Cn", "Cs")


def word(draw):
    kind = draw.random()
    if kind < 0.35:
        return draw.choice(WORDS)
    if kind < 0.72:
        first, last = SCRIPTS[draw.choice(list(SCRIPTS))]
        characters = (chr(draw.randint(ord(first), ord(last))) for _ in range(draw.randint(1, 7)))
        return "".join(filter(is_assigned, characters))
    if kind < 0.79:
        return draw.choice(EMOJI)
    if kind < 0.84:
        return draw.choice(SPECIAL)
    if kind < 0.89:
        return "".join(draw.choice(string.punctuation) for _ in range(draw.randint(1, 4)))
    if kind < 0.93:
        return chr(draw.choice([*range(0x20), *range(0x7F, 0xA0)])) + draw.choice(NO_SPACES)
    if kind < 0.96:
        return draw.choice("aA!.é0") * draw.randint(2, 9)
    character = chr(draw.randrange(0x110000))
    return character if is_assigned(character) else ""


def texts(count, seed):
    """`count` texts of 0 to 200 words."""
    draw = random.Random(seed)
    for _ in range(count):
        words = (word(draw) for _ in range(draw.choice([0, 1, 2, 3, 5, 8, 20, 60, 200])))
        yield "".join(word + (draw.choice(SPACES) if draw.random() < 0.2 else " ") for word in words)


def collapse(text):
    """The rule for white space, after which all tokenizers agree."""
    return re.sub(r"\s+", " ", text).strip()
