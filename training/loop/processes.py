# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How many processes were asked for, and how many came."""

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
    """Refuse launch lines that start fewer processes than they ask for, which nothing else says.

    Without GPUs, `accelerate launch --num_processes 2` starts a single process; with `--multi_gpu`
    but without `--use_cpu true` it starts two that train a model each, into one folder.

    Args:
        training: arguments of this process; they know how many processes it works with.
        environment: variables that the launcher has set.

    Raises:
        ValueError: with the line that does what was meant.
    """
    asked = int(environment.get("WORLD_SIZE", "1"))
    if asked > 1 and training.world_size == 1:
        raise ValueError(
            f"{asked} processes were started, and each would train alone: there is no GPU for "
            f"them, and they were not told to use the CPU. Launch them as\n  "
            f"{CPU_LAUNCH.format(count=asked)}"
        )
    is_accelerate = "ACCELERATE_MIXED_PRECISION" in environment
    if is_accelerate and "MASTER_ADDR" in environment and "WORLD_SIZE" not in environment:
        raise ValueError(
            "Several processes were asked for and one was started: without --multi_gpu, accelerate "
            "starts no others on CPUs. Launch them as\n  "
            f"{CPU_LAUNCH.format(count='N')}\nor leave --num_processes out."
        )


@contextmanager
def raise_on_all_processes(training: "TrainingArguments") -> Iterator[None]:
    """Raise on every process the `ValueError` that one of them raises within.

    Alone it would leave, and the others would wait for it.
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
    """End the work of several processes, the last thing that a run does.

    What averages gradients goes first. Where it outlives Python's hold on the processes' group, as
    it would, PyTorch takes the group down without letting go of the interpreter, for which a
    thread of gloo may be waiting: now and then a process that has finished would never end.
    """
    trainer.model_wrapped = trainer.model
    trainer.accelerator.free_memory()
    trainer.accelerator.end_training()
