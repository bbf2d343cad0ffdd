# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Settings of the best checkpoint: the metric that chooses it, and what would lose it."""

from transformers import TrainingArguments


LOWER_IS_BETTER = ("loss", "perplexity_per_token")


def choose_metric(training: TrainingArguments) -> None:
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


def check_best(training: TrainingArguments) -> None:
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
    asked = what_compares(training)
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


def what_compares(training: TrainingArguments) -> str:
    """The setting that compares evaluations, as it is written."""
    if training.early_stopping_patience is not None:
        return f"early_stopping_patience={training.early_stopping_patience}"
    if training.load_best_model_at_end:
        return "load_best_model_at_end=True"
    return f"metric_for_best_model={training.metric_for_best_model}"
