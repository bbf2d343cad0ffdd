# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Sentences to trees by a trained model."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from os import PathLike
from typing import Any, Self

import torch
from tqdm.auto import tqdm
from transformers import LogitsProcessorList

from ..translation import Translator
from ..translation.forcing import padded
from ..translation.sentences import in_chunks
from .constraint import TreeConstraint, TreePieces
from .trees import Tree
from .words import treebank_words, words_of


class TreeParser:
    """Parses sentences by a model that was trained to (section 6.3).

    Args:
        translator: of a Vaswani model that was trained with `task: parsing`; its options, such as
            `num_beams`, are those of the search.
        constrained: whether the search finds trees alone; else what it finds is mended.

    Raises:
        ValueError: if the tokenizer has no pieces for trees.
    """

    def __init__(self, translator: Translator, *, constrained: bool = True) -> None:
        self.translator, self.constrained = translator, constrained
        self.pieces = TreePieces.of(translator.tokenizer)

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
            ValueError: if the folder cannot be loaded, or its tokenizer has no pieces for trees.
            HubError: if it cannot be fetched from the Hub.
        """
        return cls(Translator.from_pretrained(folder, **options), constrained=constrained)

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
            LongSourceError: if a sentence has more tokens than the model has positions, or than the
                translator takes.
            ImportError: if nltk, which cuts sentences, is missing.
        """
        sentences = [sentences] if isinstance(sentences, str) else list(sentences)
        cut = words_of if tokenized else treebank_words
        return self.parse_words([cut(sentence) for sentence in sentences], progress=progress)

    def parse_words(
        self, sentences: Sequence[Sequence[str]], *, progress: bool = False
    ) -> list[Tree | None]:
        """As a call, of sentences that are lists of words."""
        return [
            None if sequence is None else self.pieces.tree_of(sequence, words)[0]
            for words, sequence in zip(
                sentences, self.sequences(sentences, progress=progress), strict=True
            )
        ]

    def sequences(
        self, sentences: Sequence[Sequence[str]], *, progress: bool = False
    ) -> list[str | None]:
        """What the search finds for lists of words, before any of it is mended.

        Returns:
            Tags and brackets with a space between two, as `linearize` gives them; `None` where
            there are no words.

        Raises:
            LongSourceError: as in a call.
        """
        places = [place for place, words in enumerate(sentences) if words]
        sources = self.translator.encode(
            [self.pieces.sentence_of(sentences[place]) for place in places]
        )
        for place, source in zip(places, sources, strict=True):
            self.translator.check_lengths(place, len(source))
        found: list[str | None] = [None] * len(sentences)
        with tqdm(total=len(places), unit="sentence", disable=not progress) as bar:
            for batch in self.translator.batches([len(source) for source in sources]):
                searched = self._search([sources[index] for index in batch])
                for index, sequence in zip(batch, searched, strict=True):
                    found[places[index]] = sequence
                bar.update(len(batch))
        return found

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
        parse = partial(self, tokenized=tokenized, progress=progress)
        return in_chunks(sentences, chunk_sentences, parse)

    @torch.inference_mode()
    def _search(self, sources: list[list[int]]) -> list[str]:
        """What the search finds for each source of a batch, as text."""
        translator, device = self.translator, self.translator.model.device
        input_ids = padded(sources, translator.tokenizer.pad_token_id, device)
        processors, extra = LogitsProcessorList(), translator.max_extra_tokens
        if self.constrained:
            # A word has a tag, beside its own pieces; a bracket around all, and the end.
            extra = max(extra, *(count + 3 for count in self.pieces.num_words(input_ids)))
            limits = [len(source) + extra for source in sources]
            processors.append(TreeConstraint.of(self.pieces, input_ids, limits))
        found = translator.model.generate(
            input_ids=input_ids,
            attention_mask=padded([[1] * len(source) for source in sources], 0, device),
            logits_processor=processors,
            max_extra_tokens=extra,
            **translator.generation,
        )
        return translator.tokenizer.batch_decode(found, skip_special_tokens=True)
