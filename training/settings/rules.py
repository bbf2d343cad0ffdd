# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Rules between settings, which no field can check alone."""

from collections.abc import Collection

from transformers.trainer_utils import IntervalStrategy

from vaswani_hf import VaswaniConfig
from vaswani_hf.tokenization_vaswani import check_vocab_size

from .best import what_compares
from .budget import TokenBudget
from .fields import Arguments, DataArguments, VaswaniTrainingArguments


def check_together(arguments: Arguments) -> None:
    """Refuse settings of different parts that contradict each other, and a model that cannot be."""
    model, data, training = arguments.model, arguments.data, arguments.training
    if not training.model_name_or_path:  # whose own configuration decides
        vocab_size = model.get("vocab_size", VaswaniConfig.vocab_size)
        if not (data.tokenizer or data.segmented):
            check_vocab_size(vocab_size)
        VaswaniConfig(**model)
    if data.streaming and arguments.chosen.get("max_padding") is None:
        training.max_padding = 1.0
    is_share = 0 < training.warmup_steps < 1
    if is_share and training.learning_rate is None and training.max_steps < 1:
        raise ValueError(
            f"warmup_steps={training.warmup_steps} is a share of the updates, and the highest "
            f"learning rate is worked out from their number: set learning_rate or max_steps."
        )
    has_text = data.train_source or data.train_file or data.corpora
    if has_text and not (data.dataset or data.validation_source or data.validation_file):
        note = do_without_validation(training, arguments.given)
        arguments.notes += [note] if note else []


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
        (what_compares(training), training.metric_for_best_model is not None),
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


def check_streaming(data: DataArguments, training: VaswaniTrainingArguments) -> None:
    """Refuse what streaming cannot do.

    Raises:
        ValueError: naming the field, and what would do.
    """
    if not data.streaming:
        return
    if training.max_steps < 1:
        raise ValueError(
            f"streaming knows no end of an epoch: set max_steps, got max_steps={training.max_steps}"
            f" with num_train_epochs={training.num_train_epochs}."
        )
    if data.drop_duplicates:
        raise ValueError(
            "drop_duplicates needs to see the whole corpus, which streaming does not; drop them "
            "beforehand, or leave out streaming."
        )
    if data.segmented and not (data.tokenizer or training.model_name_or_path):
        raise ValueError(
            "segmented text gets an id for every piece that occurs, and streaming sees a sample; "
            "name a tokenizer, or leave out streaming."
        )
    if training.dataloader_num_workers:
        raise ValueError(
            f"streaming encodes in a thread of its own: leave out dataloader_num_workers, got "
            f"dataloader_num_workers={training.dataloader_num_workers}."
        )
    for name in ("save_strategy", "eval_strategy"):
        if getattr(training, name) == "epoch":
            raise ValueError(f"streaming knows no end of an epoch: {name} must be steps or no.")
    if training.dry_run:
        raise ValueError(
            "dry_run counts the pairs and batches of an epoch, which a stream does not know; plan "
            "with a sample of the text, without streaming."
        )
    if training.pad_to_multiple_of is not None:
        raise ValueError("streaming cannot fill its batches: leave out pad_to_multiple_of.")
    if training.ignore_data_skip:
        raise ValueError("streaming resumes at its place at once; leave out ignore_data_skip.")
    TokenBudget.of(training).check_max_length(data.max_length)
