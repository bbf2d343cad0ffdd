# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Buffers of streamed pairs: read, cleaned, encoded, sorted by length and cut into batches.

Pairs that are drawn anew in each epoch are streamed too, from text that is loaded and cleaned.

All of it happens in the order that the seed, the process and the number of the buffer decide, so
that a buffer can be filled again from the place where it began.
"""

import itertools
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from datasets import Dataset
from datasets.distributed import split_dataset_by_node
from transformers import PreTrainedTokenizerBase

from ..settings.budget import TokenBudget
from ..settings.stages import Stage
from .batching import TokenBatchSampler
from .cleaning import KEPT, REASONS, CleaningRules
from .corpora import CorpusPlan, shares
from .corpus import read_row, stream_pairs
from .encoding import encode_texts, tag_ids
from .noise import Noise
from .redrawing import Ids, Redrawing, Text


FIRST_BUFFER_PAIRS = 5000  # at most, so that training begins soon
READ_PAIRS = 1000  # read and encoded together
COUNTED_AS = ("pairs_kept", *REASONS)  # by the reason
Pair = tuple[np.ndarray, np.ndarray]  # ids of source and target, 4 bytes each


class Row(NamedTuple):
    """A pair as it is read.

    Attributes:
        part: where it comes from.
        key: names the pair and how often the corpus has been read before.
        source: text, `None` where it could not be decoded.
        target: likewise.
        ids: of both sides, where they are known.
    """

    part: "Part"
    key: str
    source: str | None
    target: str | None
    ids: Ids | None = None


class Part(ABC):
    """The part of a corpus that one process reads, over and over.

    Args:
        plan: the corpus.
    """

    def __init__(self, plan: CorpusPlan) -> None:
        self.plan = plan
        self.noise = Noise.of(plan.arguments)
        self.passes = 0
        self.read = self.kept = 0  # in this pass

    @abstractmethod
    def next_row(self) -> Row | None:
        """The next pair; `None` at the end of a pass."""

    def end_pass(self) -> None:
        """Begin again.

        Raises:
            ValueError: if that would go on for ever without a usable pair.
        """
        name = "The training text" if self.plan.name == "train" else f"corpora, {self.plan.name}:"
        if not self.read:
            raise ValueError(f"{name} has fewer pairs than there are processes; one got none.")
        if not self.kept:
            raise ValueError(
                f"{name} has no usable pair among the {self.read} that a process reads; see "
                f"max_length and max_length_ratio."
            )
        self.passes += 1
        self.read = self.kept = 0

    def state(self) -> dict[str, Any]:
        """Where the next pair is, to be written as JSON."""
        return {"passes": self.passes, "read": self.read, "kept": self.kept}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.passes, self.read, self.kept = (state[key] for key in ("passes", "read", "kept"))


class StreamedPart(Part):
    """A part that is read from files, or from the Hub, in their order.

    Args:
        plan: the corpus.
        rank: of the process.
        processes: how many there are.
    """

    def __init__(self, plan: CorpusPlan, rank: int, processes: int) -> None:
        super().__init__(plan)
        self.rows = split_dataset_by_node(stream_pairs(plan.arguments), rank, processes)
        self._rank = rank
        self._iterator: Iterator[dict[str, Any]] | None = None
        self._position: dict[str, Any] | None = None  # to begin at, else the start of the pass

    def next_row(self) -> Row | None:
        """The next pair; `None` at the end of a pass."""
        if self._iterator is None:
            self.rows.set_epoch(self.passes)  # another order of its files, where there are shards
            self.rows.load_state_dict(self._position or {})
            self._iterator = iter(self.rows)
        row = next(self._iterator, None)
        if row is None:
            return None
        key = f"{self.plan.name} {self.passes} {self.read} {self._rank}"
        self.read += 1
        return Row(self, key, *read_row(row, self.plan.arguments))

    def end_pass(self) -> None:
        """Begin again, as `Part.end_pass` does."""
        super().end_pass()
        self._iterator = self._position = None

    def state(self) -> dict[str, Any]:
        """Where the next pair is, to be written as JSON."""
        position = self._position if self._iterator is None else self.rows.state_dict()
        return {**super().state(), "position": position}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        super().load_state(state)
        self._iterator, self._position = None, state["position"]


class LoadedPart(Part):
    """A part of encoded and cleaned pairs, which come in another order in each pass.

    Args:
        plan: the corpus.
        pairs: all of it, columns `source`, `target`, `input_ids` and `labels`.
        rank: of the process.
        processes: how many there are.
        seed: of the orders.
    """

    def __init__(
        self, plan: CorpusPlan, pairs: Dataset, rank: int, processes: int, seed: int
    ) -> None:
        super().__init__(plan)
        self.pairs, self._rank, self._processes, self._seed = pairs, rank, processes, seed
        self._numbers: np.ndarray | None = None  # of the pairs of this pass, in their order
        self._fetched: deque[Row] = deque()

    def next_row(self) -> Row | None:
        """The next pair; `None` at the end of a pass."""
        if not self._fetched:
            self._fetch()
        if not self._fetched:
            return None
        self.read += 1
        return self._fetched.popleft()

    def _fetch(self) -> None:
        if self._numbers is None:
            order = np.random.default_rng((self._seed, self.passes)).permutation(len(self.pairs))
            self._numbers = order[self._rank :: self._processes]
        numbers = self._numbers[self.read : self.read + READ_PAIRS].tolist()
        rows = self.pairs[numbers]
        columns = (rows[name] for name in ("source", "target", "input_ids", "labels"))
        for number, source, target, *ids in zip(numbers, *columns, strict=True):
            key = f"{self.plan.name} {self.passes} {number}"
            self._fetched.append(Row(self, key, source, target, (ids[0], ids[1])))

    def end_pass(self) -> None:
        """Begin again, as `Part.end_pass` does."""
        super().end_pass()
        self._numbers = None

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        super().load_state(state)
        self._numbers = None
        self._fetched.clear()


@dataclass(frozen=True)
class Buffer:
    """Batches in the order of their use.

    Attributes:
        batches: each a list of pairs.
        before: the reader's state before they were read.
        counts: of the pairs read and dropped by then, by the corpus' name.
    """

    batches: list[list[Pair]]
    before: dict[str, Any]
    counts: dict[str, Counter[str]]


class BufferReader:
    """Fills one buffer after the other with the pairs that one process reads.

    Args:
        plans: the corpora.
        tokenizer: encodes; a copy of it is used, as the main thread translates meanwhile.
        rules: which pairs are wanted.
        buffer_pairs: pairs of a buffer, at most.
        budget: of the run.
        rank: of the process.
        target_tokenizer: encodes the targets, where they have one of their own; likewise copied.
        loaded: the pairs of each corpus, encoded and cleaned, by its name; without them they are
            read from where the plans say.
        stages: of the training, each with weights of the corpora in place of those of the plans.
        bpe_dropout: by which words are cut anew; 0 for none.

    Attributes:
        stop: once it is set, a buffer ends where it is.

    Raises:
        ValueError: if a tokenizer does not work by merges, which dropout could leave out.
    """

    def __init__(
        self,
        plans: list[CorpusPlan],
        tokenizer: PreTrainedTokenizerBase,
        rules: CleaningRules,
        buffer_pairs: int,
        budget: TokenBudget,
        rank: int,
        target_tokenizer: PreTrainedTokenizerBase | None = None,
        *,
        loaded: Mapping[str, Dataset] | None = None,
        stages: Sequence[Stage] = (),
        bpe_dropout: float = 0.0,
    ) -> None:
        self.stop = Event()
        self._tokenizers = deepcopy((tokenizer, target_tokenizer))
        self._tags = {plan.name: tag_ids(tokenizer, plan.source_tag) for plan in plans}
        self._rules = rules
        self._buffer_pairs = buffer_pairs
        self._budget = budget
        self._rank = rank
        self._parts: list[Part] = [
            LoadedPart(plan, loaded[plan.name], rank, budget.processes, budget.seed)
            if loaded is not None
            else StreamedPart(plan, rank, budget.processes)
            for plan in plans
        ]
        self._redrawing: Redrawing | None = None
        if bpe_dropout or any(part.noise for part in self._parts):
            self._redrawing = Redrawing(
                *self._tokenizers,
                seed=budget.seed,
                bpe_dropout=bpe_dropout,
                max_length=rules.max_length,
            )
        names = [plan.name for plan in plans]
        # Each corpus' share of the pairs; `None` where there is one and nothing to choose.
        self._mixtures: list[list[float] | None] = [stage.shares(names) for stage in stages]
        self._mixtures = self._mixtures or [_shares(plans, loaded)]
        # The batch that a stage ends before; the last one ends with the training.
        updates = itertools.accumulate(stage.updates for stage in stages[:-1])
        self._ends = [number * budget.accumulation for number in updates]
        self._first_batch = self._number = 0  # of the next buffer
        self._counts: dict[str, Counter[str]] = {plan.name: Counter() for plan in plans}

    def fill(self) -> Buffer:
        """Read until the buffer is full or, of a single corpus, a pass has ended.

        With the last buffer of a stage, batches that would be made after it are left out.
        """
        before = self.state()
        chooser = np.random.default_rng((self._budget.seed, self._rank, self._number))
        stage = bisect_right(self._ends, self._first_batch)
        mixture = self._mixtures[stage]
        most = self._buffer_pairs
        if self._number == 0:
            most = min(most, FIRST_BUFFER_PAIRS)
        kept: list[Pair] = []
        while len(kept) < most and not self.stop.is_set():
            rows, ended = self._read(mixture, chooser, min(READ_PAIRS, most - len(kept)))
            kept += self._usable(rows)
            if ended is not None:
                ended.end_pass()
                # Else a small corpus would fill a buffer with the same pairs many times over.
                if kept and (mixture is None or np.count_nonzero(mixture) == 1):
                    break
        batches = self._cut(kept, chooser) if kept else []
        if stage < len(self._ends):
            del batches[self._ends[stage] - self._first_batch :]
        self._number += 1
        self._first_batch += len(batches)
        return Buffer(batches, before, deepcopy(self._counts))

    def _read(
        self, mixture: list[float] | None, chooser: np.random.Generator, count: int
    ) -> tuple[list[Row], Part | None]:
        """The next pairs, and the corpus that came to its end."""
        if mixture is None:
            chosen = np.zeros(count, dtype=int)
        else:
            chosen = chooser.choice(len(self._parts), size=count, p=mixture)
        rows: list[Row] = []
        for place in chosen:
            part = self._parts[place]
            row = part.next_row()
            if row is None:
                return rows, part
            rows.append(row)
        return rows, None

    def _usable(self, rows: list[Row]) -> list[Pair]:
        if not rows:
            return []
        pairs = self._ids(rows)
        lengths = np.array([[len(ids) for ids in pair] for pair in pairs])
        by_length = self._rules.reasons_by_length(*lengths.T)
        kept = []
        for row, pair, of_lengths in zip(rows, pairs, by_length.tolist(), strict=True):
            reason = self._rules.reason_by_text(row.source, row.target) or of_lengths
            counts = self._counts[row.part.plan.name]
            counts["pairs_read"] += 1
            counts[COUNTED_AS[reason]] += 1
            if reason == KEPT:
                row.part.kept += 1
                kept.append((row, pair))
        drawn = [pair for _, pair in kept]
        if self._redrawing is not None:
            drawn = self._redrawing([self._text(row, pair) for row, pair in kept])
        return [
            (np.array(source, np.int32), np.array(target, np.int32)) for source, target in drawn
        ]

    def _text(self, row: Row, pair: Ids) -> Text:
        tag, noise = self._tags[row.part.plan.name], row.part.noise
        return Text(row.key, row.source or "", row.target or "", noise, tag, pair)

    def _ids(self, rows: list[Row]) -> list[Ids]:
        """The ids of each pair as it is."""
        known = [row.ids for row in rows if row.ids is not None]
        if len(known) == len(rows):
            return known
        encoded = encode_texts(
            [row.source for row in rows], [row.target for row in rows], *self._tokenizers
        )
        tagged = zip(rows, encoded["input_ids"], strict=True)
        sources = [self._tags[row.part.plan.name] + ids for row, ids in tagged]
        return list(zip(sources, encoded["labels"], strict=True))

    def _cut(self, pairs: list[Pair], chooser: np.random.Generator) -> list[list[Pair]]:
        batches = TokenBatchSampler(
            [len(source) for source, _ in pairs],
            [len(target) for _, target in pairs],
            self._budget.of_one_process(seed=int(chooser.integers(2**31))),
        ).batches
        order = chooser.permutation(len(batches))
        return [[pairs[place] for place in batches[number]] for number in order]

    def state(self) -> dict[str, Any]:
        """Where the next buffer begins."""
        return {
            "first": self._first_batch,
            "number": self._number,
            "parts": [part.state() for part in self._parts],
            "counts": deepcopy(self._counts),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self._first_batch, self._number = state["first"], state["number"]
        for part, of_part in zip(self._parts, state["parts"], strict=True):
            part.load_state(of_part)
        self._counts = deepcopy(state["counts"])


def _shares(plans: list[CorpusPlan], loaded: Mapping[str, Dataset] | None) -> list[float] | None:
    """The share of each corpus: by its weight, else by its size; `None` of one without a weight."""
    if len(plans) == 1 or loaded is None:
        return shares(plans)
    sizes = [len(loaded[plan.name]) for plan in plans]
    return shares(plans) or [size / sum(sizes) for size in sizes]
