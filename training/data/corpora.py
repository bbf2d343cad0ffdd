# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Several corpora in one training set, each with its weight."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from vaswani_hf.tokenization_vaswani import check_source_tag

from ..settings.fields import NOISE, DataArguments
from ..settings.mappings import read_mapping
from ..settings.stages import mean_shares, read_stages
from .noise import Noise


# Where the text of a corpus is; a mapping of `corpora` sets these, and what else `_plan` knows.
_FILE_FIELDS = ("train_source", "train_target", "train_file", "train_trees")
TEXT_FIELDS = ("dataset", "dataset_config", *_FILE_FIELDS)
_LIST_FIELDS = (*_FILE_FIELDS, "guided_alignment")
READING_FIELDS = ("train_split", "source_column", "target_column")  # as the recipe says unless set


@dataclass(frozen=True)
class CorpusPlan:
    """One corpus of the training set: where it is, and its share of the pairs.

    A `source_tag` is a piece of its own that stands before each source.
    """

    name: str
    weight: float | None
    arguments: DataArguments
    source_tag: str | None = None


def plan_corpora(arguments: DataArguments) -> list[CorpusPlan]:
    """What the training set is made of: the mappings of `corpora`, or the one that is named.

    Raises:
        ValueError: if a mapping has an unknown key, no name or another's, a weight that is not
            above 0, or a tag that is not named as one; if only some have weights; if training text
            is also named beside `corpora`; or if stages name other corpora, or corpora have weights
            beside them.
    """
    if not arguments.corpora:
        Noise.of(arguments)  # which checks it
        _check_links(arguments)
        return [CorpusPlan("train", None, arguments)]
    for name in _LIST_FIELDS:
        if getattr(arguments, name):
            raise ValueError(
                f"corpora and {name} both name training text; put {name} into a mapping of corpora."
            )
    plans = [_plan(text, number, arguments) for number, text in enumerate(arguments.corpora, 1)]
    names = [plan.name for plan in plans]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"corpora: two are named '{name}'; give each a name of its own.")
    if arguments.stages:
        return _plans_of_stages(plans, arguments)
    without = [plan.name for plan in plans if plan.weight is None]
    if without and len(without) < len(plans):
        raise ValueError(
            f"corpora: {', '.join(without)} without a weight among others that have one; give all "
            f"a weight, or none to take every pair once."
        )
    if without and arguments.streaming and len(plans) > 1:
        raise ValueError(
            f"corpora: {', '.join(without)} without a weight; sizes are unknown while streaming, "
            f"so give each its weight, such as its number of pairs."
        )
    for plan in plans:
        _check_links(plan.arguments, f"corpora, {plan.name}: ")
    return plans


def _plans_of_stages(plans: list[CorpusPlan], arguments: DataArguments) -> list[CorpusPlan]:
    """The corpora with their weights in all stages together."""
    for plan in plans:
        if plan.weight is not None:
            raise ValueError(
                f"corpora, {plan.name}: weight={plan.weight:g} beside stages, which have weights "
                f"of their own; leave it out."
            )
    weights = mean_shares(read_stages(arguments.stages), [plan.name for plan in plans])
    return [
        dataclasses.replace(plan, weight=round(weight, 6))
        for plan, weight in zip(plans, weights, strict=True)
    ]


def _plan(text: str, number: int, arguments: DataArguments) -> CorpusPlan:
    where = f"corpora, {number}."
    own = ("name", "weight", "source_tag", "guided_alignment")
    known = (*own, *TEXT_FIELDS, *READING_FIELDS, *NOISE)
    chosen = read_mapping(text, where, known)
    name, weight, tag = (chosen.pop(key, None) for key in ("name", "weight", "source_tag"))
    if not isinstance(name, str) or not name:
        raise ValueError(f"{where} needs a name, got name={name!r}.")
    if weight is not None and not (_is_number(weight) and 0 < weight < math.inf):
        raise ValueError(f"corpora, {name}: weight must be a number above 0, got weight={weight}.")
    if tag is not None:
        try:
            check_source_tag(tag)
        except ValueError as error:
            raise ValueError(f"corpora, {name}: {error}") from None
    if not any(chosen.get(key) for key in TEXT_FIELDS):
        raise ValueError(f"corpora, {name}: names no text; set one of {', '.join(TEXT_FIELDS)}.")
    for key in _LIST_FIELDS:
        chosen[key] = [chosen[key]] if isinstance(chosen.get(key), str) else chosen.get(key) or []
    for key in NOISE:
        if not _is_number(chosen.get(key, 0)):
            raise ValueError(f"corpora, {name}: {key} must be a number, got {chosen[key]!r}.")
    nowhere: dict[str, Any] = {"dataset": None, "dataset_config": None, "corpora": []}
    plan = CorpusPlan(name, weight, dataclasses.replace(arguments, **{**nowhere, **chosen}), tag)
    Noise.of(plan.arguments)  # which checks it
    return plan


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_links(arguments: DataArguments, where: str = "") -> None:
    """Refuse files of links without a file of sources for each."""
    files = arguments.guided_alignment
    if files and (len(files) != len(arguments.train_source) or arguments.train_file):
        raise ValueError(
            f"{where}guided_alignment names {len(files)} files and train_source "
            f"{len(arguments.train_source)}; give one for each of train_source, and pairs from no "
            f"other place."
        )


def shares(plans: list[CorpusPlan]) -> list[float] | None:
    """The weights, so that they sum to 1; `None` where there are none."""
    weights = [plan.weight for plan in plans if plan.weight is not None]
    return [weight / sum(weights) for weight in weights] or None
