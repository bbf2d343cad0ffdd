# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""A document as the texts that are translated, and what stands between them, which is kept."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .inline import Kind, MarkedText, Token, read_tokens
from .units import UnitAlignment


@dataclass(frozen=True)
class Document:
    """What a reader of a format makes of a text.

    Attributes:
        pieces: in their order: what is kept as it is, and texts with their markup.
        escape: writes text as the format wants it.
    """

    pieces: list[str | MarkedText]
    escape: Callable[[str], str]

    @property
    def marked(self) -> list[MarkedText]:
        """The texts that are translated."""
        return [piece for piece in self.pieces if isinstance(piece, MarkedText)]

    def with_translations(self, translations: Iterable[tuple[str, UnitAlignment | None]]) -> str:
        """The document with the translation of each text, and the markup where its words went.

        Args:
            translations: with the alignment of each text that has markup.
        """
        translated = iter(translations)
        return "".join(
            piece
            if isinstance(piece, str)
            else piece.with_translation(*next(translated), self.escape)
            for piece in self.pieces
        )


def read_text(text: str) -> Document:
    """A text without markup."""
    return Document([MarkedText("", text, [], [], "")], str)


def read_piece(tokens: Sequence[Token], white_space: str) -> str | MarkedText:
    """The text of tokens with its markup; what they are written as, where there are no words."""
    marked = read_tokens(tokens, white_space)
    if any(character.isalnum() for character in marked.text):
        return marked
    return "".join(token.raw for token in tokens)


def text_token(raw: str, decode: Callable[[str], str]) -> Token:
    return Token(raw, Kind.TEXT, decode(raw))


def hidden_token(raw: str) -> Token:
    """What the model does not see; it stands where a word could stand."""
    return Token(raw, Kind.POINT, separates=True)
