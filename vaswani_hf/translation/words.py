# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""From the pieces of a text to its characters and its words, and back.

A span is a pair of places in the text, as in `text[start:end]`. Words are what Python's
`str.split()` finds, whatever the tokenizer does at spaces.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import takewhile
from typing import Any

from ..tokenization_vaswani import BYTES, normalize


Span = tuple[int, int]
BYTE_OF_PIECE = {piece: bytes([byte]) for byte, piece in enumerate(BYTES)}


@dataclass(frozen=True)
class Segmentation:
    """A text and its pieces.

    `spans` says for each piece which characters it spells: `None` for a special piece such as
    `</s>`. Pieces that spell one character together, byte by byte, have the same span. A piece that
    spells nothing, such as the mark before the first word, has an empty one.
    """

    text: str
    pieces: list[str]
    spans: list[Span | None]

    @cached_property
    def word_spans(self) -> list[Span]:
        """The characters of each word."""
        return word_spans(self.text)

    @cached_property
    def words(self) -> list[str]:
        """The words; the same as `text.split()`."""
        return [self.text[start:end] for start, end in self.word_spans]

    @cached_property
    def words_of_pieces(self) -> list[list[int]]:
        """The words, by their places, that each piece has a character of."""
        word_of_character: list[int | None] = [None] * len(self.text)
        for word, (start, end) in enumerate(self.word_spans):
            word_of_character[start:end] = [word] * (end - start)
        found = []
        for span in self.spans:
            touched = word_of_character[slice(*span)] if span else []
            found.append(list(dict.fromkeys(word for word in touched if word is not None)))
        return found

    @cached_property
    def pieces_of_words(self) -> list[list[int]]:
        """The pieces, by their places, that spell each word."""
        found: list[list[int]] = [[] for _ in self.word_spans]
        for piece, words in enumerate(self.words_of_pieces):
            for word in words:
                found[word].append(piece)
        return found


def word_spans(text: str) -> list[Span]:
    """The characters of each word of a text."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def segment(
    tokenizer: Any, ids: Sequence[int], text: str | None = None, *, is_target: bool = False
) -> Segmentation:
    """What each piece spells, exactly, or not at all.

    The pieces spell the text letter by letter, or but for its spaces; or a fast tokenizer says
    which characters each was made of, and leaves out none; or the pieces decode to the text. Most
    slow tokenizers that change characters, such as those of SentencePiece with NFKC, do none of
    this where the text has such characters.

    Args:
        tokenizer: any tokenizer of transformers.
        ids: what it made of the text, special pieces included; or what a model has said.
        text: the text; `None` for what the ids decode to.
        is_target: whether the tokenizer made the ids of `text_target`.

    Raises:
        ValueError: if it is not known which characters a piece spells.
    """
    pieces = tokenizer.convert_ids_to_tokens(ids)
    is_special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    places = [place for place, token in enumerate(ids) if token not in is_special]
    ordinary = [ids[place] for place in places]
    decoded = _decode(tokenizer, ordinary)
    text = decoded if text is None else text
    found = spans_of_spelling([pieces[place] for place in places], text)
    if found is None:
        encode = partial(tokenizer, **{"text_target" if is_target else "text": text})
        found = _spans_of_offsets(encode, ids, places, text) if tokenizer.is_fast else None
    if found is None and decoded == text:
        found = _spans_of_prefixes(tokenizer, ordinary, text)
    if found is None:
        raise ValueError(
            f"{type(tokenizer).__name__} does not tell which characters its pieces spell: it "
            f"changes the text {_shortened(text)} to {_shortened(decoded)}; give the text as the "
            f"tokenizer writes it, or use a fast tokenizer."
        )
    spans: list[Span | None] = [None] * len(ids)
    for place, span in zip(places, found, strict=True):
        spans[place] = span
    return Segmentation(text, pieces, spans)


def spans_of_spelling(pieces: Sequence[str], text: str) -> list[Span] | None:
    """The spans of pieces that spell the text; `None` if they do not.

    U+2581 stands for a space, and `<0xE2>` for a byte of UTF-8. Where the pieces spell all but the
    spaces, each begins and ends at the characters other than spaces that it spells.
    """
    spelled = [BYTE_OF_PIECE.get(piece) or normalize(piece).encode() for piece in pieces]
    text = normalize(text)
    written = b"".join(spelled)
    if written == f" {text}".encode():  # the mark before the first word is not in the text
        return _spans_of_bytes([spelled[0][1:], *spelled[1:]], enumerate(text))
    if written == text.encode():
        return _spans_of_bytes(spelled, enumerate(text))
    spelled = [BYTE_OF_PIECE.get(piece) or _squeezed(normalize(piece)) for piece in pieces]
    if b"".join(spelled) != _squeezed(text):
        return None
    return _spans_of_bytes(
        spelled, ((place, letter) for place, letter in enumerate(text) if not letter.isspace())
    )


def _squeezed(text: str) -> bytes:
    return "".join(text.split()).encode()


def _spans_of_bytes(spelled: list[bytes], characters: Iterator[tuple[int, str]]) -> list[Span]:
    """The spans of pieces, as bytes, that spell characters, given with their places, in order."""
    place_of_byte = [place for place, letter in characters for _ in letter.encode()]
    spans, done, end = [], 0, 0
    for piece in spelled:
        places = place_of_byte[done : done + len(piece)]
        start, end = (places[0], places[-1] + 1) if places else (end, end)
        spans.append((start, end))
        done += len(piece)
    return spans


def _spans_of_offsets(
    encode: Callable[..., Any], ids: Sequence[int], places: Sequence[int], text: str
) -> list[Span] | None:
    """What a fast tokenizer says, if it says it of these pieces and leaves out no letter."""
    encoded = encode(return_offsets_mapping=True, verbose=False)
    if encoded["input_ids"] != list(ids):
        return None
    spans = [tuple(encoded["offset_mapping"][place]) for place in places]
    covered = {place for span in spans for place in range(*span)}
    letters = {place for place, letter in enumerate(text) if not letter.isspace()}
    return spans if covered >= letters else None


def _spans_of_prefixes(tokenizer: Any, ids: Sequence[int], text: str) -> list[Span]:
    """The spans of pieces that decode to the text: each adds what it adds to the decoded text."""
    spans, end = [], 0
    for count in range(1, len(ids) + 1):
        start, so_far = end, _decode(tokenizer, ids[:count])
        same = takewhile(lambda both: both[0] == both[1], zip(so_far, text, strict=False))
        end = max(start, sum(1 for _ in same))
        spans.append((start, end))
    return spans


def _decode(tokenizer: Any, ids: Sequence[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=True)


def _shortened(text: str, most: int = 40) -> str:
    return repr(text if len(text) <= most else f"{text[:most]}...")
