# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Token batches (section 5.1) from corpora larger than memory, made while training goes on.

Each process reads its own part of every corpus, in order and again and again. It fills a buffer of
`shuffle_buffer_pairs`, sorts it by length, cuts it into batches, and hands these out in random
order; a thread fills the next buffer meanwhile. Memory holds two buffers, whatever the size of the
corpus, and a checkpoint holds the place where the buffer in use began: to resume, that one buffer
is filled again. Pairs that are drawn anew in each epoch come in the same way, from text that is
loaded.
"""

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.utils.data
from accelerate.data_loader import DataLoaderShard
from accelerate.utils import gather_object
from transformers import PreTrainedTokenizerBase

from ..settings.budget import TokenBudget
from ..settings.fields import NOISE, DataArguments, VaswaniTrainingArguments
from ..settings.rules import check_streaming
from ..settings.stages import read_stages
from .buffers import Buffer, BufferReader
from .cleaning import CleaningRules, report
from .corpora import READING_FIELDS, TEXT_FIELDS, CorpusPlan
from .corpus import Corpus


REDRAWN = ("stages", "bpe_dropout")


class TokenBatchStream(torch.utils.data.IterableDataset):
    """Batches of encoded pairs without end, for one process.

    What comes out depends on the text, the settings, the seed, the rank and the number of processes
    alone. An item is a list of rows with `input_ids` and `labels`; the batches that a checkpoint
    has seen are empty lists, which the library's trainer skips when it resumes.

    Args:
        corpus: the corpora, by `load_corpus`.
        tokenizer: encodes; a copy of it is used.
        data: the cleaning, and `shuffle_buffer_pairs`.
        training: the token budget, and this process' rank.
        checkpoint: folder to go on from, by `save_state`; `None` for the start.
        target_tokenizer: encodes the targets, where they have one of their own.

    Attributes:
        counts: pairs read and dropped, by the corpus' name, up to the buffer in use.

    Raises:
        ValueError: if the checkpoint does not say where this process stood, or settings that
            decide about the batches differ from the checkpoint's; all that differ are named.
    """

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: PreTrainedTokenizerBase,
        data: DataArguments,
        training: VaswaniTrainingArguments,
        checkpoint: str | None = None,
        target_tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> None:
        check_streaming(data, training)
        budget, rules = TokenBudget.of(training), CleaningRules.of(data)
        self._streamed_by = data.streamed_by
        self._plans, self._rank = corpus.plans, training.process_index
        self._settings = _settings_of_batches(corpus.plans, data, rules, budget)
        self._reader = BufferReader(
            corpus.plans,
            tokenizer,
            rules,
            data.shuffle_buffer_pairs,
            budget,
            self._rank,
            target_tokenizer,
            loaded=corpus.loaded,
            stages=read_stages(data.stages),
            bpe_dropout=data.bpe_dropout,
        )
        self._seen = 0  # batches that the checkpoint had seen
        self._start = self._reader.state()
        if checkpoint is not None:
            self._seen, self._start = self._read_state(Path(checkpoint))
        self.counts: dict[str, Counter[str]] = self._start["counts"]
        # States before the buffers of the last batches. The loader is one batch ahead of the
        # batches of an update, and a buffer may be one batch.
        self._recent = deque([self._start], maxlen=budget.accumulation + 3)
        self._waiting: deque[Buffer] = deque()  # read, and not begun
        self._in_work: Future[Buffer]
        self._read_on: Callable[[], Future[Buffer]]
        self._num_read = 0  # batches up to the end of the last buffer that was read

    def __iter__(self) -> Iterator[list[dict[str, list[int]]]]:
        self._reader.load_state(self._start)
        self._reader.stop.clear()
        for _ in range(self._seen):
            yield []
        thread = ThreadPoolExecutor(1, thread_name_prefix="streaming")
        self._waiting.clear()
        self._num_read = self._start["first"]
        self._read_on = lambda: thread.submit(self._reader.fill)
        try:
            self._in_work = self._read_on()
            while True:
                yield from self._next_buffer()
        finally:
            self._reader.stop.set()
            thread.shutdown(cancel_futures=True)

    def _next_buffer(self) -> Iterator[list[dict[str, list[int]]]]:
        """The batches of the next buffer that the checkpoint has not seen."""
        if not self._waiting:
            self._await_buffer()
        buffer = self._waiting.popleft()
        self.counts = buffer.counts
        self._recent.append(buffer.before)
        for place, batch in enumerate(buffer.batches, start=buffer.before["first"]):
            if place >= self._seen:
                yield [
                    {"input_ids": source.tolist(), "labels": target.tolist()}
                    for source, target in batch
                ]

    def _await_buffer(self) -> None:
        buffer = self._in_work.result()
        self._in_work = self._read_on()
        self._waiting.append(buffer)
        self._num_read = buffer.before["first"] + len(buffer.batches)

    def problem_before(self, num_batches: int) -> str | None:
        """What keeps this process from so many batches, counted from the start; `None` if nothing.

        To be asked while the stream is being iterated. It reads ahead as far as it must.
        """
        while self._num_read < num_batches:
            problem = self._in_work.exception()
            if isinstance(problem, ValueError | OSError):
                return str(problem)
            self._await_buffer()
        return None

    def save_state(self, folder: str | Path, num_batches: int) -> None:
        """Write where this process stands, beside the rest of a checkpoint.

        Args:
            folder: the checkpoint's.
            num_batches: how many batches the updates so far have used.
        """
        before = [state for state in self._recent if state["first"] <= num_batches]
        content = {"settings": self._settings, "batches": num_batches, "buffer": before[-1]}
        state_file(folder, self._rank).write_text(json.dumps(content), encoding="utf-8")

    def _read_state(self, folder: Path) -> tuple[int, dict[str, Any]]:
        path = state_file(folder, self._rank)
        if not path.is_file():
            raise ValueError(
                f"{path} is missing: {folder.name} was saved without {self._streamed_by}, or on "
                f"fewer than {self._settings['processes']} processes. Resume as it was begun, or "
                f"start a new run from its weights by --model_name_or_path."
            )
        content = json.loads(path.read_text(encoding="utf-8"))
        # Checkpoints without `max_padding` are of batches as full as can be.
        then = {"max_padding": 1.0, **content["settings"]}
        now = json.loads(json.dumps(self._settings))
        differing = [
            f"{name}={then.get(name)!r} then and {now[name]!r} now"
            for name in now
            if then.get(name) != now[name]
        ]
        if differing:
            raise ValueError(
                f"{folder.name} was saved with other batches: {'; '.join(differing)}. Resume with "
                f"the same settings, or start a new run from its weights by --model_name_or_path."
            )
        buffer = content["buffer"]
        buffer["counts"] = {name: Counter(of_one) for name, of_one in buffer["counts"].items()}
        return content["batches"], buffer

    def report(self) -> dict[str, Any]:
        """What was read and dropped so far, by all processes; all of them must ask.

        A process counts the buffers that it has begun to use.
        """
        counts = {plan.name: Counter[str]() for plan in self._plans}
        for of_process in gather_object([self.counts]):
            for name, of_one in of_process.items():
                counts[name].update(of_one)
        return report(self._plans, counts)


def _settings_of_batches(
    plans: list[CorpusPlan], data: DataArguments, rules: CleaningRules, budget: TokenBudget
) -> dict[str, Any]:
    """What decides about the batches, as a checkpoint keeps it."""
    return {
        "processes": budget.processes,
        "gradient_accumulation_steps": budget.accumulation,
        "seed": budget.seed,
        "source_tokens": budget.source_tokens,
        "target_tokens": budget.target_tokens,
        "max_padding": budget.max_padding,
        "shuffle_buffer_pairs": data.shuffle_buffer_pairs,
        **asdict(rules),
        # Checkpoints of text that is not drawn anew need not know of it.
        **{name: getattr(data, name) for name in REDRAWN if getattr(data, name)},
        "drop_undecodable": data.drop_undecodable,
        "corpora": [
            {"name": plan.name, "weight": plan.weight}
            # Checkpoints of text without tags or trees need not know of them.
            | ({"source_tag": plan.source_tag} if plan.source_tag else {})
            | {
                name: getattr(plan.arguments, name)
                for name in (*TEXT_FIELDS, *READING_FIELDS)
                if name != "train_trees" or plan.arguments.train_trees
            }
            | {name: share for name in NOISE if (share := getattr(plan.arguments, name))}
            for plan in plans
        ],
    }


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
