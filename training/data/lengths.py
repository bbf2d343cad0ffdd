# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How many tokens encoded pairs have, and how many they may have."""

import math
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from datasets import Dataset
from transformers import PreTrainedModel

from ..settings.budget import SIDES, TokenBudget
from ..settings.fields import Arguments


_ROWS = 10000  # of Arrow tables, at a time


def arrow_tables(pairs: Dataset, columns: list[str]) -> Iterator[pa.Table]:
    """The rows as Arrow has them, a bounded number at a time: no row becomes Python objects."""
    yield from pairs.select_columns(columns).with_format("arrow").iter(batch_size=_ROWS)


def lengths_of(table: pa.Table, column: str) -> np.ndarray:
    """How many items the lists of a column have, `(len(table),)`."""
    return pc.list_value_length(table[column]).to_numpy()


def side_lengths(pairs: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of each source and of each target, `(len(pairs),)` each."""
    sources, targets = (np.empty(len(pairs), dtype=np.int32) for _ in range(2))
    first = 0
    for table in arrow_tables(pairs, ["input_ids", "labels"]):
        rows = slice(first, first + len(table))
        sources[rows], targets[rows] = lengths_of(table, "input_ids"), lengths_of(table, "labels")
        first = rows.stop
    return sources, targets


def check_lengths(
    arguments: Arguments, model: PreTrainedModel, pairs: Mapping[str, Dataset]
) -> int:
    """Refuse pairs that are longer than a training batch holds, or than positions were learned.

    Args:
        arguments: of the run.
        model: the model to train.
        pairs: encoded pairs by split; where training text is a stream, all but that.

    Returns:
        The tokens of the longest source that is trained on; of a stream, the most it may have.

    Raises:
        ValueError: naming the split, the pair's place in it from 0, its length and what would do.
    """
    data, config = arguments.data, model.config
    trained_length = data.max_length
    positions = math.inf
    if config.position_encoding == "learned":  # sinusoids do not end
        positions = config.max_position_embeddings
    if data.streamed_by and data.max_length > positions:
        raise ValueError(
            f"max_length={data.max_length} but max_position_embeddings={positions} are learned; "
            f"raise that or lower max_length."
        )
    for split in pairs:
        lengths = side_lengths(pairs[split])
        if split == "train":
            TokenBudget.of(arguments.training).check_lengths(*lengths, of_split=" of split train")
            trained_length = int(lengths[0].max())
        for side, of_side in zip(SIDES, lengths, strict=True):
            pair, longest = int(of_side.argmax()), int(of_side.max())
            if longest > positions:
                way_out = "lower max_length" if split == "train" else "leave the pair out"
                raise ValueError(
                    f"Pair {pair} of split {split} has {longest} {side} tokens but "
                    f"max_position_embeddings={positions} are learned; raise that or {way_out}."
                )
    return trained_length
