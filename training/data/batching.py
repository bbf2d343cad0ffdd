# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Batches of a given number of tokens (section 5.1), of sentences of about one length."""

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

from ..settings.budget import TokenBudget


MAX_BATCH_GROWTH = 1.25  # times the batches that there are when they are as full as can be
NUM_GRAINS = 16  # groups of neighbours in a full batch of the longest pairs; see `cut`
# Every batch costs 2 tokens or more, beside which float64 does not see a lower price.
MIN_PRICE_TOKENS = float(np.finfo(float).eps)


class TokenBatchSampler(Sampler[list[int]]):
    """Groups pairs by length into batches that hold at most so many padded tokens on each side.

    Which pairs share a batch is fixed once, so that every epoch has the same number of batches and
    every pair occurs once in each; the order of the batches is new every epoch.

    Args:
        source_lengths: source tokens of each pair.
        target_lengths: target tokens of each pair.
        budget: what a batch holds, and the padding that smaller batches are worth (see
            `cut_for_padding`). The number of batches is a multiple of its processes, so that all
            do equally many; the largest batches are halved to make it so.
        shuffle: whether the order of batches changes with the epoch; else longest first.

    Attributes:
        batches: the places of each batch's pairs.
        shapes: sentences, source tokens and target tokens of each batch when padded.
        padding_share: of all positions of an epoch.

    Raises:
        ValueError: if a pair is longer than a batch may be, or there is none.
    """

    def __init__(
        self,
        source_lengths: Sequence[int] | np.ndarray,
        target_lengths: Sequence[int] | np.ndarray,
        budget: TokenBudget,
        *,
        shuffle: bool = True,
    ) -> None:
        source, target = (
            np.asarray(lengths, dtype=np.int64) for lengths in (source_lengths, target_lengths)
        )
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source lengths and {len(target)} target lengths.")
        if not len(source):
            raise ValueError("There are no pairs to make batches of.")
        budget.check_lengths(source, target)
        self.shuffle = shuffle
        self.seed = budget.seed
        self.epoch = 0
        padded = budget.padded(source), budget.padded(target)
        self.batches = pack(by_longer_side(*padded, self.seed), *padded, budget)
        if budget.pad_to_multiple_of is None:  # which fills batches up again
            self.batches = cut_for_padding(self.batches, *padded, budget)
        _split_to_multiple(self.batches, budget.processes)
        self.shapes: list[tuple[int, int, int]] = []
        for batch in self.batches:
            longest = int(padded[0][batch].max()), int(padded[1][batch].max())
            is_filled_up = budget.pad_to_multiple_of is not None
            size = budget.num_sentences(*longest) if is_filled_up else len(batch)
            self.shapes.append((size, *longest))
        padded_tokens = sum(size * sum(longest) for size, *longest in self.shapes)
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


def training_batches(
    source_lengths: Sequence[int] | np.ndarray,
    target_lengths: Sequence[int] | np.ndarray,
    budget: TokenBudget,
) -> TokenBatchSampler:
    """The batches of a run, of all processes: an update is one or several of them each.

    Args:
        source_lengths: source tokens of each pair.
        target_lengths: target tokens of each pair.
        budget: of the run.

    Raises:
        ValueError: if a pair is longer than a batch may be, or there are fewer pairs than
            processes.
    """
    sampler = TokenBatchSampler(source_lengths, target_lengths, budget)
    if len(sampler) % budget.processes:
        raise ValueError(
            f"{len(source_lengths)} pairs cannot be shared by {budget.processes} processes, "
            f"which do equally many updates; start fewer."
        )
    return sampler


def by_longer_side(source: np.ndarray, target: np.ndarray, seed: int) -> np.ndarray:
    """The places of all pairs, longest first, in an order whose neighbours have like lengths.

    Args:
        source: `(pairs,)`, source tokens of each.
        target: `(pairs,)`, target tokens of each.
        seed: of the order of pairs that are equal on both sides.
    """
    # By the longer side, so that both sides' budgets fill up together. Among pairs of one length by
    # how much longer the source is, downwards and upwards in turn, so that neighbours at the border
    # of two lengths are alike too.
    longer = np.maximum(source, target)
    turn = np.where(np.unique(longer, return_inverse=True)[1] % 2, 1, -1)
    tie_break = np.random.default_rng(seed).permutation(len(source))
    return np.lexsort((tie_break, turn * (source - target), longer))[::-1]


