# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Watching a run: what it translates, which checkpoint is the best, when it has learnt enough."""

import html
import logging
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import (
    TensorBoardCallback,
    TrackioCallback,
    get_reporting_integration_callbacks,
    is_tensorboard_available,
    is_trackio_available,
)
from transformers.trainer_utils import IntervalStrategy


if TYPE_CHECKING:  # both import this module
    from .arguments import VaswaniTrainingArguments
    from .trainer import VaswaniTrainer


logger = logging.getLogger("training")
NUM_SAMPLES = 5  # translations that are shown after an evaluation
COLUMNS = ("source", "translation", "reference")
LOWER_IS_BETTER = ("loss", "perplexity_per_token")
_MARKDOWN = re.compile(r"([\\`*_\[\]|])")


def logged_name(name: str) -> str:
    """The name of a figure in the log: a loss says its unit there."""
    return f"{name}_nats_per_token" if name == "loss" or name.endswith("_loss") else name


# The best checkpoint


def choose_metric(training: "VaswaniTrainingArguments") -> None:
    """Fill in `metric_for_best_model`, where a best checkpoint is asked for, and its direction.

    It is BLEU where evaluations measure BLEU, and the loss elsewhere.

    Raises:
        ValueError: if the metric that was chosen is not measured.
    """
    measured = ["loss", "perplexity_per_token"]
    if training.predict_with_generate and not training.prediction_loss_only:
        measured += ["bleu", "exact_match"]
        if training.compound_split_bleu is not None:
            measured.append("compound_split_bleu")
    wants_best = (
        training.early_stopping_patience is not None
        or training.load_best_model_at_end
        or training.save_strategy == "best"
    )
    if training.metric_for_best_model is None and wants_best:
        training.metric_for_best_model = "eval_bleu" if "bleu" in measured else "eval_loss"
    if training.metric_for_best_model is None:
        return
    name = training.metric_for_best_model.removeprefix("eval_")
    if name not in measured:
        raise ValueError(
            f"metric_for_best_model={training.metric_for_best_model} is not measured; there are "
            f"{', '.join(f'eval_{known}' for known in measured)}"
            + ("." if "bleu" in measured else ", and eval_bleu with predict_with_generate.")
        )
    if training.greater_is_better is None:
        training.greater_is_better = name not in LOWER_IS_BETTER


def check_best(training: "VaswaniTrainingArguments") -> None:
    """Refuse what would lose the best checkpoint, or would never find it.

    Raises:
        ValueError: if patience is not positive, nothing is evaluated, evaluations come without
            checkpoints, or the best checkpoint would take the place of one that is averaged.
    """
    patience, metric = training.early_stopping_patience, training.metric_for_best_model
    if patience is not None and patience < 1:
        raise ValueError(
            f"early_stopping_patience must be at least 1 evaluation, got "
            f"early_stopping_patience={patience}."
        )
    if metric is None or training.lr_scheduler_type in ("reduce_lr_on_plateau", "greedy"):
        return  # a schedule that follows the metric needs no checkpoints
    asked = _what_compares(training)
    evaluating, saving = training.eval_strategy, training.save_strategy
    if evaluating == "no":
        raise ValueError(
            f"{asked} compares evaluations and eval_strategy=no makes none; set eval_strategy to "
            f"steps or epoch."
        )
    if saving not in ("best", evaluating.value):
        raise ValueError(
            f"{asked} keeps the checkpoint of the best evaluation and save_strategy="
            f"{saving.value} need not make one there; set save_strategy to best, or to "
            f"{evaluating.value} as eval_strategy is."
        )
    if saving == "steps":
        eval_steps, save_steps = training.eval_steps, training.save_steps
        is_mixed = (eval_steps < 1) != (save_steps < 1)  # below 1 they are shares of the run
        if is_mixed or round(1e6 * eval_steps) % round(1e6 * save_steps):
            raise ValueError(
                f"{asked} keeps the checkpoint of the best evaluation; make eval_steps="
                f"{eval_steps} a multiple of save_steps={save_steps}, or set save_strategy to best."
            )
    limit, average_last = training.save_total_limit, training.average_last
    if limit is not None and limit <= average_last and not training.load_best_model_at_end:
        raise ValueError(
            f"save_total_limit={limit} would keep the best checkpoint in the place of one of "
            f"average_last={average_last}; set save_total_limit to {average_last + 1} or more."
        )


def _what_compares(training: "VaswaniTrainingArguments") -> str:
    """The setting that compares evaluations, as it is written."""
    if training.early_stopping_patience is not None:
        return f"early_stopping_patience={training.early_stopping_patience}"
    if training.load_best_model_at_end:
        return "load_best_model_at_end=True"
    return f"metric_for_best_model={training.metric_for_best_model}"


