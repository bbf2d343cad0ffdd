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
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        source, target = np.asarray(source_lengths), np.asarray(target_lengths)
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source lengths and {len(target)} target lengths.")
        if not len(source):
            raise ValueError("There are no pairs to make batches of.")
        for side, field, lengths, budget in [
            ("source", "source_tokens", source, source_tokens),
            ("target", "target_tokens", target, target_tokens),
        ]:
            if lengths.max() > budget:
                pair = int(lengths.argmax())
                raise ValueError(
                    f"Pair {pair} has {lengths[pair]} {side} tokens but a batch holds {budget}; "
                    f"raise {field} or lower max_length."
                )
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.batches = _pack(source, target, source_tokens, target_tokens, seed)
        _split_to_multiple(self.batches, multiple_of)
        self.padding_share = _padding_share(self.batches, source, target)

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


def _pack(
    source: np.ndarray, target: np.ndarray, source_tokens: int, target_tokens: int, seed: int
) -> list[list[int]]:
    tie_break = np.random.default_rng(seed).permutation(len(source))
    batches: list[list[int]] = []
    longest_source = longest_target = 0
    for pair in np.lexsort((tie_break, source, target))[::-1].tolist():
        longest_source = max(longest_source, int(source[pair]))
        longest_target = max(longest_target, int(target[pair]))
        size = len(batches[-1]) + 1 if batches else 1
        fits = size * longest_source <= source_tokens and size * longest_target <= target_tokens
        if batches and fits:
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


def _padding_share(batches: list[list[int]], source: np.ndarray, target: np.ndarray) -> float:
    padded = sum(len(batch) * (source[batch].max() + target[batch].max()) for batch in batches)
    return float(1 - (source.sum() + target.sum()) / padded)
