# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The text of a run, by split: from files, from datasets or made up."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from datasets import Dataset, IterableDataset, concatenate_datasets

from ..settings.fields import DataArguments
from .cleaning import KEPT, CheckedText, CleaningRules, check_text, count_by_corpus
from .corpora import CorpusPlan, plan_corpora, shares
from .files import files_of, pair_of, pairs_of_files
from .hub_datasets import pairs_of_dataset, rows_of_dataset
from .trees import pairs_of_trees, tree_files_of


SPLITS = ("train", "validation", "test", "general")
SAMPLE_PAIRS = 1_000_000  # teach the vocabulary when streaming, unless said otherwise
NO_TRAINING_DATA = (
    "There is no training data: give --dataset, or --train_source and --train_target, or "
    "--train_file, or --train_trees, or --corpora."
)


@dataclass
class Corpus:
    """Pairs of text by split, columns `source` and `target`, and how many were read and dropped.

    A text that could not be decoded is `None`. When streaming there is no split `train`.

    Args:
        splits: the pairs; those of several training corpora one after the other.
        plans: the corpora that `train` is made of.
        sizes: how many pairs each of them has there; empty when streaming.
        counts: what is reported.
        sample_pairs: how many pairs teach the vocabulary; `None` for all.
        rules: which training pairs are wanted; `None` for all.
        checked: what the text of `train` tells of its pairs; `None` if it has not been looked at.
        loaded: encoded training pairs that are wanted, by their corpus, where they are to be drawn
            anew in each epoch; else `None`.
    """

    splits: dict[str, Dataset]
    plans: list[CorpusPlan] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)
    sample_pairs: int | None = None
    rules: CleaningRules | None = None
    checked: CheckedText | None = None
    loaded: dict[str, Dataset] | None = None

    @property
    def source_tags(self) -> list[str]:
        """The pieces that stand before sources of some corpora, each once."""
        return list(dict.fromkeys(plan.source_tag for plan in self.plans if plan.source_tag))

    def tagged_parts(self) -> list[tuple[Dataset, str | None]]:
        """The split `train` in parts, each with the tag of its sources."""
        train, parts, first = self.splits["train"], [], 0
        if not self.source_tags:
            return [(train, None)]
        for plan, size in zip(self.plans, self.sizes, strict=True):
            parts.append((train.select(range(first, first + size)), plan.source_tag))
            first += size
        return parts

    def sentences(self, sides: Sequence[str] = ("source", "target")) -> Iterator[str]:
        """The texts that the vocabulary is learned from, by default both sides of usable pairs.

        Pairs that turn out too long once they are encoded are among them.
        """
        if "train" not in self.splits:
            chosen = [("source", "target").index(side) for side in sides]
            return (pair[place] for pair in self._streamed_sample() for place in chosen)
        train = self.splits["train"]
        places = np.arange(len(train))
        if self.checked is not None:
            places = np.flatnonzero(self.checked.reasons() == KEPT)
        if self.sample_pairs is not None and self.sample_pairs < len(places):
            # Evenly spread: corpora stand one after the other.
            places = places[np.arange(self.sample_pairs) * len(places) // self.sample_pairs]
        if len(places) < len(train):
            train = train.select(places)
        return itertools.chain.from_iterable(train[side] for side in sides)

    def _streamed_sample(self) -> Iterator[tuple[Any, Any]]:
        """The first usable pairs of each corpus, as many as its share."""
        count = SAMPLE_PAIRS if self.sample_pairs is None else self.sample_pairs
        for plan, share in zip(self.plans, shares(self.plans) or [1.0], strict=True):
            rows = stream_pairs(plan.arguments)
            pairs = (read_row(row, plan.arguments) for row in rows)
            usable = (pair for pair in pairs if self._is_usable(pair))
            yield from itertools.islice(usable, max(1, round(share * count)))

    def _is_usable(self, pair: tuple[str | None, str | None]) -> bool:
        return self.rules is None or self.rules.reason_by_text(*pair) == KEPT


def load_corpus(arguments: DataArguments, seed: int = 0) -> Corpus:
    """Read the splits that the arguments name; a split without files or data is left out.

    Args:
        arguments: where to read. With `streaming`, training text is only looked for.
        seed: of the made-up pairs of `dataset: demo`.

    Raises:
        ValueError: if there is no training data, none of it is usable, the sides of a pair of files
            differ in length, or a line cannot be read; file and line are named.
        FileNotFoundError: if a file is missing.
    """
    plans = plan_corpora(arguments)
    for plan in plans:
        if bool(plan.arguments.train_trees) != bool(plans[0].arguments.train_trees):
            raise ValueError(
                f"corpora: of {plans[0].name} and {plan.name} one has trees and one other text; "
                f"name train_trees for all of them or for none."
            )
    splits: dict[str, Dataset] = {}
    for split in SPLITS[1:]:
        pairs = _load_split(arguments, split, seed)
        if pairs is not None:
            splits[split] = pairs
    rules, sample_pairs = CleaningRules.of(arguments), arguments.tokenizer_sample_pairs
    corpus = Corpus(splits, plans, sample_pairs=sample_pairs, rules=rules)
    if arguments.streaming:
        for plan in plans:
            stream_pairs(plan.arguments)
        return corpus
    parts = [_load_training_text(plan.arguments, seed) for plan in plans]
    splits["train"] = train = concatenate_datasets(parts) if len(parts) > 1 else parts[0]
    corpus.sizes, corpus.counts = [len(part) for part in parts], {"pairs_read": len(train)}
    corpus.checked = check_text(train, rules, arguments.segmented)
    count_by_corpus(plans, corpus.sizes, corpus.checked.reasons(), rules)
    return corpus


def _load_training_text(arguments: DataArguments, seed: int) -> Dataset:
    pairs = _load_split(arguments, "train", seed)
    if pairs is None:
        raise ValueError(NO_TRAINING_DATA)
    return pairs


def _load_split(arguments: DataArguments, split: str, seed: int) -> Dataset | None:
    pairs = _read_split(arguments, split, seed)
    if pairs is None or not arguments.swap_sides:
        return pairs
    return pairs.rename_columns({"source": "target", "target": "source"})


def _read_split(arguments: DataArguments, split: str, seed: int) -> Dataset | None:
    trees = tree_files_of(arguments, split)
    if trees is not None:
        has_links = arguments.guided_alignment_of_trees and split == "train"
        return pairs_of_trees(
            trees,
            split,
            has_links=has_links,
            **arguments.form_of_trees,
        )
    files = files_of(arguments, split)
    if files is not None:
        return pairs_of_files(files, arguments, split)
    if not arguments.dataset or split == "general":
        return None
    return (
        _made_up(split, seed) if arguments.dataset == "demo" else pairs_of_dataset(arguments, split)
    )


def _made_up(split: str, seed: int) -> Dataset:
    sources, targets = zip(*_demo_splits(seed)[split], strict=True)
    return Dataset.from_dict({"source": list(sources), "target": list(targets)})


@lru_cache(maxsize=1)  # made for all splits at once
def _demo_splits(seed: int) -> dict[str, list[tuple[str, str]]]:
    from .demo_text import demo_pairs

    return demo_pairs(seed)


def stream_pairs(arguments: DataArguments) -> IterableDataset:
    """The training rows of one corpus, read as they are asked for; `read_row` makes pairs of them.

    Raises:
        ValueError: if there is no training data, or it cannot be streamed.
        FileNotFoundError: if a file is missing.
    """
    trees = tree_files_of(arguments, "train")
    if trees is not None:
        return pairs_of_trees(
            trees,
            "train",
            streaming=True,
            **arguments.form_of_trees,
        )
    files = files_of(arguments, "train")
    if files is not None:
        return pairs_of_files(files, arguments, "train", streaming=True)
    if not arguments.dataset:
        raise ValueError(NO_TRAINING_DATA)
    if arguments.dataset == "demo":
        raise ValueError("dataset=demo is made in memory; leave out streaming.")
    return rows_of_dataset(arguments)


def read_row(row: dict[str, Any], arguments: DataArguments) -> tuple[str | None, str | None]:
    """Source and target of a row of `stream_pairs`; `None` for what could not be decoded.

    Raises:
        ValueError: if the columns that the arguments name are not there.
    """
    pair = _pair_of_row(row, arguments)
    return pair[::-1] if arguments.swap_sides else pair


def _pair_of_row(row: dict[str, Any], arguments: DataArguments) -> tuple[str | None, str | None]:
    if arguments.train_trees or files_of(arguments, "train") is not None:
        return row["source"], row["target"]
    keys = (arguments.source_column, arguments.target_column)
    return pair_of(row, keys, f"{arguments.dataset}, split {arguments.train_split}")
