# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a trained model scores on the test sets before it is trained further."""

from collections.abc import Mapping
from typing import Any

from datasets import Dataset
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from ..loop.trainer import VaswaniTrainer
from .evaluation import evaluate_with_beams
from .scores import scores_of


TEST_SETS = ("general", "test")  # a run's own, whose translations are shown, comes last


class ScoresBefore(TrainerCallback, ExportableState):
    """Scores the model before the first update; every checkpoint keeps the scores.

    Attributes:
        scores: by split, as `scores_of` gives them; none in a run that was begun without.

    Args:
        trainer: evaluates.
        splits: encoded pairs by split.
    """

    def __init__(self, trainer: VaswaniTrainer, splits: Mapping[str, Dataset]) -> None:
        self.trainer, self.splits = trainer, splits
        self.scores: dict[str, Any] = {}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"args": {}, "attributes": {"scores": self.scores}}

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Score each split, or take the scores that a checkpoint keeps."""
        saved = state.stateful_callbacks.get(type(self).__name__, {})
        self.scores = dict(saved.get("attributes", {}).get("scores", {}))
        if state.global_step or self.scores:
            return
        for split, pairs in self.splits.items():
            evaluation = evaluate_with_beams(self.trainer, split, pairs)
            self.scores[split] = scores_of(evaluation, f"{split} before training")
