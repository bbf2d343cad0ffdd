# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How long the trainer's own updates take on this machine, and how much GPU memory."""

import copy
import logging
from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    ProgressCallback,
)

from ..data.collating import PairCollator
from ..loop.callbacks import Stopwatch
from ..loop.guided_alignment import GuidedAlignment
from ..loop.trainer import VaswaniTrainer
from ..settings.fields import VaswaniTrainingArguments


logger = logging.getLogger("training")
MAX_MINUTES = 1.0


@dataclass(frozen=True)
class Measurement:
    """Updates on this machine: how many, how long each took, and the GPU memory they needed."""

    updates: int
    seconds_per_update: float
    peak_bytes: int | None


def measure_updates(
    training: VaswaniTrainingArguments,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Dataset,
    num_updates: int,
    guided_alignment: GuidedAlignment | None = None,
) -> Measurement:
    """Time the trainer's own updates, at a learning rate of 0, which leaves the model as it is.

    Args:
        training: of the run; `output_dir` is where the trainer may make a folder.
        model: the model of the run; afterwards on the run's device.
        tokenizer: of the pairs.
        pairs: encoded training pairs.
        num_updates: how many are timed at most, after one that is not. After `MAX_MINUTES` no more
            are begun; where one takes longer, it is that one which is timed.
        guided_alignment: of the run, if there is one.
    """
    measured = copy.copy(training)
    changes: dict[str, Any] = {
        **{"max_steps": num_updates + 1, "learning_rate": 0.0, "report_to": []},
        **{"save_strategy": "no", "eval_strategy": "no", "logging_strategy": "no"},
        **{"save_minutes": None, "max_minutes": MAX_MINUTES, "load_best_model_at_end": False},
        **{"disable_tqdm": True, "push_to_hub": False},
        # Nothing is evaluated, and what begins later is planned for as if it began at once.
        **{"eval_on_start": False, "r_drop_after": 0},
    }
    for name, value in changes.items():
        setattr(measured, name, value)
    trainer = VaswaniTrainer(
        model=model,
        args=measured,
        train_dataset=pairs,
        data_collator=PairCollator(tokenizer, model),
        processing_class=tokenizer,
        guided_alignment=guided_alignment,
    )
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    logger.info("Measuring %d updates, or as many as a minute brings.", num_updates)
    watch = Stopwatch()
    trainer.add_callback(watch)  # the last callback, whose decisions stand
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    trainer.train()
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
    return Measurement(watch.updates, watch.seconds / watch.updates, peak)
