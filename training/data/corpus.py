# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The text of a run, by split: from files, from the Hub or made up."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, IterableDataset, concatenate_datasets, load_dataset
from datasets.config import HF_DATASETS_CACHE
from datasets.exceptions import DatasetsError
from huggingface_hub import HfApi
from huggingface_hub.constants import HF_HUB_OFFLINE
from huggingface_hub.utils import HFValidationError, validate_repo_id

from vaswani_hf.hub.errors import as_hub_error

from ..settings.fields import DataArguments
from .corpora import CorpusPlan, plan_corpora, shares
from .files import (
    TEXTS,
    file_rows,
    files_of,
    how_to_read,
    pair_of,
    require_files,
    require_lines,
    told_by_cause,
)


SPLITS = ("train", "validation", "test")
SAMPLE_PAIRS = 1_000_000  # teach the vocabulary when streaming, unless said otherwise
_TIMEOUT_SECONDS = 10.0  # for the Hub to say whether it has a dataset


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
    """

    splits: dict[str, Dataset]
    plans: list[CorpusPlan] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)
    sample_pairs: int | None = None

    def sentences(self) -> Iterator[str]:
        """The texts that the vocabulary is learned from, sources and targets."""
        if "train" in self.splits:
            train = self.splits["train"]
            if self.sample_pairs is not None and self.sample_pairs < len(train):
                # Evenly spread: corpora stand one after the other.
                places = np.arange(self.sample_pairs) * len(train) // self.sample_pairs
                train = train.select(places)
            texts = itertools.chain(train["source"], train["target"])
        else:
            texts = itertools.chain.from_iterable(self._first_pairs())
        return (text for text in texts if text is not None)

    def _first_pairs(self) -> Iterator[tuple[str | None, str | None]]:
        count = SAMPLE_PAIRS if self.sample_pairs is None else self.sample_pairs
        for plan, share in zip(self.plans, shares(self.plans) or [1.0], strict=True):
            rows = itertools.islice(stream_pairs(plan.arguments), max(1, round(share * count)))
            yield from (read_row(row, plan.arguments) for row in rows)


def load_corpus(arguments: DataArguments, seed: int = 0) -> Corpus:
    """Read the splits that the arguments name; a split without files or data is left out.

    Args:
        arguments: where to read. With `streaming`, training text is only looked for.
        seed: of the made-up pairs of `dataset: demo`.

    Raises:
        ValueError: if there is no training data, the sides of a pair of files differ in length, or
            a line cannot be read; file and line are named.
        FileNotFoundError: if a file is missing.
    """
    plans = plan_corpora(arguments)
    splits, sizes = {}, []
    for split in SPLITS[1:]:
        pairs = _load_split(arguments, split, seed)
        if pairs is not None:
            splits[split] = pairs
    for plan in plans:
        if arguments.streaming:
            stream_pairs(plan.arguments)
            continue
        pairs = _load_split(plan.arguments, "train", seed)
        if pairs is None:
            raise ValueError(NO_TRAINING_DATA)
        sizes.append(len(pairs))
        splits["train"] = (
            concatenate_datasets([splits["train"], pairs]) if "train" in splits else pairs
        )
    counts = {} if arguments.streaming else {"pairs_read": sum(sizes)}
    return Corpus(splits, plans, sizes, counts, arguments.tokenizer_sample_pairs)


NO_TRAINING_DATA = (
    "There is no training data: give --dataset, or --train_source and --train_target, or "
    "--train_file, or --corpora."
)


def stream_pairs(arguments: DataArguments) -> IterableDataset:
    """The training rows of one corpus, read as they are asked for; `read_row` makes pairs of them.

    Raises:
        ValueError: if there is no training data, or it cannot be streamed.
        FileNotFoundError: if a file is missing.
    """
    files = files_of(arguments, "train")
    if files is not None:
        require_files(files)
        how = how_to_read(files, arguments, arguments.drop_undecodable)
        require_lines(how, "train")
        return IterableDataset.from_generator(file_rows, gen_kwargs=how, features=TEXTS)
    if not arguments.dataset:
        raise ValueError(NO_TRAINING_DATA)
    if arguments.dataset == "demo":
        raise ValueError("dataset=demo is made in memory; leave out streaming.")
    rows = _load_dataset(arguments, arguments.train_split, streaming=True)
    if rows is None:
        raise ValueError(
            f"{arguments.dataset} has no split {arguments.train_split}; set train_split."
        )
    return rows


def read_row(row: dict[str, Any], arguments: DataArguments) -> tuple[str | None, str | None]:
    """Source and target of a row of `stream_pairs`; `None` for what could not be decoded.

    Raises:
        ValueError: if the columns that the arguments name are not there.
    """
    if files_of(arguments, "train") is not None:
        return row["source"], row["target"]
    keys = (arguments.source_column, arguments.target_column)
    return pair_of(row, keys, f"{arguments.dataset}, split {arguments.train_split}")


def _load_split(arguments: DataArguments, split: str, seed: int) -> Dataset | None:
    files = files_of(arguments, split)
    if files is None:
        return _load_named(arguments, split, seed) if arguments.dataset else None
    require_files(files)
    # A test set is not to lose sentences.
    how = how_to_read(files, arguments, arguments.drop_undecodable and split == "train")
    require_lines(how, split)
    with told_by_cause():
        return Dataset.from_generator(file_rows, gen_kwargs=how, features=TEXTS)


def _load_named(arguments: DataArguments, split: str, seed: int) -> Dataset | None:
    if arguments.dataset == "demo":
        from .demo_text import demo_pairs

        pairs = demo_pairs(seed)[split]
        return Dataset.from_dict(
            {"source": [pair[0] for pair in pairs], "target": [pair[1] for pair in pairs]}
        )
    name = getattr(arguments, f"{split}_split")
    loaded = _load_dataset(arguments, split)
    if loaded is None:
        return None
    keys, where = (arguments.source_column, arguments.target_column), arguments.dataset

    # Only what the texts depend on: what `map` keeps is found again by a hash of this function.
    def texts(row: dict[str, Any]) -> dict[str, str]:
        pair = pair_of(row, keys, f"{where}, split {name}")
        return {"source": pair[0], "target": pair[1]}

    with told_by_cause():
        return loaded.map(texts, remove_columns=loaded.column_names)


def _load_dataset(arguments: DataArguments, split: str, streaming: bool = False) -> Any:
    """A split of a dataset of the Hub or of a folder; `None` without one to validate or test on.

    Raises:
        ValueError: if it cannot be read, or has no split to train on.
        HubError: if it cannot be fetched.
    """
    name, split_name = str(arguments.dataset), getattr(arguments, f"{split}_split")
    _require_dataset(name)
    try:
        with told_by_cause():
            return load_dataset(
                name, arguments.dataset_config, split=split_name, streaming=streaming
            )
    except (ValueError, DatasetsError) as error:
        if split != "train" and isinstance(error, ValueError) and "split" in str(error):
            return None
        cause = error.__cause__ or error
        reason = " ".join(str(cause).split())
        raise ValueError(f"dataset={name}, split {split_name}: {reason}") from error


def _require_dataset(name: str) -> None:
    """Ask the Hub for a dataset once, quickly; `datasets` would ask for half a minute."""
    if Path(name).exists():
        return
    try:
        validate_repo_id(name)
    except HFValidationError:
        raise ValueError(
            f"dataset={name} is no folder, and no id on the Hub looks like it."
        ) from None
    if HF_HUB_OFFLINE or Path(HF_DATASETS_CACHE, name.replace("/", "___")).is_dir():
        return
    with as_hub_error(f"fetch the dataset {name}", name):
        HfApi().dataset_info(name, timeout=_TIMEOUT_SECONDS)
