# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How probable does a model find a target, given its source?

What beam search says of its own output is the same number: each piece of the target is predicted
from those before it, and the log-probabilities are summed.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .pairs import Pair, PairReader, Side


NAN = (
    "The model computes NaN: its weights are NaN, or too large for the type that it computes in; "
    "try float32."
)


@dataclass(frozen=True)
class PairScore:
    """What a model says of one target. Logarithms are natural.

    `ids` and `tokens` are the pieces of the target, with `</s>` where it has ended, and `log_probs`
    the log-probability of each, given the source and the pieces before. `score` is `log_prob`
    divided by the length penalty, as in beam search.
    """

    ids: list[int]
    tokens: list[str]
    log_probs: list[float]
    score: float

    @property
    def log_prob(self) -> float:
        """The log-probability of the target."""
        return math.fsum(self.log_probs)

    @property
    def perplexity(self) -> float:
        """Per token."""
        return token_perplexity(self.log_prob, len(self.ids))


def perplexity(scores: Iterable[PairScore]) -> float:
    """Of several targets together, per token: exp(-log-probability / tokens).

    Raises:
        ValueError: if there are no scores.
    """
    log_prob, num_tokens = 0.0, 0
    for score in scores:
        log_prob += score.log_prob
        num_tokens += len(score.ids)
    if not num_tokens:
        raise ValueError("The perplexity of no tokens is no number; score at least one target.")
    return token_perplexity(log_prob, num_tokens)


def token_perplexity(log_prob: float, num_tokens: int) -> float:
    """Of so many tokens, whose log-probabilities sum to `log_prob`."""
    try:
        return math.exp(-log_prob / num_tokens)
    except OverflowError:
        return math.inf


def score_pairs(
    reader: PairReader,
    sources: Iterable[Side],
    targets: Iterable[Side],
    log_probs: Callable[[list[list[int]], list[list[int]]], list[list[float]]],
    length_penalty: Callable[[int], float],
    num_positions: Callable[[list[int]], int] = len,
) -> Iterator[PairScore]:
    """The score of each pair, in their order.

    Args:
        reader: makes ids and batches.
        sources: texts, or ids.
        targets: texts, which end in `</s>`; or ids, scored as they are: without a start token, and
            without `</s>` where a limit has cut them off.
        log_probs: of each piece of each target of a batch; an engine's.
        length_penalty: what a log-probability is divided by, for a number of tokens.
        num_positions: as in `PairReader.chunks`.

    Raises:
        PairError: if a pair has more tokens than the model has positions, or a side none.
        UnequalLengthError: if one side has fewer, after the pairs before that.
        ValueError: if the model computes NaN.
    """

    def answer(pairs: list[Pair]) -> list[PairScore]:
        sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
        found = zip(pairs, log_probs(*sides), strict=True)
        return [_make_score(reader, pair.target, row, length_penalty) for pair, row in found]

    for pairs in reader.chunks(sources, targets, num_positions):
        yield from reader.answers(pairs, answer)


def _make_score(
    reader: PairReader,
    ids: list[int],
    log_probs: list[float],
    length_penalty: Callable[[int], float],
) -> PairScore:
    if any(map(math.isnan, log_probs)):
        raise ValueError(NAN)
    tokens = reader.target_tokenizer.convert_ids_to_tokens(ids)
    return PairScore(ids, tokens, log_probs, math.fsum(log_probs) / length_penalty(len(ids)))


def ctranslate2_log_probs(
    model: Any,
    end: str,
    sources: Sequence[Sequence[str]],
    targets: Sequence[Sequence[str]],
    max_batch_size: int,
) -> list[list[float]]:
    """The log-probability of each piece of each target, by CTranslate2.

    Args:
        model: a `ctranslate2.Translator`.
        end: the end piece, which CTranslate2 adds to every target.
        sources: pieces, at least one each; where there is none CTranslate2 answers 0.
        targets: pieces, at least one each.
        max_batch_size: pairs of a thread's batch.
    """
    results = model.score_batch(
        sources,
        [target[:-1] if target[-1] == end else target for target in targets],
        max_batch_size=max_batch_size,
        max_input_length=0,  # otherwise it cuts long sentences silently
    )
    return [
        result.log_probs[: len(target)] for result, target in zip(results, targets, strict=True)
    ]


__all__ = ["PairScore", "perplexity", "score_pairs"]
