# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Rules between settings of the model, of the data and of training."""

from collections.abc import Collection

from transformers.trainer_utils import IntervalStrategy

from vaswani_hf import VaswaniConfig
from vaswani_hf.tokenization_vaswani import check_vocab_size

from .best import SCHEDULES_BY_METRIC, what_compares
from .budget import TokenBudget
from .fields import (
    FILES,
    GENERAL_FILES,
    PARSING,
    TRANSLATION,
    Arguments,
    DataArguments,
    VaswaniTrainingArguments,
)
from .stages import check_stages


def check_together(arguments: Arguments) -> None:
    """Refuse settings of different parts that contradict each other, and an invalid model.

    What follows from settings together is set: where the training text comes from files and no
    files of a validation set are named, nothing is evaluated during training, and a note says so;
    streamed batches are as full as can be, where no `max_padding` was chosen.

    Raises:
        ValueError: naming the setting, and what would do.
    """
    data, training = arguments.data, arguments.training
    check_start(arguments)
    check_model(arguments)
    if data.streaming and arguments.chosen.get("max_padding") is None:
        training.max_padding = 1.0
    check_warmup(training)
    check_task(arguments)
    check_redrawn(arguments)
    check_alignment(arguments)
    check_distillation(arguments)
    check_r_drop(arguments)
    has_files = data.train_source or data.train_file or data.train_trees or data.corpora
    if has_files and not (
        data.dataset or data.validation_source or data.validation_file or data.validation_trees
    ):
        note = do_without_validation(training, arguments.given)
        arguments.notes += [note] if note else []


def check_task(arguments: Arguments) -> None:
    """Refuse trees for translation, and anything but trees for parsing.

    Raises:
        ValueError: naming the setting, and what would do.
    """
    data, task = arguments.data, arguments.training.task
    trees = [name for name in FILES if name.endswith("_trees") and getattr(data, name)]
    trees += ["corpora"] if any('"train_trees"' in text for text in data.corpora) else []
    files = ("dataset", *FILES, *GENERAL_FILES)
    others = [name for name in files if name not in trees and getattr(data, name)]
    if task == TRANSLATION and trees:
        raise ValueError(f"{trees[0]} is for task={PARSING}, got task={task}; set task.")
    if task == PARSING and others:
        raise ValueError(
            f"task={PARSING} learns from trees, and {others[0]} names other text; leave it out, "
            f"and set train_trees."
        )
    if task == PARSING and not {"train_trees", "corpora"} & set(trees):
        raise ValueError(f"task={PARSING} learns from trees, and none are named; set train_trees.")
    if data.words_in_trees and data.numbers_in_trees:
        raise ValueError(
            "numbers_in_trees writes words before tags, and numbers before these; leave out "
            "words_in_trees."
        )
    if data.guided_alignment_of_trees and task != PARSING:
        raise ValueError(
            f"guided_alignment_of_trees is for task={PARSING}, got task={task}; name files in "
            f"guided_alignment."
        )
    for name in ("segmented", "swap_sides"):
        if task == PARSING and getattr(data, name):
            raise ValueError(f"{name}=True is for translation, got task={task}; leave it out.")


def check_alignment(arguments: Arguments) -> None:
    """Refuse settings of alignments where none are named, and what they cannot be learned with.

    Raises:
        ValueError: naming the setting.
    """
    data, training, setting = arguments.data, arguments.training, arguments.data.aligned_by
    if setting is None:
        for name in ("weight", "layer", "head"):
            needless = f"guided_alignment_{name}"
            if arguments.chosen.get(needless) is not None:
                raise ValueError(
                    f"{needless}={arguments.chosen[needless]} needs alignments, and none are "
                    f"named; set guided_alignment."
                )
        return
    for other, why in [
        (data.streamed_by, "links are of the pieces that pairs have when all text is read before"),
        ("segmented" if data.segmented else None, "links are of words, and the text is cut"),
        ("swap_sides" if data.swap_sides else None, "links go from the named source to the target"),
    ]:
        if other is not None:
            raise ValueError(f"{setting} does not go with {other}: {why}; leave one of them out.")
    for name in ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"):
        if (getattr(training, name, None) or {}).get("use_reentrant"):
            raise ValueError(
                f"{name}: use_reentrant=true would keep gradients from the head that {setting} "
                f"trains; leave it out."
            )
    if training.lora_rank is not None:
        raise ValueError(
            f"{setting} names its head in the model's configuration, which an adapter does not "
            f"hold; leave out lora_rank."
        )
    if training.n_gpu > 1:
        raise ValueError(
            f"{setting} takes one GPU a process, and this one has {training.n_gpu}; start it by "
            f"`accelerate launch`."
        )


def check_distillation(arguments: Arguments) -> None:
    """Refuse settings of a teacher where none is named, and text that it could not read beforehand.

    Raises:
        ValueError: naming the setting.
    """
    teacher = arguments.training.distillation_teacher
    for name in ("weight", "top_k"):
        setting = f"distillation_{name}"
        if not teacher and arguments.chosen.get(setting) is not None:
            raise ValueError(
                f"{setting}={arguments.chosen[setting]} needs a teacher, and none is named; set "
                f"distillation_teacher."
            )
    if teacher and (streamed_by := arguments.data.streamed_by):
        raise ValueError(
            f"distillation_teacher reads all training pairs beforehand, and {streamed_by} reads or "
            f"draws them during training; leave one of them out."
        )


def check_r_drop(arguments: Arguments) -> None:
    """Refuse a beginning of R-Drop without it, and a teacher beside it.

    Raises:
        ValueError: naming the setting.
    """
    alpha, begin = arguments.training.r_drop, arguments.training.r_drop_after
    if alpha is None and begin:
        raise ValueError(f"r_drop_after={begin} needs R-Drop, which is off; set r_drop.")
    if alpha is not None and arguments.training.distillation_teacher:
        raise ValueError(
            f"distillation_teacher does not go with r_drop={alpha:g}, whose loss knows labels "
            f"alone; leave one of them out."
        )


