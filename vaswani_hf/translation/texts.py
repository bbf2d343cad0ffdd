# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Texts of any length to translations: split into sentences, of which none is too long."""

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..text.paragraphs import (
    SplitText,
    cut_long_segments,
    join_segments,
    language_code,
    split_sentences,
)
from .lengths import UNKNOWN_LENGTH, length_limit, trained_length
from .options import check_at_least


logger = logging.getLogger(__name__)
SENTENCES = "sentences"  # the one value of `split`


class Splitter:
    """Splits texts into sentences, and those that are longer than the model has seen at clauses.

    Args:
        language: of the texts, such as `en`.
        count_tokens: the source tokens of each of several sentences, `</s>` included.
        max_source_tokens: those that a sentence may have.

    Raises:
        ValueError: if the language is not a code.
        ImportError: if sentencex is missing.
    """

    def __init__(
        self,
        language: str,
        count_tokens: Callable[[list[str]], list[int]],
        max_source_tokens: int,
    ) -> None:
        self.language = language_code(language)
        self.count_tokens = count_tokens
        self.max_source_tokens = max_source_tokens
        self.num_cut = self.longest_cut = 0
        split_sentences("", self.language)  # a missing package is told before the first text

    def translate(
        self,
        texts: Iterable[str],
        translate: Callable[[list[str]], list[str]],
        chunk_sentences: int,
    ) -> Iterator[str]:
        """The translation of each text, with all that stood between its sentences.

        A warning at the end tells how many sentences were cut, and how long the longest was.

        Args:
            texts: any number of them; no more are read than are translated together.
            translate: gives the translation of each sentence.
            chunk_sentences: how many sentences are translated together, or more where one text has
                more.

        Raises:
            ValueError: at the first text, if `chunk_sentences` is below 1.
        """
        check_at_least(1, chunk_sentences=chunk_sentences)
        try:
            for chunk in self._chunks(texts, chunk_sentences):
                sentences = [segment for text in chunk for segment in text.segments]
                translations = iter(translate(sentences))
                for text in chunk:
                    yield join_segments(text, [next(translations) for _ in text.segments])
        finally:
            self.warn()

    def split(self, texts: Iterable[str]) -> list[SplitText]:
        """The segments of each text, none of them too long, and what stands between them."""
        return self._cut([split_sentences(text, self.language) for text in texts])

    def _chunks(self, texts: Iterable[str], chunk_sentences: int) -> Iterator[list[SplitText]]:
        chunk: list[SplitText] = []
        num_sentences = 0
        for text in texts:
            chunk.append(split_sentences(text, self.language))
            num_sentences += max(len(chunk[-1].segments), 1)
            if num_sentences >= chunk_sentences:
                yield self._cut(chunk)
                chunk, num_sentences = [], 0
        yield self._cut(chunk)

    def _cut(self, chunk: list[SplitText]) -> list[SplitText]:
        results, lengths = cut_long_segments(chunk, self.count_tokens, self.max_source_tokens)
        self.num_cut += len(lengths)
        self.longest_cut = max(self.longest_cut, *lengths, 0)
        return results

    def warn(self) -> None:
        """Tell how many sentences were cut, if any were."""
        if self.num_cut:
            sentences = "1 sentence was" if self.num_cut == 1 else f"{self.num_cut} sentences were"
            logger.warning(
                f"{sentences} cut at clauses, for being longer than {self.max_source_tokens} "
                f"source tokens; the longest has {self.longest_cut}. Translations may be worse "
                f"there; max_source_tokens sets another limit."
            )


def split_for(
    translator: Any,
    *,
    split: str,
    language: str | None = None,
    max_source_tokens: int | None = None,
) -> Splitter:
    """The splitter for a translator's texts.

    Args:
        translator: of one of the engines.
        split: `"sentences"`.
        language: of the texts; `None` for the one that the model's card translates from.
        max_source_tokens: those that a sentence may have; `None` for as many as the translator was
            made with, or else the longest that the model was trained with.

    Raises:
        ValueError: if no language is known, or an option is out of range.
        ImportError: if sentencex is missing.
    """
    if split != SENTENCES:
        raise ValueError(f'split must be "{SENTENCES}", got {split=}.')
    if language is None and translator.folder is not None:
        language = source_language(translator.folder)
    if language is None:
        raise ValueError(
            "The language of the text is needed to tell where its sentences end, such as "
            'language="en", on the command line --language en; the model has no card that names '
            "the two that it translates between."
        )
    if max_source_tokens is None:
        max_source_tokens = translator.max_source_tokens
    longest = trained_length(translator.tokenizer) or UNKNOWN_LENGTH
    limit = length_limit(max_source_tokens, longest, translator.max_positions)

    def count_tokens(sentences: list[str]) -> list[int]:
        return [len(ids) for ids in translator.encode(sentences)]

    return Splitter(language, count_tokens, limit)


def source_language(folder: Path) -> str | None:
    """The language that a model's card says it translates from; `None` if it does not say.

    Raises:
        ValueError: if the metadata of the card cannot be read.
    """
    from ..hub.card import card_languages

    languages = card_languages(folder)
    return languages[0] if len(languages) == 2 else None
