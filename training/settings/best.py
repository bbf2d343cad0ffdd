# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which checkpoints are kept: the best one, by a metric, and the last ones, to average."""

from transformers import TrainingArguments


# What evaluations that search measure, by the task; the first is the metric unless one is chosen.
MEASURED = {
    "translation": ("bleu", "exact_match"),
    "parsing": (
        *("f1", "recall", "precision", "complete_match", "tagging_accuracy", "well_formed"),
    ),
}
LOWER_IS_BETTER = ("loss", "perplexity_per_token")
SCHEDULES_BY_METRIC = ("reduce_lr_on_plateau", "greedy")  # which lower the rate by evaluations


def choose_metric(training: TrainingArguments) -> None:
    """Set `metric_for_best_model`, where a setting asks for the best checkpoint, and its direction.

    The metric is BLEU, or for parsing F1, where evaluations measure it, and the loss elsewhere.

    Raises:
        ValueError: if evaluations do not measure the metric that was chosen.
    """
    measured = ["loss", "perplexity_per_token"]
    by_search = MEASURED[training.task]
    if training.predict_with_generate and not training.prediction_loss_only:
        measured += by_search
        if training.compound_split_bleu is not None:
            measured.append("compound_split_bleu")
    wants_best = (
        training.early_stopping_patience is not None
        or training.load_best_model_at_end
        or training.save_strategy == "best"
    )
    if training.metric_for_best_model is None and wants_best:
        training.metric_for_best_model = (
            f"eval_{by_search[0]}" if by_search[0] in measured else "eval_loss"
        )
    if training.metric_for_best_model is None:
        return
    name = training.metric_for_best_model.removeprefix("eval_")
    if name not in measured:
        raise ValueError(
            f"metric_for_best_model={training.metric_for_best_model} is not measured; set one of "
            f"{', '.join(f'eval_{known}' for known in measured)}"
            + (
                "."
                if by_search[0] in measured
                else f", or eval_{by_search[0]} with predict_with_generate."
            )
        )
    if training.greater_is_better is None:
        training.greater_is_better = name not in LOWER_IS_BETTER


def check_best(training: TrainingArguments) -> None:
    """Refuse what would lose the best checkpoint, or would never find it.

    Raises:
        ValueError: if nothing is evaluated, or an evaluation may come without a checkpoint.
    """
    if training.metric_for_best_model is None:
        return
    if training.lr_scheduler_type in SCHEDULES_BY_METRIC:  # they need no checkpoints
        return
    asked = what_compares(training)
    evaluating, saving = training.eval_strategy, training.save_strategy
    if evaluating == "no":
        raise ValueError(
            f"{asked} compares evaluations, and eval_strategy=no makes none; set eval_strategy to "
            f"steps or epoch."
        )
    if saving not in ("best", evaluating.value):
        raise ValueError(
            f"{asked} keeps the checkpoint of the best evaluation, and save_strategy="
            f"{saving.value} need not make one there; set save_strategy to best, or to "
            f"{evaluating.value} like eval_strategy."
        )
    if saving == "steps":
        eval_steps, save_steps = training.eval_steps, training.save_steps
        is_mixed = (eval_steps < 1) != (save_steps < 1)  # below 1 they are shares of the run
        if is_mixed or round(1e6 * eval_steps) % round(1e6 * save_steps):
            raise ValueError(
                f"{asked} keeps the checkpoint of the best evaluation; make eval_steps="
                f"{eval_steps} a multiple of save_steps={save_steps}, or set save_strategy to best."
            )


def check_kept(training: TrainingArguments) -> None:
    """Refuse what would keep fewer checkpoints than are averaged.

    Raises:
        ValueError: naming both settings, and what would do.
    """
    limit, average_last = training.save_total_limit, training.average_last
    keeps_best = training.metric_for_best_model is not None and (
        training.lr_scheduler_type not in SCHEDULES_BY_METRIC
    )
    if training.load_best_model_at_end and average_last > 1:
        raise ValueError(
            f"load_best_model_at_end=True keeps one checkpoint, and average_last={average_last} "
            f"averages several; set average_last to 1 to keep the best."
        )
    if limit is None:
        return
    if limit < average_last:
        raise ValueError(
            f"save_total_limit={limit} keeps fewer checkpoints than average_last={average_last} "
            f"needs; raise save_total_limit or lower average_last."
        )
    if keeps_best and limit == average_last and not training.load_best_model_at_end:
        raise ValueError(
            f"save_total_limit={limit} would keep the best checkpoint in place of one that "
            f"average_last={average_last} needs; set save_total_limit to {average_last + 1} or "
            f"more."
        )


def what_compares(training: TrainingArguments) -> str:
    """The setting that compares evaluations, and its value."""
    if training.early_stopping_patience is not None:
        return f"early_stopping_patience={training.early_stopping_patience}"
    if training.load_best_model_at_end:
        return "load_best_model_at_end=True"
    return f"metric_for_best_model={training.metric_for_best_model}"
