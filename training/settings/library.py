# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Settings of the library: those without effect here, those that do harm, and wrong values."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import torch
from transformers import Seq2SeqTrainer, TrainingArguments
from transformers.integrations import (
    get_reporting_integration_callbacks,
    is_tensorboard_available,
    is_trackio_available,
)
from transformers.optimization import get_scheduler
from transformers.trainer_pt_utils import AcceleratorConfig

from .kinds import read_switch


_BY_TOKENS = "batches are counted in tokens; set source_tokens and target_tokens"
_OWN_EVALUATION = "evaluation adds up losses and compares texts, and gathers no arrays"
_ALL_SPLITS = "a run trains, and scores the validation and test sets that it is given"

# Settings of the library that would change nothing: why, or what to set in their place.
WITHOUT_EFFECT: Mapping[str, str] = {
    "per_device_train_batch_size": _BY_TOKENS,
    "per_device_eval_batch_size": "batches are counted in tokens; set eval_batch_tokens",
    "auto_find_batch_size": _BY_TOKENS,
    "train_sampling_strategy": _BY_TOKENS,
    "sortish_sampler": _BY_TOKENS,
    "length_column_name": _BY_TOKENS,
    "dataloader_drop_last": "every pair is in a batch of each epoch",
    "dataloader_in_order": "batches come in the order that a resumed run repeats",
    "dataloader_multiprocessing_context": "workers are started by PyTorch's default method",
    "remove_unused_columns": "the model is given the ids of a pair and nothing else",
    "label_names": "the labels are always named `labels`",
    "neftune_noise_alpha": "the model adds no noise to embeddings; set dropout",
    "use_liger_kernel": "Liger has no kernels for this model",
    "liger_kernel_config": "Liger has no kernels for this model",
    "fp16_full_eval": "evaluation has the precision of training; set fp16",
    "bf16_full_eval": "evaluation has the precision of training; set bf16",
    "use_cache": "training keeps no keys and values of earlier positions",
    "eval_do_concat_batches": _OWN_EVALUATION,
    "eval_use_gather_object": _OWN_EVALUATION,
    "eval_accumulation_steps": _OWN_EVALUATION,
    "include_for_metrics": _OWN_EVALUATION,
    "batch_eval_metrics": _OWN_EVALUATION,
    "do_train": _ALL_SPLITS,
    "do_eval": _ALL_SPLITS,
    "do_predict": _ALL_SPLITS,
}
# Settings of the library that would do harm: why, or what to set in their place.
UNUSABLE: Mapping[str, str] = {
    "label_smoothing_factor": "it would replace the loss of the model; set label_smoothing",
    "generation_config": "it would replace num_beams, length_penalty, length_penalty_type and "
    "max_extra_tokens; set those",
    "restore_callback_states_from_checkpoint": "it would stop the clock of max_minutes, which a "
    "resumed run restores in any case",
    "save_only_model": "its checkpoints could not be resumed",
    "enable_jit_checkpoint": "SIGTERM saves a checkpoint and stops without it",
    "deepspeed": "its checkpoints could not be resumed; to shard a model, launch with "
    "--config_file training/configs/fsdp2_8.yaml",
    "debug": "it fails on masks; NaN or infinite losses and weights end a run without it",
    "parallelism_config": "it cannot be written as text; launch with a file of training/configs",
}
# Entries of `accelerator_config` by which Accelerate would split the batches among processes again.
_SPLITTING = ("split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler")