def do_without_validation(
    training: "VaswaniTrainingArguments", given: Collection[str]
) -> str | None:
    """Evaluate nothing during training, as there is no validation set.

    Args:
        training: its `eval_strategy` becomes `no`.
        given: the settings of the command line, which are not to be overruled.

    Returns:
        What the log should say; `None` where nothing was to be evaluated anyway.

    Raises:
        ValueError: if a setting cannot do without a validation set.
    """
    following = training.lr_scheduler_type in ("reduce_lr_on_plateau", "greedy")
    asked = [
        (f"lr_scheduler_type={training.lr_scheduler_type.value}", following),
        (_what_compares(training), training.metric_for_best_model is not None),
        ("eval_on_start=True", training.eval_on_start),
        (
            f"eval_strategy={training.eval_strategy.value}",
            "eval_strategy" in given and training.eval_strategy != "no",
        ),
    ]
    for setting, needs_validation in asked:
        if needs_validation:
            raise ValueError(
                f"{setting} needs a validation set, and there is none: give --validation_source "
                f"and --validation_target, or --validation_file, or leave it out."
            )
    if training.eval_strategy == "no":
        return None
    training.eval_strategy, training.do_eval = IntervalStrategy.NO, False
    return "There is no validation set: nothing is evaluated during training."


def final_checkpoints(trainer: "VaswaniTrainer", last: list[Path]) -> list[Path]:
    """The checkpoints that the final model is made of.

    Args:
        trainer: after training.
        last: the last checkpoints, which are averaged (section 6.1).

    Returns:
        The best one alone with `load_best_model_at_end`, which has loaded it; else `last`.
    """
    best = trainer.state.best_model_checkpoint
    if trainer.args.load_best_model_at_end and best is not None:
        return [Path(best)]
    return last


def best_checkpoint(trainer: "VaswaniTrainer") -> dict[str, Any] | None:
    """The best checkpoint's folder, its update and its score; `None` where none was kept."""
    state, metric = trainer.state, trainer.args.metric_for_best_model
    if metric is None or state.best_model_checkpoint is None:
        return None
    return {
        "folder": Path(state.best_model_checkpoint).name,
        "update": state.best_global_step,
        logged_name(f"eval_{metric.removeprefix('eval_')}"): state.best_metric,
    }


class EarlyStopping(TrainerCallback):
    """Ends training after `early_stopping_patience` evaluations without a new best.

    The evaluations are those in the log, which every checkpoint carries: a resumed run goes on
    counting, with whatever patience it is given.
    """

    def __init__(self, training: "VaswaniTrainingArguments") -> None:
        metric = training.metric_for_best_model
        assert training.early_stopping_patience is not None and metric is not None
        self.patience = training.early_stopping_patience
        self.name = logged_name(f"eval_{metric.removeprefix('eval_')}")
        self.sign = 1 if training.greater_is_better else -1
        self.has_stopped = False

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Look at the evaluations of a run that goes on."""
        self._count(state)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """End a resumed run that was over; the library makes at least one update."""
        if self.has_stopped:
            control.should_training_stop = control.should_save = True

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """End training, with a checkpoint, if this evaluation was one too many."""
        if self._count(state):
            control.should_training_stop = control.should_save = True

    def _count(self, state: TrainerState) -> bool:
        scored = [entry for entry in state.log_history if self.name in entry]
        best, num_since_best = None, 0
        for entry in scored:
            if best is None or self.sign * entry[self.name] > self.sign * best[self.name]:
                best, num_since_best = entry, 0
            else:
                num_since_best += 1
        is_over = num_since_best >= self.patience
        if is_over and best is not None and not self.has_stopped:
            logger.info(
                "Stopping at update %d: %s was best at update %d, %.4g, %d evaluations ago.",
                *(state.global_step, self.name, best["step"], best[self.name], num_since_best),
            )
        self.has_stopped = is_over
        return is_over


# TensorBoard and trackio


def check_reports(training: "VaswaniTrainingArguments") -> None:
    """Refuse a `report_to` that the library would refuse only once the text is read.

    Raises:
        ValueError: if it is unknown to the library, or its package is not installed.
    """
    try:
        callbacks = get_reporting_integration_callbacks(training.report_to)
    except ValueError as error:
        raise ValueError(f"report_to={' '.join(training.report_to)}: {error}") from error
    for name, is_available in [
        ("tensorboard", is_tensorboard_available),
        ("trackio", is_trackio_available),
    ]:
        if name in training.report_to and not is_available():
            raise ValueError(f"report_to={name} needs a package: pip install {name}")
    for callback in callbacks:
        try:
            callback()  # looks for its package, and for nothing else
        except (RuntimeError, ImportError) as error:
            raise ValueError(f"report_to={' '.join(training.report_to)}: {error}") from error


def report_translations(trainer: "VaswaniTrainer", split: str) -> None:
    """Send the first translations of an evaluation to TensorBoard and trackio, where they listen.

    Args:
        trainer: after the evaluation; `report_to` has said where to.
        split: what was evaluated, the prefix of the figures: `eval`, `validation` or `test`.
    """
    if not trainer.is_world_process_zero() or not trainer.samples:
        return
    samples, step = trainer.samples[:NUM_SAMPLES], trainer.state.global_step
    name = f"{split}/translations"
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, TensorBoardCallback) and callback.tb_writer is not None:
            callback.tb_writer.add_text(name, markdown_table(samples), step)
            callback.tb_writer.flush()
        elif isinstance(callback, TrackioCallback):
            import trackio

            table = trackio.Table(columns=list(COLUMNS), data=[list(row) for row in samples])
            trackio.log({name: table, "train/global_step": step})


def markdown_table(samples: list[tuple[str, str, str]]) -> str:
    """Sources, translations and references as a Markdown table that shows every character."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [tuple(_literal(text) for text in sample) for sample in samples]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _literal(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False))
