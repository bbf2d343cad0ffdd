# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Minimum Bayes risk: of several translations the one that is most like all the others.

Samples of a model stand for what it believes; the best candidate has the largest mean utility
against them (Eikema & Aziz 2020, "Is MAP Decoding All You Need?"; Freitag et al. 2022). A text that
was sampled twice weighs twice.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..extras import require


CHRF, BLEU = METRICS = ("chrf", "bleu")
Statistics = list[list[list[int]]]  # of each hypothesis against each reference


class Utility:
    """How well one text does for another: chrF (Popović 2015) or BLEU of a sentence, by sacrebleu.

    Every number is that of `sacrebleu.sentence_chrf` or `sacrebleu.sentence_bleu`; here the n-grams
    of a text are counted once, whatever it is compared with.

    Args:
        name: `"chrf"` or `"bleu"`.

    Raises:
        ValueError: for another name.
        ImportError: if sacrebleu is missing.
    """

    def __init__(self, name: str) -> None:
        if name not in METRICS:
            raise ValueError(f'A utility is "{CHRF}" or "{BLEU}", got {name!r}.')
        sacrebleu = require("sacrebleu")
        # Orders of n-grams that a sentence is too short for do not count.
        self.metric = sacrebleu.CHRF() if name == CHRF else sacrebleu.BLEU(effective_order=True)
        self.statistics = self._chrf_statistics if name == CHRF else self._bleu_statistics

    def expected(self, texts: Sequence[str]) -> list[float]:
        """The mean utility of each of several texts against the others, 0 to 100.

        Of a text that is alone it is 100.
        """
        if len(texts) < 2:
            return [100.0] * len(texts)
        counts = Counter(texts)
        means = {}
        for text, row in zip(counts, self.matrix(list(counts)), strict=True):
            against = zip(counts, row, strict=True)
            times = ((value, counts[other] - (other == text)) for other, value in against)
            total = math.fsum(value for value, count in times for _ in range(count))
            means[text] = total / (len(texts) - 1)
        return [means[text] for text in texts]

    def matrix(self, texts: Sequence[str]) -> list[list[float]]:
        """The utility of each text, where each of them is the reference: a row for each."""
        return [
            [self.metric._compute_score_from_stats(counts).score for counts in row]
            for row in self.statistics(texts)
        ]

    def _chrf_statistics(self, texts: Sequence[str]) -> Statistics:
        """For each order, the n-grams of the text, of the reference, and the matching ones."""
        from sacrebleu.metrics.helpers import extract_all_char_ngrams

        ngrams = [extract_all_char_ngrams(text, self.metric.char_order) for text in texts]
        found: Statistics = [[[] for _ in texts] for _ in texts]
        for of_order in zip(*ngrams, strict=True):
            totals = [counts.total() for counts in of_order]
            for hypothesis, row in enumerate(matching(of_order)):
                for reference, num_matching in enumerate(row):
                    counts = [totals[hypothesis], totals[reference], num_matching]
                    found[hypothesis][reference] += counts
        return found

    def _bleu_statistics(self, texts: Sequence[str]) -> Statistics:
        """The lengths of text and reference; for each order matching n-grams; then all."""
        from sacrebleu.metrics.helpers import extract_all_word_ngrams

        orders = range(1, self.metric.max_ngram_order + 1)
        tokenized = [self.metric.tokenizer(text.rstrip()) for text in texts]
        lengths = [len(text.split()) for text in tokenized]
        by_order = [
            [extract_all_word_ngrams(text, order, order)[0] for text in tokenized]
            for order in orders
        ]
        totals = [[counts.total() for counts in of_text] for of_text in zip(*by_order, strict=True)]
        matches = [matching(of_order) for of_order in by_order]
        return [
            [
                [lengths[i], lengths[j], *(of_order[i][j] for of_order in matches), *totals[i]]
                for j in range(len(texts))
            ]
            for i in range(len(texts))
        ]


def matching(ngrams: Sequence["Counter[Any]"]) -> list[list[int]]:
    """How many n-grams each two texts have in common, the n-th of a kind matching the n-th."""
    import numpy as np

    columns: dict[tuple[Any, int], int] = {}
    rows, places = [], []
    for row, counts in enumerate(ngrams):
        for ngram, count in counts.items():
            for nth in range(count):
                rows.append(row)
                places.append(columns.setdefault((ngram, nth), len(columns)))
    has = np.zeros((len(ngrams), len(columns)), dtype=np.float32)  # exact up to 2^24 n-grams
    has[rows, places] = 1
    return (has @ has.T).astype(int).tolist()


__all__ = ["BLEU", "CHRF", "METRICS", "Utility"]
