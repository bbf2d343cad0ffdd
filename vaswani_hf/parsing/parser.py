# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Sentences to trees by a trained model."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, Self

import torch
from transformers import LogitsProcessorList

from ..translation import Hypothesis, Translator
from ..translation.forcing import padded
from .constraint import TreeConstraint, TreePieces
from .linearization import repair_tree
from .trees import Tree
from .words import sentence_of, treebank_words, words_of


class _TreeTranslator(Translator):
    """Translates sentences to sequences, by default to such as are trees."""

    pieces: TreePieces
    constrained: bool = True

    @torch.inference_mode()
    def hypotheses(self, sources: list[list[int]]) -> list[list[Hypothesis]]:
        """The best sequence for each source of a batch."""
        padding, device = self.tokenizer.pad_token_id, self.model.device
        input_ids = padded(sources, padding, device)
        processors = LogitsProcessorList()
        if self.constrained:
            limits = [len(source) + self.max_extra_tokens for source in sources]
            num_words = self.pieces.num_words(input_ids)
            processors.append(TreeConstraint(self.pieces, num_words, limits))
        outputs = self.model.generate(
            input_ids=input_ids,
            attention_mask=padded([[1] * len(source) for source in sources], 0, device),
            logits_processor=processors,
            max_extra_tokens=self.max_extra_tokens,
            **self.generation,
        )
        return [[Hypothesis(self._without_padding(row), None)] for row in outputs.tolist()]


class TreeParser:
    """Parses sentences by a model that was trained to (section 6.3).

    Args:
        model: of Vaswani type, trained with `task: parsing`.
        tokenizer: its tokenizer.
        constrained: whether the search finds trees alone; else what it finds is mended.
        options: as for `Translator`, such as `num_beams`.

    Raises:
        ValueError: if the tokenizer has no pieces for trees, or an option is out of range.
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, constrained: bool = True, **options: Any
    ) -> None:
        self._take(_TreeTranslator(model, tokenizer, **options), constrained)

    @classmethod
    def from_pretrained(
        cls, folder: str | PathLike[str], *, constrained: bool = True, **options: Any
    ) -> Self:
        """Load a model and its tokenizer from a folder or the Hub.

        Args:
            folder: a folder, or an id on the Hub.
            constrained: as for `TreeParser`.
            options: as for `Translator.from_pretrained`.

        Raises:
            ValueError: as for `TreeParser`, and if the folder cannot be loaded.
            HubError: if it cannot be fetched from the Hub.
        """
        parser = cls.__new__(cls)
        parser._take(_TreeTranslator.from_pretrained(folder, **options), constrained)
        return parser

    def _take(self, translator: _TreeTranslator, constrained: bool) -> None:
        translator.pieces = TreePieces.of(translator.tokenizer)
        translator.constrained = constrained
        self.translator = translator

    def __call__(
        self, sentences: str | Iterable[str], *, tokenized: bool = False, progress: bool = False
    ) -> list[Tree | None]:
        """Parse sentences; of a blank one there is no tree, but `None`.

        Args:
            sentences: one sentence, or several.
            tokenized: whether spaces stand between words; else they are cut as the treebank's.
            progress: whether to draw a progress bar.

        Returns:
            One tree for each sentence, in the same order.

        Raises:
            LongSourceError: if a sentence has more tokens than the model has positions.
            ImportError: if nltk, which cuts sentences, is missing.
        """
        sentences = [sentences] if isinstance(sentences, str) else list(sentences)
        cut: Callable[[str], list[str]] = words_of if tokenized else treebank_words
        return self.parse_words([cut(sentence) for sentence in sentences], progress=progress)

    def parse_words(
        self, sentences: Sequence[Sequence[str]], *, progress: bool = False
    ) -> list[Tree | None]:
        """As a call, of sentences that are lists of words."""
        sequences = self.translator([sentence_of(words) for words in sentences], progress=progress)
        tags = set(self.translator.pieces.tags.values())
        return [
            repair_tree(sequence.split(), words, tags)[0] if words else None
            for sequence, words in zip(sequences, sentences, strict=True)
        ]

    def stream(
        self,
        sentences: Iterable[str],
        *,
        tokenized: bool = False,
        chunk_sentences: int = 10_000,
        progress: bool = False,
    ) -> Iterator[Tree | None]:
        """As a call, of any number of sentences, of which no more are held than are needed.

        Args:
            sentences: such as the lines of a large file.
            tokenized: as in a call.
            chunk_sentences: how many are read, sorted by length and parsed together.
            progress: as in a call.
        """
        rest = iter(sentences)
        while chunk := list(itertools.islice(rest, chunk_sentences)):
            yield from self(chunk, tokenized=tokenized, progress=progress)