def refuse_unusable(chosen: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse the settings in `WITHOUT_EFFECT` and `UNUSABLE`, but switches set to their default.

    Args:
        chosen: what recipes and the command line set, as it was written.
        defaults: the library's, by name.

    Raises:
        ValueError: naming the first one and why.
    """
    for table, verdict in [(WITHOUT_EFFECT, "would have no effect"), (UNUSABLE, "cannot be used")]:
        for name in table:
            value, usual = chosen.get(name), defaults.get(name)
            is_left_as_is = isinstance(usual, bool) and read_switch(value) == usual
            if value is not None and value != [] and not is_left_as_is:
                raise ValueError(f"{name}={value} {verdict}: {table[name]}.")


def choose_device(training: TrainingArguments) -> None:
    """Set `use_cpu` where `bf16` meets no other device, as the library asks for."""
    if training.bf16 and not torch.accelerator.is_available():
        training.use_cpu = True


def check_accelerator(given: Any) -> None:
    """Refuse a mapping for `accelerator_config`, or its JSON, that has an unknown key.

    Raises:
        ValueError: naming the key and those that there are.
    """
    if isinstance(given, str) and given.startswith("{"):
        given = json.loads(given)
    known = {spec.name for spec in dataclasses.fields(AcceleratorConfig)}
    for key in given if isinstance(given, dict) else ():
        if key not in known:
            raise ValueError(
                f"accelerator_config: unknown key '{key}'; there are {', '.join(sorted(known))}."
            )


def check_library(training: TrainingArguments) -> None:
    """Refuse what the library would refuse only after the text is read, or not at all.

    Args:
        training: after the library's own checks.

    Raises:
        ValueError: naming the first setting, and what would do.
    """
    _check_schedule(training)
    _check_optimizer(training)
    _check_precision(training)
    _check_compiler(training)
    _check_workers(training)
    _check_processes(training)


def _check_schedule(training: TrainingArguments) -> None:
    options, name = training.lr_scheduler_kwargs, training.lr_scheduler_type.value
    if options and not isinstance(options, dict):
        raise ValueError(f"lr_scheduler_kwargs must be a mapping, got {options!r}.")
    if name == "inverse_sqrt":
        if options:
            raise ValueError(
                f"lr_scheduler_kwargs={options} would have no effect on "
                f"lr_scheduler_type=inverse_sqrt, which is equation 3; set learning_rate and "
                f"warmup_steps, or another type."
            )
        return
    if name in ("greedy", "reduce_lr_on_plateau"):
        return
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    try:
        get_scheduler(name, optimizer, 1, 2, scheduler_specific_kwargs=options)
    except (ValueError, TypeError) as error:
        given = f" with lr_scheduler_kwargs={options}" if options else ""
        raise ValueError(f"lr_scheduler_type={name}{given}: {_one_line(error)}") from error


def _check_optimizer(training: TrainingArguments) -> None:
    # These look at the model. What Adam and its like need is in `RANGES`.
    if training.optim.value.startswith(("galore", "apollo", "lomo", "adalomo")):
        return
    try:
        Seq2SeqTrainer.get_optimizer_cls_and_kwargs(training)
    except (ImportError, ValueError) as error:
        given = f" with optim_args={training.optim_args}" if training.optim_args else ""
        raise ValueError(f"optim={training.optim.value}{given}: {_one_line(error)}") from error


def _check_precision(training: TrainingArguments) -> None:
    if training.fp16 and training.device.type == "cpu":
        raise ValueError(
            "fp16=True needs a GPU: on a CPU, Accelerate would train in float32 all the same; set "
            "bf16 or neither."
        )


def _check_compiler(training: TrainingArguments) -> None:
    if not training.torch_compile:
        return
    from accelerate.utils import DynamoBackend

    known = [backend.value.lower() for backend in DynamoBackend]
    backend, mode = training.torch_compile_backend, training.torch_compile_mode
    if backend.lower() not in known:
        raise ValueError(
            f"torch_compile_backend must be one of {', '.join(known)}, got "
            f"torch_compile_backend={backend}."
        )
    modes = torch._inductor.list_mode_options()
    if mode is not None and backend == "inductor" and mode not in modes:
        raise ValueError(
            f"torch_compile_mode must be one of {', '.join(modes)}, got torch_compile_mode={mode}."
        )


def _check_workers(training: TrainingArguments) -> None:
    if training.dataloader_persistent_workers and not training.dataloader_num_workers:
        raise ValueError(
            "dataloader_persistent_workers=True needs workers: set dataloader_num_workers."
        )


def _check_processes(training: TrainingArguments) -> None:
    if training.fsdp and training.world_size == 1:
        raise ValueError(
            f"fsdp={training.fsdp} needs several processes: accelerate launch --config_file "
            f"training/configs/fsdp2_8.yaml training/run.py RECIPE."
        )
    usual = AcceleratorConfig()
    for name in _SPLITTING:
        value = getattr(training.accelerator_config, name)
        if value != getattr(usual, name):
            raise ValueError(
                f"accelerator_config: {name}={value} would split the batches again, and each "
                f"process is given its own; leave {name} out."
            )


def check_reports(training: TrainingArguments) -> None:
    """Refuse a `report_to` that the library would refuse only after the text is read.

    Raises:
        ValueError: if the library does not know it, or its package is not installed.
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
            raise ValueError(
                f"report_to={' '.join(training.report_to)}: {_one_line(error)}"
            ) from error


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
