# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What the sources tell about translations: scores by length, empty lines and copies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .metrics import Metric


_ENDS = (10, 20, 30, 40, 50)  # most source tokens of each bin; the last one has no limit


@dataclass(frozen=True)
class LengthBin:
    """Sentences of similar length.

    Attributes:
        min_tokens: source tokens of the shortest sentence that belongs here.
        max_tokens: of the longest; `None` where there is no limit.
        sentences: how many there are.
        scores: by the name of the metric.
    """

    min_tokens: int
    max_tokens: int | None
    sentences: int
    scores: Mapping[str, float]


def count_tokens(texts: Sequence[str], tokenize: str = "13a") -> list[int]:
    """The tokens of each text, by a tokenizer of BLEU's (see `Metric`)."""
    bleu = Metric("bleu", tokenize=tokenize)
    tokenizer = bleu.of_sacrebleu().tokenizer
    return [len(tokenizer(text).split()) for text in bleu.prepare(texts)]


def scores_by_length(
    lengths: Sequence[int], statistics: Mapping[Metric, Sequence[Sequence[float]]]
) -> list[LengthBin]:
    """Scores of short and of long sentences, for each bin that has any.

    Args:
        lengths: source tokens of each sentence.
        statistics: by metric, what its `statistics` has returned for all sentences.
    """
    bins = []
    for low, high in zip((0, *(end + 1 for end in _ENDS)), (*_ENDS, None), strict=True):
        places = [
            place
            for place, length in enumerate(lengths)
            if low <= length and (high is None or length <= high)
        ]
        if places:
            scores = {
                metric.name: metric.score([rows[place] for place in places]).score
                for metric, rows in statistics.items()
            }
            bins.append(LengthBin(low, high, len(places), scores))
    return bins


def count_empty(hypotheses: Sequence[str], sources: Sequence[str]) -> int:
    """How many sources that have text came out without any."""
    pairs = zip(hypotheses, sources, strict=True)
    return sum(bool(source.strip()) and not hypothesis.strip() for hypothesis, source in pairs)


def count_copied(hypotheses: Sequence[str], sources: Sequence[str]) -> int:
    """How many sources that have text came out as they went in."""
    pairs = zip(hypotheses, sources, strict=True)
    return sum(source.strip() == hypothesis.strip() != "" for hypothesis, source in pairs)
