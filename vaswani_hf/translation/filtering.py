# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which pairs are translations of each other? Two models say, one of each direction.

Dual conditional cross-entropy (Junczys-Dowmunt 2018, "Dual Conditional Cross-Entropy Filtering of
Noisy Parallel Corpora"): both must find the other side probable, and about equally so.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .engine import TextTranslator
from .options import check_at_least


class DualScore(NamedTuple):
    """What two models say of a pair.

    `score` is in [0, 1], larger for better pairs. `forward` and `backward` are the cross-entropies
    of the target given the source and of the source given the target, in nats per token with
    `</s>`; both are infinite, and the score is 0, for a pair that no model was asked about.
    """

    score: float
    forward: float
    backward: float

    @classmethod
    def of(cls, forward: float, backward: float) -> "DualScore":
        """exp(-(|forward - backward| + (forward + backward) / 2))."""
        if math.inf in (forward, backward):
            return cls(0.0, math.inf, math.inf)
        return cls(
            math.exp(-(abs(forward - backward) + (forward + backward) / 2)), forward, backward
        )


def dual_scores(
    forward: TextTranslator,
    backward: TextTranslator,
    pairs: Iterable[tuple[str, str]],
    chunk_sentences: int = 10_000,
) -> Iterator[DualScore]:
    """The score of each pair, in their order.

    Models are not asked about a pair with a blank side, nor about one with a side that is longer
    than they take.

    Args:
        forward: translates from the language of the sources into that of the targets.
        backward: translates back.
        pairs: any number of sources and targets.
        chunk_sentences: pairs that are read, sorted by length and scored together.

    Raises:
        ValueError: if a model computes NaN, or `chunk_sentences` is below 1.
    """
    check_at_least(1, chunk_sentences=chunk_sentences)
    pairs = iter(pairs)
    while chunk := list(itertools.islice(pairs, chunk_sentences)):
        places = [place for place, pair in enumerate(chunk) if all(map(str.strip, pair))]
        sources, targets = ([chunk[place][side] for place in places] for side in (0, 1))
        scores = [DualScore.of(math.inf, math.inf)] * len(chunk)
        there = _cross_entropies(forward, sources, targets)
        back = _cross_entropies(backward, targets, sources)
        for place, *entropies in zip(places, there, back, strict=True):
            scores[place] = DualScore.of(*entropies)
        yield from scores


def _cross_entropies(
    translator: TextTranslator, sources: list[str], targets: list[str]
) -> list[float]:
    """Nats per token of each target, given its source; infinite where a side is too long."""
    source_ids = translator.encode(sources)
    target_ids = [ids + translator.end_ids()[:1] for ids in translator.encode_prefixes(targets)]
    positions = translator.max_positions or math.inf
    places = [
        place
        for place, (source, target) in enumerate(zip(source_ids, target_ids, strict=True))
        if len(source) <= translator.source_limit
        and len(target) <= translator.target_limit
        and translator.num_target_positions(target) <= positions
    ]
    entropies = [math.inf] * len(sources)
    chosen = ([ids[place] for place in places] for ids in (source_ids, target_ids))
    for place, score in zip(places, translator.score(*chosen), strict=True):
        entropies[place] = -score.log_prob / len(score.ids)
    return entropies


__all__ = ["DualScore", "dual_scores"]
