# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Batches of a given number of tokens (section 5.1), of sentences of about one length."""

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler


class TokenBatchSampler(Sampler[list[int]]):
    """Groups pairs by length into batches that hold at most so many padded tokens on each side.

    Which pairs share a batch is fixed once, so that every epoch has the same number of batches and
    every pair occurs once in each; the order of the batches is new every epoch.

    Args:
        source_lengths: source tokens of each pair.
        target_lengths: target tokens of each pair.
        source_tokens: padded source tokens of a batch, at most.
        target_tokens: padded target tokens of a batch, at most.
        multiple_of: the number of batches is a multiple of this, the number of processes, so that
            all do equally many; the largest batches are halved to make it so.
        pad_to_multiple_of: lengths are padded to multiples of this, and batches to as many
            sentences as `full_batch` says, so that they have few different shapes; all of that
            padding counts. `None` pads to the longest pair of a batch and no further.
        shuffle: whether the order of batches changes with the epoch; else longest first.
        seed: of the order, and of which pairs of equal lengths share a batch.

    Raises:
        ValueError: if a pair is longer than a batch may be, or there is none.
    """

    def __init__(
        self,
        source_lengths: Sequence[int] | np.ndarray,
        target_lengths: Sequence[int] | np.ndarray,
        *,
        source_tokens: int,
        target_tokens: int,
        multiple_of: int = 1,
        pad_to_multiple_of: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        source, target = np.asarray(source_lengths), np.asarray(target_lengths)
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source lengths and {len(target)} target lengths.")
        if not len(source):
            raise ValueError("There are no pairs to make batches of.")
        step = pad_to_multiple_of or 1
        padded_source, padded_target = (-(-lengths // step) * step for lengths in (source, target))
        for side, field, lengths, padded, budget in [
            ("source", "source_tokens", source, padded_source, source_tokens),
            ("target", "target_tokens", target, padded_target, target_tokens),
        ]:
            if padded.max() > budget:
                pair = int(padded.argmax())
                so_padded = f", padded to {padded[pair]}," if padded[pair] > lengths[pair] else ""
                raise ValueError(
                    f"Pair {pair} has {lengths[pair]} {side} tokens{so_padded} but a batch holds "
                    f"{budget}; raise {field} or lower max_length."
                )
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        order = by_longer_side(padded_source, padded_target, seed)
        self.batches = pack(order, padded_source, padded_target, source_tokens, target_tokens)
        _split_to_multiple(self.batches, multiple_of)
        padded_tokens = 0
        for batch in self.batches:
            longest = int(padded_source[batch].max()), int(padded_target[batch].max())
            size = len(batch)
            if pad_to_multiple_of is not None:
                size = full_batch(*longest, source_tokens, target_tokens)
            padded_tokens += size * sum(longest)
        self.padding_share = 1 - int(source.sum() + target.sum()) / padded_tokens

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        order = np.arange(len(self.batches))
        if self.shuffle:
            np.random.default_rng((self.seed, self.epoch)).shuffle(order)
        for place in order:
            yield self.batches[place]

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch, counted from 0."""
        self.epoch = epoch


def full_batch(
    source_length: int, target_length: int, source_tokens: int, target_tokens: int
) -> int:
    """How many sentences of these lengths a batch of so many tokens holds."""
    return min(source_tokens // source_length, target_tokens // target_length)


def by_longer_side(source: np.ndarray, target: np.ndarray, seed: int) -> np.ndarray:
    """The places of all pairs, longest first, in an order whose neighbours have like lengths.

    Args:
        source: `(pairs,)`, source tokens of each.
        target: `(pairs,)`, target tokens of each.
        seed: of the order of pairs that are equal on both sides.
    """
    # By the longer side, so that both budgets fill up together. Among pairs of one length by how
    # much longer the source is, downwards and upwards in turn, so that no jump ends a length.
    longer = np.maximum(source, target)
    turn = np.where(np.unique(longer, return_inverse=True)[1] % 2, 1, -1)
    tie_break = np.random.default_rng(seed).permutation(len(source))
    return np.lexsort((tie_break, turn * (source - target), longer))[::-1]


def pack(
    order: np.ndarray,
    source: np.ndarray,
    target: np.ndarray,
    source_tokens: int,
    target_tokens: int,
) -> list[list[int]]:
    """Cut an order of pairs into batches, each as long as its budgets of padded tokens let it."""
    batches: list[list[int]] = []
    longest_source = longest_target = 0
    for pair in order.tolist():
        longest_source = max(longest_source, int(source[pair]))
        longest_target = max(longest_target, int(target[pair]))
        holds = full_batch(longest_source, longest_target, source_tokens, target_tokens)
        if batches and len(batches[-1]) < holds:
            batches[-1].append(pair)
        else:
            batches.append([pair])
            longest_source, longest_target = int(source[pair]), int(target[pair])
    return batches


def _split_to_multiple(batches: list[list[int]], multiple_of: int) -> None:
    while len(batches) % multiple_of:
        place = max(range(len(batches)), key=lambda index: len(batches[index]))
        batch = batches[place]
        if len(batch) == 1:
            return
        middle = len(batch) // 2
        batches[place : place + 1] = [batch[:middle], batch[middle:]]
