# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The words of a sentence, as the Penn Treebank cuts it."""

import zlib
from collections.abc import Sequence

from ..extras import require
from ..tokenization_vaswani import WORD_START
from .trees import SPACES


NUMBERS = tuple(f"{number})" for number in range(100))
NUMBERS_FROM_END = tuple(f"-{number})" for number in range(1, 101))
# Of a word: what would be a bracket of a tree.
_ESCAPES = {
    "(": "-LRB-",
    ")": "-RRB-",
    "[": "-LSB-",
    "]": "-RSB-",
    "{": "-LCB-",
    "}": "-RCB-",
}
# Printed quotation marks, as the typewritten ones that the treebank's rules know.
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'"})


def treebank_words(sentence: str) -> list[str]:
    """Cut a sentence as the treebank does: `I can't (yet).` is `I ca n't -LRB- yet -RRB- .`.

    Raises:
        ImportError: if nltk is missing, whose `TreebankWordTokenizer` does it.
    """
    tokenizer = require("nltk.tokenize.treebank").TreebankWordTokenizer()
    found = tokenizer.tokenize(sentence.translate(_QUOTES), convert_parentheses=True)
    return [escaped(word) for word in found]


def words_of(sentence: str) -> list[str]:
    """The words of a sentence that is cut already, by spaces."""
    return [escaped(word) for word in sentence.translate(_AS_SPACE).split(" ") if word]


def numbered(words: Sequence[str], *, from_end: bool = False) -> str:
    """`sentence_of`, with its number before each word: `17) The 18) cat`, or `-2) The -1) cat`."""
    pairs = zip(numbers_of(words, from_end=from_end), words, strict=True)
    return " ".join(f"{number} {sentence_of([word])}" for number, word in pairs)


_INSIDE = str.maketrans(dict.fromkeys((*SPACES, WORD_START), "_"))
_AS_SPACE = str.maketrans(dict.fromkeys(SPACES, " "))


def escaped(word: str) -> str:
    """A word as a tree can hold it, without brackets."""
    if word in _ESCAPES:
        return _ESCAPES[word]
    for bracket in "()":
        word = word.replace(bracket, _ESCAPES[bracket])
    return word


def numbers_of(words: Sequence[str], *, from_end: bool = False) -> list[str]:
    """A number for each word, by which a tree may name it: `17)`, `18)` and so on.

    No word looks like one, as words hold no brackets. The first number follows from the sentence,
    and `0)` follows `99)`: so each is met equally often.

    Args:
        words: of the sentence.
        from_end: whether they are counted as Python counts from the end of a list: `-1)` is the
            last one's, by which the end is known. The 101st from there is `-1)` again.
    """
    if from_end:
        numbers = NUMBERS_FROM_END
        return [numbers[place % len(numbers)] for place in reversed(range(len(words)))]
    first = zlib.crc32(sentence_of(words).encode())
    return [NUMBERS[(first + place) % len(NUMBERS)] for place in range(len(words))]


def sentence_of(words: Sequence[str]) -> str:
    """The words as a model reads them: a space begins a word, and so does nothing else."""
    return " ".join(word.translate(_INSIDE) for word in words)
