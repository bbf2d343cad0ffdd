# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Pairs of a batch to padded tensors."""

import itertools
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import torch
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from vaswani_hf.loss_vaswani import IGNORED
from vaswani_hf.modeling_vaswani import shift_right

from ..settings.budget import TokenBudget
from .lengths import lengths_of
from .links import PIECE_LINKS


class ArrowPairs(torch.utils.data.Dataset):
    """Encoded pairs for a `DataLoader`, whose batches stay Arrow tables.

    A token never becomes a Python object, which is most of what loading would cost.

    Args:
        pairs: columns `input_ids`, `labels` and maybe `piece_links`, those of a teacher, and
            `index`; others are not put into batches.
    """

    def __init__(self, pairs: Dataset) -> None:
        self.pairs = pairs
        columns = [name for name in _BATCH_COLUMNS if name in pairs.column_names]
        self._rows = pairs.select_columns(columns).with_format("arrow")

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitems__(self, places: list[int]) -> pa.Table:
        """The pairs at these places, in their order."""
        return self._rows[places]


TEACHER_IDS, TEACHER_PROBS = "teacher_ids", "teacher_probs"  # top_k of each target piece in a row
_BATCH_COLUMNS = ("input_ids", "labels", PIECE_LINKS, TEACHER_IDS, TEACHER_PROBS, "index")


class PairCollator:
    """Pads pairs to a batch, on the right; a column `index` passes through as `(B,)`.

    Args:
        tokenizer: pads and ends a source.
        model: takes the batches; its ids are kept, the model is not.
        teacher_weight: the teacher's share of the target distribution, where there is one.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        model: PreTrainedModel,
        teacher_weight: float = 1.0,
    ) -> None:
        self.teacher_weight = teacher_weight
        self.pad_token_id = tokenizer.pad_token_id
        self.eos_token_id = tokenizer.eos_token_id
        self.shifted_ids = {
            "pad_token_id": model.config.pad_token_id,
            "decoder_start_token_id": model.config.decoder_start_token_id,
        }
        self.budget: TokenBudget | None = None  # of batches in few shapes

    def in_few_shapes(self, budget: TokenBudget) -> "PairCollator":
        """One that pads lengths to multiples, and batches by empty pairs to as many as they hold.

        Two batches of equal padded lengths then have equally many sentences. Empty pairs have no
        labels: the loss does not change.
        """
        collator = copy(self)
        collator.budget = budget
        return collator

    def __call__(self, pairs: pa.Table | list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Batch pairs with `input_ids`, `labels` and maybe more columns: a table, or a row each.

        Returns:
            What the model's `forward` takes: `input_ids` and `attention_mask`, `(B, S)`; `labels`
            and `decoder_input_ids`, `(B, T)`. Of pairs with links also `piece_links`, `(links, 3)`:
            the place of the pair in the batch, of the source piece and of the target piece. With a
            teacher also `soft_target_ids` and `soft_target_shares`, `(B, T, K)`.
        """
        (source_ids, sources), (target_ids, targets) = (
            _flat(pairs, side) for side in ("input_ids", "labels")
        )
        longest = np.array([sources.max(), targets.max()])
        if self.budget is not None:
            longest = self.budget.padded(longest)
            missing = self.budget.num_sentences(*longest) - len(pairs)
            # A source of no tokens would leave attention nothing to look at.
            source_ids = np.append(source_ids, np.full(missing, self.eos_token_id))
            sources = np.append(sources, np.full(missing, 1))
            targets = np.append(targets, np.full(missing, 0))
        input_ids, is_real = pad_right(source_ids, sources, longest[0], self.pad_token_id)
        labels, _ = pad_right(target_ids, targets, longest[1], IGNORED)
        batch = {"input_ids": input_ids, "attention_mask": is_real.long(), "labels": labels}
        batch["decoder_input_ids"] = shift_right(labels, **self.shifted_ids)
        columns = pairs.column_names if isinstance(pairs, pa.Table) else pairs[0]
        if PIECE_LINKS in columns:
            places, counts = _flat(pairs, PIECE_LINKS)
            rows = np.repeat(np.arange(len(pairs)), counts // 2)
            links = np.column_stack((rows, places.reshape(-1, 2)))
            batch[PIECE_LINKS] = torch.from_numpy(links)
        if TEACHER_IDS in columns:
            of_pieces, counts = _flat(pairs, TEACHER_IDS)
            probs, _ = _flat(pairs, TEACHER_PROBS)
            top_k = len(of_pieces) // len(target_ids)
            shape = (*labels.shape, top_k)
            ids, _ = pad_right(of_pieces, targets * top_k, shape[1] * top_k, 0)
            shares, _ = pad_right(probs, targets * top_k, shape[1] * top_k, 0.0)
            batch["soft_target_ids"] = ids.view(shape)
            batch["soft_target_shares"] = self.teacher_weight * shares.view(shape).float()
        if isinstance(pairs, pa.Table):
            if "index" in columns:
                batch["index"] = torch.tensor(pairs["index"].to_numpy())
        elif "index" in columns:
            batch["index"] = torch.tensor([pair["index"] for pair in pairs])
        return batch


def _flat(pairs: pa.Table | list[dict[str, Any]], side: str) -> tuple[np.ndarray, np.ndarray]:
    """The ids of all pairs one after the other, and how many each pair has."""
    if isinstance(pairs, pa.Table):
        return pc.list_flatten(pairs[side]).to_numpy(), lengths_of(pairs, side)
    lengths = np.array([len(pair[side]) for pair in pairs])
    ids = itertools.chain.from_iterable(pair[side] for pair in pairs)
    kind = np.float64 if side == TEACHER_PROBS else np.int64
    return np.fromiter(ids, kind, lengths.sum()), lengths


def pad_right(
    ids: np.ndarray, lengths: np.ndarray, longest: int, value: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of these lengths as `(rows, longest)`, filled up with a value; and where they are real.

    Args:
        ids: `(lengths.sum(),)`, the rows one after the other.
        lengths: `(rows,)`.
        longest: the length of all rows when padded.
        value: what is put behind the ids.
    """
    is_real = np.arange(longest) < lengths[:, None]
    padded = np.full(is_real.shape, value)
    padded[is_real] = ids
    return torch.from_numpy(padded), torch.from_numpy(is_real)