def pack(
    order: np.ndarray, source: np.ndarray, target: np.ndarray, budget: TokenBudget
) -> list[list[int]]:
    """Cut an order of pairs into batches, each as long as its budget of padded tokens lets it."""
    batches: list[list[int]] = []
    longest_source = longest_target = 0
    for pair in order.tolist():
        longest_source = max(longest_source, int(source[pair]))
        longest_target = max(longest_target, int(target[pair]))
        num_sentences = budget.num_sentences(longest_source, longest_target)
        if batches and len(batches[-1]) < num_sentences:
            batches[-1].append(pair)
        else:
            batches.append([pair])
            longest_source, longest_target = int(source[pair]), int(target[pair])
    return batches


def padding_of(batches: list[list[int]], source: np.ndarray, target: np.ndarray) -> float:
    """The share of padding in batches of pairs of these lengths, both sides together."""
    places = [np.array(batch) for batch in batches]
    padded = sum(len(batch) * int(source[batch].max() + target[batch].max()) for batch in places)
    return 1 - sum(int(source[batch].sum() + target[batch].sum()) for batch in places) / padded


def cut_for_padding(
    batches: list[list[int]], source: np.ndarray, target: np.ndarray, budget: TokenBudget
) -> list[list[int]]:
    """Cut the order that batches stand in anew, where more than `max_padding` of them is padding.

    The price of a batch is lowered, and `cut` asked again, until padding is low enough. It ends
    sooner where the next cut has more than `MAX_BATCH_GROWTH` times as many batches as the first,
    or the price is lower than `MIN_PRICE_TOKENS`.
    """
    order = np.concatenate(batches)
    most = MAX_BATCH_GROWTH * len(batches)
    price = float(sum(budget.batch_tokens))
    while padding_of(batches, source, target) > budget.max_padding and price > MIN_PRICE_TOKENS:
        smaller = cut(order, source, target, budget, price)
        if len(smaller) > most:
            break
        batches, price = smaller, 0.8 * price
    return batches


def cut(
    order: np.ndarray, source: np.ndarray, target: np.ndarray, budget: TokenBudget, price: float
) -> list[list[int]]:
    """Cut an order of pairs into batches that cost least: their padded tokens, and a price each.

    The best cuts of the first pairs are part of the best cuts of more (dynamic programming). Pairs
    are taken by the grain, several neighbours at once.

    Args:
        order: `(pairs,)`, places of all pairs.
        source: `(pairs,)`, source tokens of each.
        target: `(pairs,)`, target tokens of each.
        budget: what a batch holds.
        price: what a batch costs beside its padded tokens, in tokens; the lower it is, the more
            and smaller the batches.
    """
    source_tokens, target_tokens = budget.batch_tokens
    smallest = budget.num_sentences(int(source.max()), int(target.max()))
    edges = np.arange(0, len(order), max(smallest // NUM_GRAINS, 1))
    longest_source, longest_target = (
        np.maximum.reduceat(side[order], edges) for side in (source, target)
    )
    edges = np.append(edges, len(order))
    cost, begin = np.zeros(len(edges)), np.zeros(len(edges), dtype=int)
    window = 1
    for end in range(1, len(edges)):
        while True:
            # All batches that end here, the shortest one first.
            grains = slice(max(end - window, 0), end)
            sizes = (edges[end] - edges[grains])[::-1]
            tallest_source, tallest_target = (
                np.maximum.accumulate(side[grains][::-1])
                for side in (longest_source, longest_target)
            )
            fits = (sizes * tallest_source <= source_tokens) & (
                sizes * tallest_target <= target_tokens
            )
            if not fits.all() or grains.start == 0:
                break
            window *= 2
        padded = (sizes * (tallest_source + tallest_target))[fits]
        costs = cost[grains][::-1][fits] + padded + price
        best = int(costs.argmin())
        cost[end], begin[end] = costs[best], end - 1 - best
    batches, end = [], len(edges) - 1
    while end:
        batches.append(order[edges[begin[end]] : edges[end]].tolist())
        end = int(begin[end])
    return batches[::-1]


def _split_to_multiple(batches: list[list[int]], multiple_of: int) -> None:
    while len(batches) % multiple_of:
        place = max(range(len(batches)), key=lambda index: len(batches[index]))
        batch = batches[place]
        if len(batch) == 1:
            return
        middle = len(batch) // 2
        batches[place : place + 1] = [batch[:middle], batch[middle:]]
