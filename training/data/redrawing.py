# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What is drawn anew each time that a pair is trained on: noise in its text, and how words are cut.

All draws of a pair come from the seed, the corpus, its epoch and the number of the pair in it.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from .bpe_dropout import BPEDropout
from .encoding import encode_texts, encode_words
from .noise import Noise


Ids = tuple[list[int], list[int]]  # of source and target


class Text(NamedTuple):
    """A pair to draw.

    Attributes:
        key: names corpus, epoch and number of the pair.
        source: text.
        target: its translation.
        noise: of its corpus.
        tag: the ids that stand before the sources of its corpus.
        ids: of the pair as it is.
    """

    key: str
    source: str
    target: str
    noise: Noise
    tag: list[int]
    ids: Ids


class Redrawing:
    """Draws pairs anew.

    Args:
        tokenizer: of the sources, and of the targets too unless these have one of their own.
        target_tokenizer: the targets' own.
        seed: of all draws.
        bpe_dropout: probability that a merge is left out of a step; 0 for words as they are.
        max_length: tokens that a side may have, `</s>` included. A pair with a side that comes out
            longer stays as it is, that once.

    Raises:
        ValueError: if `bpe_dropout` is above 0 and a tokenizer does not work by merges.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        target_tokenizer: PreTrainedTokenizerBase | None,
        *,
        seed: int,
        bpe_dropout: float,
        max_length: int,
    ) -> None:
        self._tokenizers = tokenizer, target_tokenizer
        self._seed, self._max_length = seed, max_length
        self._dropouts: list[BPEDropout] = []
        if bpe_dropout:
            self._dropouts = [_dropout_of(tokenizer, bpe_dropout)] * 2
            if target_tokenizer is not None:
                self._dropouts[1] = _dropout_of(target_tokenizer, bpe_dropout)

    def __call__(self, texts: Sequence[Text]) -> list[Ids]:
        """The ids of each pair, drawn by its key."""
        choosers = [Random(f"{self._seed} {text.key}") for text in texts]
        pairs = [
            text.noise(text.source, text.target, chooser)
            for text, chooser in zip(texts, choosers, strict=True)
        ]
        # Without dropout only what is noisy has other ids.
        changed = [
            place
            for place, (text, pair) in enumerate(zip(texts, pairs, strict=True))
            if self._dropouts or pair != (text.source, text.target)
        ]
        drawn = [text.ids for text in texts]
        encoded = self._encode(
            [pairs[place] for place in changed], [choosers[place] for place in changed]
        )
        for place, (source, target) in zip(changed, encoded, strict=True):
            source = texts[place].tag + source
            if max(len(source), len(target)) <= self._max_length:
                drawn[place] = source, target
        return drawn

    def _encode(self, pairs: list[tuple[str, str]], choosers: list[Random]) -> list[Ids]:
        if not pairs:
            return []
        sources, targets = (list(side) for side in zip(*pairs, strict=True))
        tokenizer, target_tokenizer = self._tokenizers
        if not self._dropouts:
            encoded = encode_texts(sources, targets, tokenizer, target_tokenizer)
            return list(zip(encoded["input_ids"], encoded["labels"], strict=True))
        sides = (
            [
                dropout(*words, chooser)
                for words, chooser in zip(encode_words(texts, each), choosers, strict=True)
            ]
            for texts, each, dropout in zip(
                (sources, targets),
                (tokenizer, target_tokenizer or tokenizer),
                self._dropouts,
                strict=True,
            )
        )
        return list(zip(*sides, strict=True))


def _dropout_of(tokenizer: PreTrainedTokenizerBase, dropout: float) -> BPEDropout:
    if type(tokenizer) is not PreTrainedTokenizerFast:
        raise ValueError(
            f"bpe_dropout={dropout} needs a tokenizer of the tokenizers library alone, got a "
            f"{type(tokenizer).__name__}; leave out bpe_dropout, or name another tokenizer."
        )
    return BPEDropout(tokenizer.backend_tokenizer, dropout)
