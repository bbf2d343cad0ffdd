# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Stages of a training, each with a mixture of the corpora of its own."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .mappings import nearest, read_mapping


@dataclass(frozen=True)
class Stage:
    """Some updates in a row.

    Attributes:
        updates: how many.
        weights: of the corpora that it takes pairs from, by their names.
    """

    updates: int
    weights: Mapping[str, float]

    def shares(self, names: Sequence[str]) -> list[float]:
        """The weights of corpora, in the order of `names`, so that they sum to 1."""
        total = sum(self.weights.values())
        return [self.weights.get(name, 0) / total for name in names]

    def __str__(self) -> str:
        return ", ".join(f"{name} {weight:g}" for name, weight in self.weights.items())


def read_stages(texts: Sequence[str]) -> list[Stage]:
    """The stages of the field `stages`.

    Raises:
        ValueError: naming the stage and what it lacks.
    """
    return [_read(text, f"stages, {number}.") for number, text in enumerate(texts, start=1)]


def _read(text: str, where: str) -> Stage:
    chosen = read_mapping(text, where, ("updates", "weights"))
    updates, weights = chosen.get("updates"), chosen.get("weights")
    if not isinstance(updates, int) or isinstance(updates, bool) or updates < 1:
        raise ValueError(f"{where} needs a number of updates above 0, got updates={updates!r}.")
    if not isinstance(weights, dict) or not weights:
        raise ValueError(
            f"{where} needs weights, a mapping of corpora to numbers, got weights={weights!r}."
        )
    for name, weight in weights.items():
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not 0 < weight < math.inf:
            raise ValueError(
                f"{where} the weight of {name} must be a number above 0, got {weight!r}; leave a "
                f"corpus out that the stage is not to take pairs from."
            )
    return Stage(updates, weights)


def check_stages(texts: Sequence[str], max_steps: int) -> None:
    """Refuse stages that do not make up the training.

    Raises:
        ValueError: naming the updates of the stages and `max_steps`.
    """
    updates = [stage.updates for stage in read_stages(texts)]
    if updates and sum(updates) != max_steps:
        raise ValueError(
            f"stages have {' + '.join(map(str, updates))} = {sum(updates)} updates, and max_steps="
            f"{max_steps}; set max_steps to {sum(updates)}."
        )


def mean_shares(stages: Sequence[Stage], names: Sequence[str]) -> list[float]:
    """Each corpus' share of the pairs of all stages together.

    Args:
        stages: of a training.
        names: of its corpora.

    Raises:
        ValueError: if a stage names a corpus that there is not, or no stage names one that there
            is.
    """
    for number, stage in enumerate(stages, start=1):
        for name in stage.weights:
            if name not in names:
                raise ValueError(
                    f"stages, {number}. there is no corpus '{name}'; {nearest(name, names)}"
                )
    total = sum(stage.updates for stage in stages)
    parts = [[stage.updates * share for share in stage.shares(names)] for stage in stages]
    means = [sum(of_corpus) / total for of_corpus in zip(*parts, strict=True)]
    for name, mean in zip(names, means, strict=True):
        if not mean:
            raise ValueError(f"stages: none takes pairs from the corpus '{name}'; leave it out.")
    return means