def check_start(arguments: Arguments) -> None:
    """Refuse a recipe for trained models without one.

    Raises:
        ValueError: naming the setting.
    """
    if arguments.training.model_name_or_path == "":
        raise ValueError(
            f"The recipe {arguments.recipe} goes on from a trained model: set model_name_or_path, "
            f"a folder or an id on the Hub."
        )


def check_model(arguments: Arguments) -> None:
    """Refuse a configuration that no model can have.

    Raises:
        ValueError: naming the field and its value.
    """
    if arguments.training.model_name_or_path:  # its own configuration holds
        return
    is_learned = not (arguments.data.tokenizer or arguments.data.segmented)
    if is_learned:
        check_vocab_size(arguments.model.get("vocab_size", VaswaniConfig.vocab_size))
    VaswaniConfig(**arguments.model)


def check_warmup(training: VaswaniTrainingArguments) -> None:
    """Refuse a share of an unknown number of updates to warm up, where the peak follows from it.

    Raises:
        ValueError: naming the settings that would do.
    """
    is_share = 0 < training.warmup_steps < 1
    if is_share and training.learning_rate is None and training.max_steps < 1:
        raise ValueError(
            f"warmup_steps={training.warmup_steps} is a share of the updates, and the highest "
            f"learning rate follows from their number: set learning_rate or max_steps."
        )


def do_without_validation(training: VaswaniTrainingArguments, given: Collection[str]) -> str | None:
    """Set that nothing is evaluated during training, for a run without a validation set.

    Args:
        training: its `eval_strategy` becomes `no`.
        given: names of the settings of the command line, which are not overruled.

    Returns:
        A sentence for the log; `None` if nothing was to be evaluated anyway.

    Raises:
        ValueError: if a setting needs a validation set.
    """
    follows_metric = training.lr_scheduler_type in SCHEDULES_BY_METRIC
    evaluation_is_given = "eval_strategy" in given and training.eval_strategy != "no"
    for setting, needs_validation in [
        (f"lr_scheduler_type={training.lr_scheduler_type.value}", follows_metric),
        (what_compares(training), training.metric_for_best_model is not None),
        ("eval_on_start=True", training.eval_on_start),
        (f"eval_strategy={training.eval_strategy.value}", evaluation_is_given),
    ]:
        if needs_validation:
            raise ValueError(
                f"{setting} needs a validation set, and there is none: give --validation_source "
                f"and --validation_target, --validation_file or --validation_trees, or leave out "
                f"the setting."
            )
    if training.eval_strategy == "no":
        return None
    training.eval_strategy, training.do_eval = IntervalStrategy.NO, False
    return "There is no validation set: nothing is evaluated during training."


def check_redrawn(arguments: Arguments) -> None:
    """Refuse stages without corpora or of other updates, and text that cannot be drawn anew.

    Raises:
        ValueError: naming the setting, and what would do.
    """
    data, setting = arguments.data, arguments.data.redrawn_by
    check_stages(data.stages, arguments.training.max_steps)
    if data.stages and not data.corpora:
        raise ValueError("stages mix corpora, and there are none; name them in corpora.")
    if setting in (None, "stages"):
        return
    if arguments.training.task == PARSING:
        raise ValueError(
            f"{setting} is for task={TRANSLATION}, as trees are made of whole tags, got task="
            f"{PARSING}; leave it out."
        )
    if data.segmented:
        raise ValueError(
            f"{setting} has text cut anew, and segmented=True says that it is cut already; leave "
            f"one of them out."
        )


def check_streaming(data: DataArguments, training: VaswaniTrainingArguments) -> None:
    """Refuse settings that streaming cannot heed, of text or of pairs that are drawn anew.

    Raises:
        ValueError: naming the setting, and what would do.
    """
    setting = data.streamed_by
    if setting is None:
        return
    if training.max_steps < 1:
        raise ValueError(
            f"{setting} has no epochs of a fixed length; set max_steps, got max_steps="
            f"{training.max_steps} with num_train_epochs={training.num_train_epochs}."
        )
    if training.dataloader_num_workers:
        raise ValueError(
            f"{setting} makes batches in a thread of its own and takes no workers; leave out "
            f"dataloader_num_workers, got dataloader_num_workers={training.dataloader_num_workers}."
        )
    for name in ("save_strategy", "eval_strategy"):
        if getattr(training, name) == "epoch":
            raise ValueError(
                f"{setting} has no epochs of a fixed length; {name} must be steps or no."
            )
    if training.pad_to_multiple_of is not None:
        raise ValueError(f"{setting} cannot fill its batches; leave out pad_to_multiple_of.")
    if training.ignore_data_skip:
        raise ValueError(f"{setting} resumes at once where it stopped; leave out ignore_data_skip.")
    TokenBudget.of(training).check_max_length(data.max_length)
    if not data.streaming:
        return
    if data.drop_duplicates:
        raise ValueError(
            "drop_duplicates needs to see the whole corpus, and streaming keeps only a part of it; "
            "drop duplicates beforehand, or leave out streaming."
        )
    if data.segmented and not (data.tokenizer or training.model_name_or_path):
        raise ValueError(
            "segmented needs the whole text for its vocabulary, and streaming reads a sample; "
            "name a tokenizer, or leave out streaming."
        )
    if training.dry_run:
        raise ValueError(
            "dry_run counts the pairs and batches of an epoch, and streaming has no epochs; leave "
            "out streaming, and name a sample of the text."
        )
