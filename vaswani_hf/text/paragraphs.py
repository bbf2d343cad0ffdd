# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Text of any length as sentences to translate, and what stands between them, which is kept."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import regex

from ..extras import require


_BREAKS = re.compile("([\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+)")  # of lines and of table cells
# White space, control characters, and marks of a text's direction: kept where a segment ends.
_MARKS = "\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
_EDGES = _MARKS + "".join(
    character
    for character in map(chr, range(0x3001))
    if character.isspace() or unicodedata.category(character) == "Cc"
)
# Where a sentence is cut, the best first: after these, if a piece has any.
_CUTS = (
    # The punctuation of clauses, with what closes a quotation: before a space, or of scripts that
    # write none.
    regex.compile(r"""[,;:،؛][\p{Pf}\p{Pe}"']*\s+|\s(?:--|[—–])\s+|—|[，、；：]\p{Pe}*"""),
    regex.compile(r"\s+"),
    regex.compile(r"\X"),  # graphemes
    regex.compile(r"(?s)."),
)
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\u3000-\u303f\uff00-\uffef]")
# A sentence is looked for within so many characters: sentencex takes time by their square.
WINDOW_CHARACTERS = 5000


class SplitText(NamedTuple):
    """A text as segments, which are translated, and separators, which are kept.

    Attributes:
        segments: each has a letter or a digit, and no white space at its ends.
        separators: what stands before the first segment, between two, and after the last.
    """

    segments: list[str]
    separators: list[str]


def split_sentences(text: str, language: str) -> SplitText:
    """Split a text into sentences, by sentencex; a line break or a tab always ends one.

    Args:
        text: any text.
        language: its code, such as `en`; sentencex treats one that it does not know by rules that
            hold for most languages.

    Raises:
        ValueError: if the language is not a code.
        ImportError: if sentencex is missing.
    """
    segment, code = require("sentencex").segment, language_code(language)
    pieces: list[str] = []
    for part in _BREAKS.split(text):
        if _has_word(part):
            pieces.extend(_sentences(part, lambda window: segment(code, window)))
        else:
            pieces.append(part)
    return _separate(pieces)


def cut_long_segments(
    texts: Sequence[SplitText], count_tokens: Callable[[list[str]], list[int]], most: int
) -> tuple[list[SplitText], list[int]]:
    """Cut segments of too many tokens: between clauses, else words, else graphemes.

    Args:
        texts: their other segments stay as they are.
        count_tokens: the tokens of each of several texts.
        most: tokens that a segment may have. A single character may still have more.

    Returns:
        The texts, and the tokens of each segment that was cut.
    """
    lengths = iter(count_tokens([segment for text in texts for segment in text.segments]))
    results, lengths_of_cut = [], []
    for text in texts:
        pieces = [text.separators[0]]
        for segment, separator in zip(text.segments, text.separators[1:], strict=True):
            tokens = next(lengths)
            if tokens > most:
                lengths_of_cut.append(tokens)
            pieces.extend(_cut(segment, tokens, count_tokens, most))
            pieces.append(separator)
        results.append(_separate(pieces))
    return results, lengths_of_cut


def join_segments(text: SplitText, translations: Sequence[str]) -> str:
    """Put the translations in the places of the segments, each on one line.

    Where Chinese or Japanese wrote no space between two sentences, and their translations are in a
    script that does, a space comes between them.
    """
    return "".join(interleave(text, translations))


def interleave(text: SplitText, translations: Sequence[str]) -> list[str]:
    """What `join_segments` joins: a separator, a translation, a separator, and so on."""
    written = [text.separators[0]]
    for place, translation in enumerate(translations):
        separator, line = text.separators[place + 1], " ".join(translation.splitlines())
        written.append(line)
        if not separator and place + 1 < len(translations):
            before, after = text.segments[place], text.segments[place + 1]
            if _is_unspaced(before, after) and not _is_unspaced(line, translations[place + 1]):
                separator = " "
        written.append(separator)
    return written


def language_code(language: str) -> str:
    """The code without region and script: `zh` of `zh-CN`.

    Raises:
        ValueError: if it is none.
    """
    code = re.split("[-_]", language)[0].lower()
    if not re.fullmatch("[a-z]{2,3}", code):
        raise ValueError(f"language must be a code such as en or zh-CN, got {language=}.")
    return code


def _sentences(line: str, segment: Callable[[str], list[str]]) -> Iterator[str]:
    """The sentences of a line, with the white space after them."""
    start = 0
    while start < len(line):
        window = line[start : start + WINDOW_CHARACTERS]
        # Only the lengths are used, so that no text is lost whatever sentencex gives.
        lengths = [len(sentence) for sentence in segment(window)]
        if start + len(window) < len(line):  # the last one may go on
            lengths = lengths[:-1] or [_nearest_cut(window, len(window))]
        for length in lengths:
            yield line[start : start + length]
            start += length


def _cut(
    segment: str, tokens: int, count_tokens: Callable[[list[str]], list[int]], most: int
) -> Iterator[str]:
    """Pieces of nearly the same length, as few as there can be, none above `most` tokens."""
    if tokens <= most or len(segment) == 1:
        yield segment
        return
    num_pieces = -(-tokens // most)
    cut = _nearest_cut(segment, len(segment) * (num_pieces // 2) // num_pieces)
    for piece in (segment[:cut], segment[cut:]):
        (piece_tokens,) = count_tokens([piece])
        yield from _cut(piece, piece_tokens, count_tokens, most)


def _nearest_cut(text: str, goal: int) -> int:
    """The place nearest to another where a text of two characters or more is best cut."""
    for pattern in _CUTS:
        places = [match.end() for match in pattern.finditer(text) if match.end() < len(text)]
        if places:
            return min(places, key=lambda place: abs(place - goal))
    raise ValueError(f"A single character cannot be cut, got {text=}.")


def _separate(pieces: Iterable[str]) -> SplitText:
    """Segments of pieces that follow each other; what has neither letter nor digit is kept."""
    segments, separators = [], [""]
    for piece in pieces:
        if not _has_word(piece):
            separators[-1] += piece
            continue
        begin = len(piece) - len(piece.lstrip(_EDGES))
        segment = piece.strip(_EDGES)
        separators[-1] += piece[:begin]
        segments.append(segment)
        separators.append(piece[begin + len(segment) :])
    return SplitText(segments, separators)


def _has_word(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _is_unspaced(before: str, after: str) -> bool:
    """Whether two texts that touch do so in a script that sets no spaces, such as Chinese."""
    return any(_UNSPACED.match(character) for character in before[-1:] + after[:1])
