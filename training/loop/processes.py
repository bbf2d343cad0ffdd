# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Several processes: whether as many run as were asked for, shared errors, a clean end."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:  # `training.loop.signals` is imported before anything that takes time
    from transformers import TrainingArguments


CPU_LAUNCH = (
    "accelerate launch --multi_gpu --num_processes {count} --num_machines 1 --mixed_precision no "
    "--dynamo_backend no training/run.py RECIPE --use_cpu true"
)


def check_launch(
    training: "TrainingArguments", environment: Mapping[str, str] = os.environ
) -> None:
    """Refuse commands that start fewer processes than they ask for; accelerate says nothing.

    Without GPUs, `accelerate launch --num_processes 2` starts a single process; with `--multi_gpu`
    but without `--use_cpu true` it starts two that train a model each, into one folder.

    Args:
        training: has the number of processes that work together.
        environment: variables that the launcher has set.

    Raises:
        ValueError: with the command that does what was meant.
    """
    asked = int(environment.get("WORLD_SIZE", "1"))
    if asked > 1 and training.world_size == 1:
        raise ValueError(
            f"{asked} processes were started, and each would train alone: there is no GPU for "
            f"them, and --use_cpu true is missing. Launch them by\n  "
            f"{CPU_LAUNCH.format(count=asked)}"
        )
    is_accelerate = "ACCELERATE_MIXED_PRECISION" in environment
    if is_accelerate and "MASTER_ADDR" in environment and "WORLD_SIZE" not in environment:
        raise ValueError(
            "Several processes were asked for and one was started: on CPUs accelerate needs "
            "--multi_gpu to start the others. Launch them by\n  "
            f"{CPU_LAUNCH.format(count='N')}\nor leave --num_processes out."
        )


@contextmanager
def raise_on_all_processes(training: "TrainingArguments") -> Iterator[None]:
    """Raise on every process the `ValueError` that one of them raises within.

    Otherwise that process would end and the others would wait for it.
    """
    from accelerate.utils import gather_object

    problems = []
    try:
        yield
    except ValueError as error:
        problems.append(error)
    if training.world_size > 1:
        problems = gather_object(problems)
    if problems:
        raise problems[0]


def end_processes(trainer: Any) -> None:
    """Part from the other processes, as the last thing that a run does.

    The wrapper that averages gradients is dropped first. If it outlived the process group, PyTorch
    would destroy the group while it holds the interpreter's lock, for which a thread of gloo may be
    waiting: now and then a finished process would hang.
    """
    trainer.model_wrapped = trainer.model
    trainer.accelerator.free_memory()
    trainer.accelerator.end_training()
