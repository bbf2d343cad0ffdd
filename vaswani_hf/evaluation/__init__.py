# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How good are translations? By sacrebleu's metrics, with their confidence."""

from .alignments import AlignmentScore
from .comparison import Comparison, SystemScore, compare
from .metrics import Metric, Score
from .resampling import resamples
from .seeds import Difference, SeedScore, difference, seed_deviation
from .sources import LengthBin, count_copied, count_empty, count_tokens, scores_by_length


__all__ = [
    "AlignmentScore",
    "Comparison",
    "Difference",
    "LengthBin",
    "Metric",
    "Score",
    "SeedScore",
    "SystemScore",
    "compare",
    "count_copied",
    "count_empty",
    "count_tokens",
    "difference",
    "resamples",
    "scores_by_length",
    "seed_deviation",
]
