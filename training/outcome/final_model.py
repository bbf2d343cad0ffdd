# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The model a run ends with: the mean of the last checkpoints, or the best one (section 6.1)."""

import logging
from pathlib import Path
from typing import Any

from vaswani_hf import VaswaniForConditionalGeneration
from vaswani_hf.hub.folder import has_adapter

from ..loop.adapters import load_adapter
from ..loop.callbacks import logged_name
from ..loop.checkpoints import last_checkpoints
from ..loop.trainer import VaswaniTrainer
from .averaging import average_checkpoints


logger = logging.getLogger("training")


def final_checkpoints(trainer: VaswaniTrainer) -> list[Path]:
    """The checkpoints that the final model is made of, after training.

    Returns:
        The best one with `load_best_model_at_end`, which has loaded it; else the last
        `average_last` (section 6.1).
    """
    state, training = trainer.state, trainer.args
    if training.load_best_model_at_end and state.best_model_checkpoint is not None:
        return [Path(state.best_model_checkpoint)]
    return last_checkpoints(training.output_dir, training.average_last, state.global_step)


def load_average(model: VaswaniForConditionalGeneration, folders: list[Path]) -> None:
    """Put the mean of checkpoints into a model; one checkpoint alone is what it has already."""
    if len(folders) < 2:
        logger.info("One checkpoint: nothing to average.")
        return
    logger.info("Averaging %s.", ", ".join(folder.name for folder in folders))
    if has_adapter(model):
        load_adapter(model, average_checkpoints(folders))
        return
    missing, unexpected = model.load_state_dict(average_checkpoints(folders), strict=False)
    tied = set(model.all_tied_weights_keys)
    assert not unexpected and set(missing) <= tied, (missing, unexpected)


def best_checkpoint(trainer: VaswaniTrainer) -> dict[str, Any] | None:
    """The best checkpoint's folder, its update and its score; `None` where none was kept."""
    state, metric = trainer.state, trainer.args.metric_for_best_model
    if metric is None or state.best_model_checkpoint is None:
        return None
    return {
        "folder": Path(state.best_model_checkpoint).name,
        "update": state.best_global_step,
        logged_name(f"eval_{metric.removeprefix('eval_')}"): state.best_metric,
    }
