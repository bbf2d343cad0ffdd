# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Text to ids that end in `</s>`, and how many there are."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from datasets import Dataset
from datasets.fingerprint import Hasher
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from vaswani_hf.tokenization_vaswani import join_pieces

from ..settings.fields import Arguments, raised_by
from .files import told_by_cause


_ROWS = 10000  # of Arrow tables, at a time


def encode_pairs(
    pairs: Dataset, tokenizer: PreTrainedTokenizerFast, segmented: bool = False
) -> Dataset:
    """Add `input_ids` and `labels`, both ending in `</s>`, to columns `source` and `target`.

    What is read from files or the Hub is encoded once: a later run with the same text and the same
    tokenizer finds it in the cache of `datasets`.

    Args:
        pairs: columns `source` and `target`; `None` where a text could not be decoded.
        tokenizer: makes the ids.
        segmented: the text is cut by subword-nmt; its words are joined again, so that translations
            are compared with words.
    """

    def encode(rows: dict[str, list[str | None]]) -> dict[str, list[Any]]:
        encoded: dict[str, list[Any]] = encode_texts(rows["source"], rows["target"], tokenizer)
        if segmented:
            encoded |= {side: [text and join_pieces(text) for text in rows[side]] for side in rows}
        return encoded

    # Of our own: the library's would hash the tokenizer's whole object, whose inner state changes
    # with its use.
    made_of = (pairs._fingerprint, _identity(tokenizer), segmented, _ENCODING)
    fingerprint = Hasher.hash(made_of)
    with told_by_cause():
        return pairs.map(encode, batched=True, desc="Encoding", new_fingerprint=fingerprint)


_ENCODING = 1  # to be raised when `encode_pairs` gives other columns


def encode_texts(
    sources: Sequence[str | None],
    targets: Sequence[str | None],
    tokenizer: PreTrainedTokenizerFast,
) -> dict[str, list[list[int]]]:
    """`input_ids` and `labels` of pairs; `None` is encoded as an empty text."""
    lefts, rights = ([text or "" for text in side] for side in (sources, targets))
    if type(tokenizer) is not PreTrainedTokenizerFast:  # its targets may be encoded differently
        options = {"return_attention_mask": False, "verbose": False}
        return {
            "input_ids": tokenizer(lefts, **options)["input_ids"],
            "labels": tokenizer(text_target=rights, **options)["input_ids"],
        }
    # What the call above comes to, without the offsets and masks that it works out beside the ids.
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = tokenizer.split_special_tokens
    encoded = backend.encode_batch_fast(lefts + rights)
    ids = [encoding.ids for encoding in encoded]
    return {"input_ids": ids[: len(lefts)], "labels": ids[len(lefts) :]}


def _identity(tokenizer: PreTrainedTokenizerFast) -> tuple[str, ...]:
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    content.pop("truncation", None)  # set anew by every call
    content.pop("padding", None)
    return (
        type(tokenizer).__qualname__,
        json.dumps(content, sort_keys=True),
        str(tokenizer.split_special_tokens),
        str(getattr(tokenizer, "src_lang", None)),
        str(getattr(tokenizer, "tgt_lang", None)),
    )


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
) -> None:
    """Refuse pairs that are longer than a training batch holds, or than positions were learned.

    Args:
        arguments: of the run.
        model: the model to train.
        pairs: encoded pairs by split; where training text is a stream, all but that.

    Raises:
        ValueError: naming the split, the pair's place in it from 0, its length and what would do.
    """
    data, training, config = arguments.data, arguments.training, model.config
    parts = training.world_size * training.gradient_accumulation_steps
    positions = math.inf
    if config.position_encoding == "learned":  # sinusoids do not end
        positions = config.max_position_embeddings
    if data.streaming and data.max_length > positions:
        raise ValueError(
            f"max_length={data.max_length} but max_position_embeddings={positions} are learned; "
            f"raise that or lower max_length."
        )
    for split in pairs:
        if split == "train" and data.streaming:
            continue
        sides = zip(("source", "target"), side_lengths(pairs[split]), strict=True)
        for side, lengths in sides:
            pair, longest = int(lengths.argmax()), int(lengths.max())
            where = f"Pair {pair} of split {split} has {longest} {side} tokens but"
            budget = getattr(training, f"{side}_tokens") // parts
            if split == "train" and longest > budget:
                way_out = f"raise {raised_by(training, f'{side}_tokens')} or lower max_length"
                raise ValueError(f"{where} a batch holds {budget}; {way_out}.")
            if longest > positions:
                way_out = "lower max_length" if split == "train" else "leave the pair out"
                raise ValueError(
                    f"{where} max_position_embeddings={positions} are learned; raise that or "
                    f"{way_out}."
                )


def arrow_tables(pairs: Dataset, columns: list[str]) -> Iterator[pa.Table]:
    """The rows as Arrow has them, a bounded number at a time: no row becomes Python objects."""
    yield from pairs.select_columns(columns).with_format("arrow").iter(batch_size=_ROWS)


def lengths_of(table: pa.Table, column: str) -> np.ndarray:
    """How many items the lists of a column have, `(len(table),)`."""
    return pc.list_value_length(table[column]).to_numpy()
