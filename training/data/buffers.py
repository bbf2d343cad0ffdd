# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Buffers of streamed pairs: read, cleaned, encoded, sorted by length and cut into batches.

All of it happens in the order that the seed, the process and the number of the buffer decide, so
that a buffer can be filled again from the place where it began.
"""

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np
from datasets.distributed import split_dataset_by_node
from transformers import PreTrainedTokenizerBase

from ..settings.budget import TokenBudget
from .batching import TokenBatchSampler
from .cleaning import KEPT, REASONS, CleaningRules
from .corpora import CorpusPlan, shares
from .corpus import read_row, stream_pairs
from .encoding import encode_texts, tag_ids


FIRST_BUFFER_PAIRS = 5000  # at most, so that training begins soon
READ_PAIRS = 1000  # read and encoded together
COUNTED_AS = ("pairs_kept", *REASONS)  # by the reason
Pair = tuple[np.ndarray, np.ndarray]  # ids of source and target, 4 bytes each


class CorpusPart:
    """The part of a corpus that one process reads, over and over.

    Args:
        plan: the corpus.
        rank: of the process.
        processes: how many there are.
    """

    def __init__(self, plan: CorpusPlan, rank: int, processes: int) -> None:
        self.plan = plan
        self.rows = split_dataset_by_node(stream_pairs(plan.arguments), rank, processes)
        self.passes = 0
        self.read = self.kept = 0  # in this pass
        self._iterator: Iterator[dict[str, Any]] | None = None
        self._position: dict[str, Any] | None = None  # to begin at, else the start of the pass

    def next_pair(self) -> tuple[str | None, str | None] | None:
        """The next pair; `None` at the end of a pass."""
        if self._iterator is None:
            self.rows.set_epoch(self.passes)  # another order of its files, where there are shards
            self.rows.load_state_dict(self._position or {})
            self._iterator = iter(self.rows)
        row = next(self._iterator, None)
        if row is None:
            return None
        self.read += 1
        return read_row(row, self.plan.arguments)

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
        self._iterator = self._position = None

    def state(self) -> dict[str, Any]:
        """Where the next pair is, to be written as JSON."""
        position = self._position if self._iterator is None else self.rows.state_dict()
        counts = {"passes": self.passes, "read": self.read, "kept": self.kept}
        return {**counts, "position": position}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.passes, self.read, self.kept = (state[key] for key in ("passes", "read", "kept"))
        self._iterator, self._position = None, state["position"]


Row = tuple[CorpusPart, str | None, str | None]  # where a pair comes from, source and target


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

    Attributes:
        stop: once it is set, a buffer ends where it is.
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
    ) -> None:
        self.stop = Event()
        self._tokenizers = deepcopy((tokenizer, target_tokenizer))
        self._tags = {plan.name: tag_ids(tokenizer, plan.source_tag) for plan in plans}
        self._rules = rules
        self._buffer_pairs = buffer_pairs
        self._budget = budget
        self._rank = rank
        self._shares = shares(plans)
        self._parts = [CorpusPart(plan, rank, budget.processes) for plan in plans]
        self._first_batch = self._number = 0  # of the next buffer
        self._counts: dict[str, Counter[str]] = {plan.name: Counter() for plan in plans}

    def fill(self) -> Buffer:
        """Read until the buffer is full or, of a single corpus, a pass has ended."""
        before = self.state()
        chooser = np.random.default_rng((self._budget.seed, self._rank, self._number))
        most = self._buffer_pairs
        if self._number == 0:
            most = min(most, FIRST_BUFFER_PAIRS)
        kept: list[Pair] = []
        while len(kept) < most and not self.stop.is_set():
            rows, ended = self._read(chooser, min(READ_PAIRS, most - len(kept)))
            kept += self._usable(rows)
            if ended is not None:
                ended.end_pass()
                # Else a small corpus would fill a buffer with the same pairs many times over.
                if kept and len(self._parts) == 1:
                    break
        batches = self._cut(kept, chooser) if kept else []
        self._number += 1
        self._first_batch += len(batches)
        return Buffer(batches, before, deepcopy(self._counts))

    def _read(
        self, chooser: np.random.Generator, count: int
    ) -> tuple[list[Row], CorpusPart | None]:
        """The next pairs, and the corpus that came to its end."""
        if self._shares is None:
            chosen = np.zeros(count, dtype=int)
        else:
            chosen = chooser.choice(len(self._parts), size=count, p=self._shares)
        rows: list[Row] = []
        for place in chosen:
            part = self._parts[place]
            pair = part.next_pair()
            if pair is None:
                return rows, part
            rows.append((part, *pair))
        return rows, None

    def _usable(self, rows: list[Row]) -> list[Pair]:
        if not rows:
            return []
        parts, sources, targets = zip(*rows, strict=True)
        encoded = encode_texts(sources, targets, *self._tokenizers)
        tagged = zip(parts, encoded["input_ids"], strict=True)
        sides = [self._tags[part.plan.name] + ids for part, ids in tagged], encoded["labels"]
        lengths = (np.array([len(ids) for ids in side]) for side in sides)
        by_length = self._rules.reasons_by_length(*lengths)
        kept = []
        columns = (parts, sources, targets, by_length.tolist(), *sides)
        for part, source, target, of_lengths, *pair in zip(*columns, strict=True):
            reason = self._rules.reason_by_text(source, target) or of_lengths
            counts = self._counts[part.plan.name]
            counts["pairs_read"] += 1
            counts[COUNTED_AS[reason]] += 1
            if reason == KEPT:
                part.kept += 1
                source_ids, target_ids = (np.array(ids, np.int32) for ids in pair)
                kept.append((source_ids, target_ids))
        return kept

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
