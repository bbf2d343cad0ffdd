# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The training set: what is usable of each corpus, mixed by the corpora's weights."""

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
    assert corpus.rules is not None and corpus.checked is not None
    reasons = corpus.checked.reasons(corpus.rules.reasons_by_length(*side_lengths(pairs)))
    counts = count_by_corpus(corpus.plans, corpus.sizes, reasons, corpus.rules)
    corpus.counts = report(corpus.plans, counts)
    probabilities = shares(corpus.plans)
    if probabilities is None or len(corpus.plans) == 1:
        kept = np.flatnonzero(reasons == KEPT)
        return pairs if len(kept) == len(pairs) else pairs.select(kept)
    parts, first = [], 0
    for size in corpus.sizes:
        kept = first + np.flatnonzero(reasons[first : first + size] == KEPT)
        parts.append(pairs.select(kept))
        first += size
    mixed = mix(parts, probabilities, seed)
    corpus.counts["pairs_per_epoch"] = len(mixed)
    return mixed


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
