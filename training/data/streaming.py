# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Token batches (section 5.1) from corpora larger than memory, made while training goes on.

Each process reads its own part of every corpus, in order and again and again. It fills a buffer of
`shuffle_buffer_pairs`, sorts it by length, cuts it into batches, and hands these out in random
order; the next buffer is filled by a thread meanwhile. Memory holds two buffers, whatever the size
of the corpus, and a checkpoint holds the place where the buffer in use began: to resume, that one
buffer is filled again.
"""

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import torch
import torch.utils.data
from accelerate.data_loader import DataLoaderShard
from accelerate.utils import gather_object
from datasets.distributed import split_dataset_by_node
from transformers import (
    PreTrainedTokenizerFast,
)

from ..settings.fields import BUDGETS, DataArguments, VaswaniTrainingArguments
from ..settings.rules import check_streaming
from .batching import TokenBatchSampler
from .cleaning import KEPT, REASONS, CleaningRules, report
from .corpora import PLACES, READING, CorpusPlan, shares
from .corpus import Corpus, read_row, stream_pairs
from .encoding import encode_texts


_COUNTED_AS = ("pairs_kept", *REASONS)  # by the reason
_FIRST_BUFFER_PAIRS = 5000  # at most, so that training begins soon
_CHUNK = 1000  # pairs read and encoded together
Pair = tuple[np.ndarray, np.ndarray]  # ids of source and target, 4 bytes each


class _Part:
    """The part of a corpus that one process reads, over and over."""

    def __init__(self, plan: CorpusPlan, rank: int, world_size: int) -> None:
        self.plan = plan
        self.rows = split_dataset_by_node(stream_pairs(plan.arguments), rank, world_size)
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
        """Begin again; an error if that would go on for ever without a usable pair."""
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


@dataclass
class _Buffer:
    """Batches in the order of their use, the state before them and the counts after them."""

    batches: list[list[Pair]]
    before: dict[str, Any]
    counts: dict[str, Counter[str]]


class TokenBatchStream(torch.utils.data.IterableDataset):
    """Batches of encoded pairs without end, for one process.

    What comes out depends on the text, the settings, the seed, the rank and the number of processes
    alone. An item is a list of rows with `input_ids` and `labels`; the batches that a checkpoint
    has seen are empty lists, which the library's trainer skips when it resumes.

    Args:
        corpus: the corpora, by `load_corpus`.
        tokenizer: encodes; a copy of it is used.
        data: the cleaning, and `shuffle_buffer_pairs`.
        training: the token budgets, the seed and the processes.
        checkpoint: folder to go on from, by `save_state`; `None` for the start.

    Raises:
        ValueError: if the checkpoint does not say where this process stood, or settings that
            decide about the batches differ from the checkpoint's; all that differ are named.
    """

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: PreTrainedTokenizerFast,
        data: DataArguments,
        training: VaswaniTrainingArguments,
        checkpoint: str | None = None,
    ) -> None:
        check_streaming(data, training)
        self.rules = CleaningRules.of(data)
        self.buffer_pairs = data.shuffle_buffer_pairs
        self.rank, processes = training.process_index, training.world_size
        self.accumulated = training.gradient_accumulation_steps
        seed = training.data_seed if training.data_seed is not None else training.seed
        self._entropy = (seed, self.rank)
        self._budgets = {
            side: getattr(training, side) // (processes * self.accumulated) for side in BUDGETS
        }
        # The main thread translates meanwhile, and a tokenizer is not made for two at once.
        self._tokenizer = deepcopy(tokenizer)
        self._plans, self._shares = corpus.plans, shares(corpus.plans)
        self._parts = [_Part(plan, self.rank, processes) for plan in corpus.plans]
        self._settings = {
            "processes": processes,
            "gradient_accumulation_steps": self.accumulated,
            "seed": seed,
            **{side: getattr(training, side) for side in BUDGETS},
            "shuffle_buffer_pairs": self.buffer_pairs,
            **asdict(self.rules),
            "drop_undecodable": data.drop_undecodable,
            "corpora": [_described(plan) for plan in corpus.plans],
        }
        self._seen = 0  # batches that the checkpoint had seen
        self._first = self._number = 0  # of the next buffer: its first batch, and its own number
        self._counts: dict[str, Counter[str]] = {plan.name: Counter() for plan in corpus.plans}
        self._start = self._state()
        if checkpoint is not None:
            self._seen, self._start = self._read_state(Path(checkpoint))
        self.counts = self._start["counts"]
        # The loader is one batch ahead of the batches of an update, and a buffer may be one batch.
        self._recent = deque([self._start], maxlen=self.accumulated + 3)
        self._stop = Event()
        self._ahead: deque[_Buffer] = deque()  # read, and not begun
        self._coming: Future[_Buffer]
        self._read_on: Callable[[], Future[_Buffer]]
        self._num_read = 0  # batches up to the end of the last buffer that was read

    def __iter__(self) -> Iterator[list[dict[str, list[int]]]]:
        self._load_state(self._start)
        self._stop.clear()
        for _ in range(self._seen):
            yield []
        reader = ThreadPoolExecutor(1, thread_name_prefix="streaming")
        self._ahead.clear()
        self._num_read = self._start["first"]
        self._read_on = lambda: reader.submit(self._fill)
        try:
            self._coming = self._read_on()
            while True:
                if not self._ahead:
                    self._read_buffer()
                buffer = self._ahead.popleft()
                self.counts = buffer.counts
                self._recent.append(buffer.before)
                for place, batch in enumerate(buffer.batches, start=buffer.before["first"]):
                    if place >= self._seen:
                        yield [
                            {"input_ids": source.tolist(), "labels": target.tolist()}
                            for source, target in batch
                        ]
        finally:
            self._stop.set()
            reader.shutdown(cancel_futures=True)

    def _read_buffer(self) -> None:
        buffer = self._coming.result()
        self._coming = self._read_on()
        self._ahead.append(buffer)
        self._num_read = buffer.before["first"] + len(buffer.batches)

    def problem_before(self, num_batches: int) -> str | None:
        """What keeps this process from so many batches, counted from the start; `None` if nothing.

        To be asked while the stream is being iterated. It reads ahead as far as it must.
        """
        while self._num_read < num_batches:
            problem = self._coming.exception()
            if isinstance(problem, ValueError | OSError):
                return str(problem)
            self._read_buffer()
        return None

    def _fill(self) -> _Buffer:
        """Read until the buffer is full or, of a single corpus, a pass has ended."""
        before = self._state()
        chooser = np.random.default_rng((*self._entropy, self._number))
        most = self.buffer_pairs if self._number else min(self.buffer_pairs, _FIRST_BUFFER_PAIRS)
        kept: list[Pair] = []
        while len(kept) < most and not self._stop.is_set():
            rows, ended = self._read(chooser, min(_CHUNK, most - len(kept)))
            kept += self._usable(rows)
            if ended is not None:
                ended.end_pass()
                # Else a small corpus would fill a buffer with the same pairs many times over.
                if kept and len(self._parts) == 1:
                    break
        batches = self._cut(kept, chooser) if kept else []
        self._number += 1
        self._first += len(batches)
        return _Buffer(batches, before, deepcopy(self._counts))

    def _read(
        self, chooser: np.random.Generator, count: int
    ) -> tuple[list[tuple[_Part, str | None, str | None]], _Part | None]:
        """The next pairs, each of the corpus it comes from, and the one that came to its end."""
        if self._shares is None:
            chosen = np.zeros(count, dtype=int)
        else:
            chosen = chooser.choice(len(self._parts), size=count, p=self._shares)
        rows: list[tuple[_Part, str | None, str | None]] = []
        for place in chosen:
            part = self._parts[place]
            pair = part.next_pair()
            if pair is None:
                return rows, part
            rows.append((part, *pair))
        return rows, None

    def _usable(self, rows: list[tuple[_Part, str | None, str | None]]) -> list[Pair]:
        if not rows:
            return []
        parts, sources, targets = zip(*rows, strict=True)
        encoded = encode_texts(sources, targets, self._tokenizer)
        kept = []
        pairs = zip(encoded["input_ids"], encoded["labels"], strict=True)
        for part, source, target, ids in zip(parts, sources, targets, pairs, strict=True):
            reason = self.rules.reason(source, target, len(ids[0]), len(ids[1]))
            counts = self._counts[part.plan.name]
            counts["pairs_read"] += 1
            counts[_COUNTED_AS[reason]] += 1
            if reason == KEPT:
                part.kept += 1
                kept.append((np.array(ids[0], np.int32), np.array(ids[1], np.int32)))
        return kept

    def _cut(self, pairs: list[Pair], chooser: np.random.Generator) -> list[list[Pair]]:
        batches = TokenBatchSampler(
            [len(source) for source, _ in pairs],
            [len(target) for _, target in pairs],
            **self._budgets,
            seed=int(chooser.integers(2**31)),
        ).batches
        order = chooser.permutation(len(batches))
        return [[pairs[place] for place in batches[number]] for number in order]

    # What a checkpoint holds

    def save_state(self, folder: str | Path, num_batches: int) -> None:
        """Write where this process stands, beside the rest of a checkpoint.

        Args:
            folder: the checkpoint's.
            num_batches: how many batches the updates so far have used.
        """
        before = [state for state in self._recent if state["first"] <= num_batches]
        content = {"settings": self._settings, "batches": num_batches, "buffer": before[-1]}
        state_file(folder, self.rank).write_text(json.dumps(content), encoding="utf-8")

    def _read_state(self, folder: Path) -> tuple[int, dict[str, Any]]:
        path = state_file(folder, self.rank)
        if not path.is_file():
            raise ValueError(
                f"{path} is missing: {folder.name} was not saved while streaming, or on fewer than "
                f"{self._settings['processes']} processes. Resume as it was begun, or start a new "
                f"run from its weights by --model_name_or_path."
            )
        content = json.loads(path.read_text(encoding="utf-8"))
        now = json.loads(json.dumps(self._settings))
        differing = [
            f"{name}={content['settings'].get(name)!r} then and {now[name]!r} now"
            for name in now
            if content["settings"].get(name) != now[name]
        ]
        if differing:
            raise ValueError(
                f"{folder.name} was saved with other batches: {'; '.join(differing)}. Resume with "
                f"the same settings, or start a new run from its weights by --model_name_or_path."
            )
        buffer = content["buffer"]
        buffer["counts"] = {name: Counter(of_one) for name, of_one in buffer["counts"].items()}
        return content["batches"], buffer

    def _state(self) -> dict[str, Any]:
        return {
            "first": self._first,
            "number": self._number,
            "parts": [part.state() for part in self._parts],
            "counts": deepcopy(self._counts),
        }

    def _load_state(self, state: dict[str, Any]) -> None:
        self._first, self._number = state["first"], state["number"]
        for part, position in zip(self._parts, state["parts"], strict=True):
            part.load_state(position)
        self._counts = deepcopy(state["counts"])

    # What is reported

    def report(self) -> dict[str, Any]:
        """What was read and dropped so far, by all processes; all of them must ask.

        A process counts the buffers that it has begun to use.
        """
        counts = {plan.name: Counter[str]() for plan in self._plans}
        for of_process in gather_object([self.counts]):
            for name, of_one in of_process.items():
                counts[name].update(of_one)
        return report(self._plans, counts)


def state_file(folder: str | Path, rank: int) -> Path:
    """Where a checkpoint holds the place of a process in its stream."""
    return Path(folder) / f"stream_{rank}.json"


def stream_loader(
    stream: TokenBatchStream, collate: Callable[[list[Any]], Any], device: torch.device
) -> DataLoaderShard:
    """Collated batches on their device; the library's trainer resumes it by skipping."""
    return DataLoaderShard(
        stream,
        device=device,
        batch_size=None,  # an item is a batch
        collate_fn=partial(_collate, collate),
        pin_memory=torch.cuda.is_available(),
    )


def _collate(collate: Callable[[list[Any]], Any], rows: list[Any]) -> Any:
    return collate(rows) if rows else {}


def _described(plan: CorpusPlan) -> dict[str, Any]:
    names = (*PLACES, *READING)
    return {name: getattr(plan, name) for name in ("name", "weight")} | {
        name: getattr(plan.arguments, name) for name in names
    }
