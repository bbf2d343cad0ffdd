# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Is one way of training better than another, or is it the seeds, or the sentences?"""

import bisect
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


_WIDTH = 1.96  # standard errors on either side that hold 95 % of a normal distribution
# The same of Student's t, by degrees of freedom; between two of these the fewer count.
_WIDTHS = {
    **{1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262},
    **{10: 2.228, 12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042, 60: 2.0, 120: 1.98},
}


@dataclass(frozen=True)
class SeedScore:
    """What a test set says of a model of one seed.

    Attributes:
        score: on all sentences.
        resampled: on resamples of them, which must be the same for every model.
    """

    score: float
    resampled: Sequence[float]


@dataclass(frozen=True)
class Difference:
    """How much better one system scores than another, where each was trained with several seeds.

    Attributes:
        value: of the means over the seeds.
        ci: half the width of the 95 % interval for both errors together.
        error_of_sentences: standard error for the choice of test sentences, by paired bootstrap.
        error_of_seeds: standard error for the choice of seeds.
    """

    value: float
    ci: float
    error_of_sentences: float
    error_of_seeds: float


def seed_deviation(systems: Iterable[Sequence[float]]) -> tuple[float, int]:
    """How far apart the scores of one system's seeds are, if all systems are alike in that.

    Args:
        systems: the scores of each, a seed each; one of a single seed says nothing.

    Returns:
        The pooled standard deviation, and from how many degrees of freedom; 0 and 0 where no system
        has two seeds.
    """
    squares, degrees = 0.0, 0
    for scores in systems:
        mean = math.fsum(scores) / len(scores)
        squares += math.fsum((score - mean) ** 2 for score in scores)
        degrees += len(scores) - 1
    return (math.sqrt(squares / degrees), degrees) if degrees else (0.0, 0)


def difference(
    system: Sequence[SeedScore],
    baseline: Sequence[SeedScore],
    deviation: float,
    degrees: int | None = None,
) -> Difference:
    """Compare two systems over all their seeds.

    Args:
        system: a score for each seed.
        baseline: likewise, of the system that it is compared with.
        deviation: between the seeds of a system, as from `seed_deviation`.
        degrees: of freedom that it is from. Where they are few, the interval is as much wider as
            Student's t asks for; without them it is that of a normal distribution.

    Raises:
        ValueError: if one has no seed, or fewer than two resamples, or not as many as another.
    """
    counts = {len(each.resampled) for each in (*system, *baseline)}
    if not system or not baseline or len(counts) > 1 or min(counts) < 2:
        raise ValueError("Both systems need a seed or more, each scored on the same resamples.")
    (mean, drawn), (mean_before, drawn_before) = _means(system), _means(baseline)
    differences = [one - other for one, other in zip(drawn, drawn_before, strict=True)]
    error_of_sentences = statistics.stdev(differences)
    error_of_seeds = deviation * math.sqrt(1 / len(system) + 1 / len(baseline))
    width_of_seeds = _width(degrees) if degrees else _WIDTH
    ci = math.hypot(_WIDTH * error_of_sentences, width_of_seeds * error_of_seeds)
    return Difference(mean - mean_before, ci, error_of_sentences, error_of_seeds)


def _width(degrees: int) -> float:
    known = list(_WIDTHS)
    return _WIDTHS[known[bisect.bisect_right(known, degrees) - 1]]


def _means(seeds: Sequence[SeedScore]) -> tuple[float, list[float]]:
    """The means over the seeds: of the scores, and of each resample."""
    mean = math.fsum(each.score for each in seeds) / len(seeds)
    columns = zip(*(each.resampled for each in seeds), strict=True)
    return mean, [math.fsum(column) / len(seeds) for column in columns]
