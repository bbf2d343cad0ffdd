# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Word-level distillation (Kim and Rush 2016): a teacher's distribution for every target piece.

The likeliest `distillation_top_k` pieces of each distribution, made to sum to 1, are stored beside
the training pairs in the cache of `datasets`, which stays on disk: the teacher reads each pair but
once. A later run with the same teacher, text and settings finds them.
"""

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from datasets.fingerprint import Hasher
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel
from transformers.utils import CONFIG_NAME

from ..data.collating import TEACHER_IDS, TEACHER_PROBS, PairCollator
from ..data.files import unwrap_dataset_errors
from ..settings.fields import VaswaniTrainingArguments
from .model import Tokenizers, load_tokenizers


logger = logging.getLogger("training")
TOKENS_AT_ONCE = 1024  # that get logits together
_VERSION = 1  # of what is stored; another number has all of it made again


def with_teacher(pairs: Dataset, training: VaswaniTrainingArguments, own: Tokenizers) -> Dataset:
    """Pairs, and for each target piece the teacher's likeliest pieces and their probabilities.

    Args:
        pairs: encoded and cleaned.
        training: names the teacher's folder, and how many pieces are kept.
        own: the tokenizers of the run.

    Raises:
        ValueError: if the teacher has another vocabulary.
    """
    folder, top_k = Path(str(training.distillation_teacher)), training.distillation_top_k
    check_vocabulary(folder, own)
    made_of = (pairs._fingerprint, _content_of(folder), top_k, training.bf16, _VERSION)
    teacher: Teacher | None = None

    def ask(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        nonlocal teacher
        if teacher is None:  # not where all is in the cache
            logger.info("The teacher %s reads the training pairs.", folder)
            teacher = Teacher(folder, training, own)
        return teacher.answer(rows["input_ids"], rows["labels"])

    with unwrap_dataset_errors():
        return pairs.map(
            ask, batched=True, desc="Asking the teacher", new_fingerprint=Hasher.hash(made_of)
        )


def check_vocabulary(folder: Path, own: Tokenizers) -> None:
    """Refuse a teacher whose ids stand for other pieces than those of the run.

    Raises:
        ValueError: naming the teacher, and how many pieces differ.
    """
    for side, ours, theirs in zip(
        ("source", "target"), _both(own), _both(load_tokenizers(folder)), strict=True
    ):
        expected, given = theirs.get_vocab(), ours.get_vocab()
        differing = {piece for piece, _ in expected.items() ^ given.items()}
        if differing:
            raise ValueError(
                f"distillation_teacher={folder} has another {side} vocabulary: of "
                f"{len(expected)} pieces there and {len(given)} here {len(differing)} differ. Set "
                f"tokenizer={folder}, or leave tokenizer out."
            )


def _both(tokenizers: Tokenizers) -> tuple[Any, Any]:
    return tokenizers[0], tokenizers[1] or tokenizers[0]


def _content_of(folder: Path) -> tuple[str, ...]:
    digests = []
    for path in [folder / CONFIG_NAME, *sorted(folder.glob("*.safetensors"))]:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return tuple(digests)


class Teacher:
    """A trained model that tells its distribution for each piece of given targets.

    Args:
        folder: the model's.
        training: the device, the precision, `eval_batch_tokens` and `distillation_top_k`.
        tokenizers: of source and target.
    """

    def __init__(
        self, folder: Path, training: VaswaniTrainingArguments, tokenizers: Tokenizers
    ) -> None:
        model: PreTrainedModel = AutoModelForSeq2SeqLM.from_pretrained(folder)
        self.model = model.to(training.device).eval()
        # A matrix may have rows beyond the last piece, which a student has not.
        self.num_pieces = len(_both(tokenizers)[1])
        self.top_k = min(training.distillation_top_k, self.num_pieces)
        self.training, self.collate = training, PairCollator(tokenizers[0], model)

    def answer(self, sources: list[list[int]], targets: list[list[int]]) -> dict[str, list[Any]]:
        """Ids and probabilities, for each pair those of all its target pieces in a row.

        Args:
            sources: ids, `</s>` included.
            targets: likewise.
        """
        found: dict[str, list[Any]] = {
            name: [None] * len(sources) for name in (TEACHER_IDS, TEACHER_PROBS)
        }
        for places in self.batches(sources, targets):
            rows = [{"input_ids": sources[place], "labels": targets[place]} for place in places]
            ids, probs = self.read(self.collate(rows))
            first = 0
            for place in places:
                last = first + len(targets[place])
                found[TEACHER_IDS][place] = ids[first:last].ravel()
                found[TEACHER_PROBS][place] = probs[first:last].ravel()
                first = last
        return found

    def batches(self, sources: list[list[int]], targets: list[list[int]]) -> Iterator[list[int]]:
        """Places of pairs, shortest first, of at most `eval_batch_tokens` padded tokens a side."""
        longest = [max(map(len, both)) for both in zip(sources, targets, strict=True)]
        batch: list[int] = []
        for place in np.argsort(longest, kind="stable").tolist():
            if (len(batch) + 1) * longest[place] > self.training.eval_batch_tokens and batch:
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch

    @torch.inference_mode()
    def read(self, batch: dict[str, torch.Tensor]) -> tuple[np.ndarray, np.ndarray]:
        """The likeliest pieces of each real target position, and their probabilities.

        Returns:
            `(tokens, top_k)` each, in int32 and float16; a row of probabilities sums to 1.
        """
        device = self.training.device
        labels = batch.pop("labels").to(device)
        inputs = {name: each.to(device) for name, each in batch.items()}
        kept = []
        with torch.autocast(device.type, torch.bfloat16, enabled=self.training.bf16):
            states = self.model.base_model(**inputs, use_cache=False).last_hidden_state
            for part in states[labels >= 0].split(TOKENS_AT_ONCE):  # (tokens, d_model)
                logits = self.model.get_output_embeddings()(part)[:, : self.num_pieces]
                best = logits.float().topk(self.top_k, dim=-1)
                kept.append((best.indices.int(), best.values.softmax(dim=-1).half()))
        ids, probs = (torch.cat(each).cpu().numpy() for each in zip(*kept, strict=True))
        return ids, probs
