# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Is one system better than another, or is it chance? By sacrebleu's paired tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..extras import require
from .metrics import Metric


@dataclass(frozen=True)
class SystemScore:
    """A score of a system, beside that of the baseline.

    Attributes:
        system: its name.
        score: 0 to 100, for TER sometimes more.
        mean: of the scores of bootstrap resamples.
        ci: half the width of the interval that holds 95 % of those scores.
        p_bootstrap: how likely so large a difference from the baseline is by chance, by paired
            bootstrap resampling (Koehn 2004); `None` for the baseline.
        p_randomization: the same by paired approximate randomization (Riezler and Maxwell 2005).
    """

    system: str
    score: float
    mean: float
    ci: float
    p_bootstrap: float | None
    p_randomization: float | None


@dataclass(frozen=True)
class Comparison:
    """Systems by one metric.

    Attributes:
        name: sacrebleu's name of the metric, such as `chrF2++`.
        bootstrap_signature: sacrebleu's, of the scores and of the first test.
        randomization_signature: of the second test.
        systems: the baseline, then the others.
    """

    name: str
    bootstrap_signature: str
    randomization_signature: str
    systems: tuple[SystemScore, ...]


def compare(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Iterable[Metric],
) -> list[Comparison]:
    """Compare systems with the first of them, the baseline, as `sacrebleu` does.

    Args:
        systems: hypotheses by the name of their system, two or more.
        references: one or several for each sentence: a list of all first ones, and so on.
        metrics: one comparison each.

    Raises:
        ValueError: if there is one system alone, or the numbers of sentences differ.
    """
    if len(systems) < 2:
        raise ValueError(f"A comparison needs two systems or more, got {len(systems)}.")
    lengths = {len(text) for text in (*systems.values(), *references)}
    if not references or len(lengths) > 1 or 0 in lengths:
        raise ValueError("Systems and references must have equally many sentences, and some.")
    return [_compare(systems, references, metric) for metric in metrics]


def _compare(
    systems: Mapping[str, Sequence[str]], references: Sequence[Sequence[str]], metric: Metric
) -> Comparison:
    paired_test = require("sacrebleu.significance").PairedTest
    named = [(name, metric.prepare(texts)) for name, texts in systems.items()]
    measure = metric.of_sacrebleu([metric.prepare(stream) for stream in references])
    signatures, results = {}, {}
    for kind in ("bs", "ar"):
        test = paired_test(named, {metric.name: measure}, references=None, test_type=kind)
        found, scores = test()
        ((name, signature),) = found.items()
        signatures[kind], results[kind] = metric.signature(signature), scores[name]
    return Comparison(
        name,
        signatures["bs"],
        signatures["ar"],
        tuple(
            SystemScore(system, one.score, float(one.mean), float(one.ci), one.p_value, two.p_value)
            for system, one, two in zip(systems, results["bs"], results["ar"], strict=True)
        ),
    )
