# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The training set: what is usable of each corpus, mixed by the corpora's weights."""

from collections.abc import Iterator

import numpy as np
from datasets import Dataset, interleave_datasets

from .cleaning import KEPT, count_by_corpus, report
from .corpora import shares
from .corpus import Corpus
from .lengths import side_lengths


def clean_and_mix(corpus: Corpus, pairs: Dataset, seed: int) -> Dataset:
    """Leave out the pairs that are not wanted, and mix the corpora by their weights.

    Args:
        corpus: by `load_corpus`; its counts are set to what was read, dropped and kept.
        pairs: its encoded split `train`.
        seed: of the mixture.

    Raises:
        ValueError: if nothing is left of a corpus.
    """
    reasons = _reasons(corpus, pairs)
    probabilities = shares(corpus.plans)
    if probabilities is None or len(corpus.plans) == 1:
        return _select(pairs, reasons)
    mixed = mix(list(_parts(corpus, pairs, reasons)), probabilities, seed)
    corpus.counts["pairs_per_epoch"] = len(mixed)
    return mixed


def clean(corpus: Corpus, pairs: Dataset) -> Dataset:
    """Leave out the pairs that are not wanted; the others are kept in the corpus, to be drawn anew.

    Args:
        corpus: by `load_corpus`; its counts are set to what was read, dropped and kept, and
            `loaded` to the pairs of each of its corpora.
        pairs: its encoded split `train`.

    Returns:
        The pairs of all corpora, one after the other.

    Raises:
        ValueError: if nothing is left of a corpus.
    """
    reasons = _reasons(corpus, pairs)
    parts = _parts(corpus, pairs, reasons)
    corpus.loaded = {plan.name: part for plan, part in zip(corpus.plans, parts, strict=True)}
    return _select(pairs, reasons)


def _reasons(corpus: Corpus, pairs: Dataset) -> np.ndarray:
    """For each pair `KEPT`, or why it is not wanted; the corpus gets the counts."""
    assert corpus.rules is not None and corpus.checked is not None
    reasons = corpus.checked.reasons(corpus.rules.reasons_by_length(*side_lengths(pairs)))
    counts = count_by_corpus(corpus.plans, corpus.sizes, reasons, corpus.rules)
    corpus.counts = report(corpus.plans, counts)
    return reasons


def _select(pairs: Dataset, reasons: np.ndarray) -> Dataset:
    kept = np.flatnonzero(reasons == KEPT)
    return pairs if len(kept) == len(pairs) else pairs.select(kept)


def _parts(corpus: Corpus, pairs: Dataset, reasons: np.ndarray) -> Iterator[Dataset]:
    first = 0
    for size in corpus.sizes:
        kept = first + np.flatnonzero(reasons[first : first + size] == KEPT)
        yield pairs.select(kept)
        first += size


def mix(parts: list[Dataset], probabilities: list[float], seed: int) -> Dataset:
    """One set in which a pair comes from each corpus with its probability.

    It ends when every pair of every corpus is in it: the smaller ones, for their weight, are
    repeated.

    Args:
        parts: the corpora.
        probabilities: one for each, which sum to 1.
        seed: of the choice.
    """
    return interleave_datasets(
        parts, probabilities=probabilities, seed=seed, stopping_strategy="all_exhausted"
    )
