# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The CPU threads of a process of a run, and what else of a processor shows in its numbers.

Sums are cut among the threads and so rounded by their number: a resumed run takes as many as the
checkpoint was computed with. Which library multiplies matrices is the processor's matter
(`layers_vaswani`): a run that goes on elsewhere says if it is another one.
"""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from vaswani_hf import VaswaniConfig, layers_vaswani
from vaswani_hf.processor import available_cores, paying_threads, threads_of_environment

from ..settings.budget import TokenBudget
from ..settings.fields import VaswaniTrainingArguments
from .resumption import SETTINGS, Settings


logger = logging.getLogger("training")

PRODUCTS = "products"  # the entry of a checkpoint's settings


def take_threads(
    training: VaswaniTrainingArguments,
    config: VaswaniConfig,
    checkpoint: Path | None,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Let torch compute by as many threads as pay, and say so; set `training.threads` to them.

    On a GPU torch's own choice stays, unless `threads` is set.

    Args:
        training: settings of the run.
        config: of its model.
        checkpoint: that the run is resumed from; `None` for a fresh start.
        environment: variables of this process.
    """
    if training.threads is None and training.device.type != "cpu":
        return
    before = None if checkpoint is None else threads_of_checkpoint(checkpoint)
    rows = max(TokenBudget.of(training).batch_tokens)
    cores = max(available_cores() // processes_here(training, environment), 1)
    training.threads, reason = choose_threads(
        training.threads,
        threads_of_environment(environment),
        before,
        paying_threads(rows, config.d_model, cores),
        cores,
    )
    torch.set_num_threads(training.threads)
    if training.process_index:
        return
    logger.info(
        "CPU threads of a process: %d; cores for it: %d (%s).", training.threads, cores, reason
    )
    if checkpoint is not None and before not in (None, training.threads):
        logger.warning(
            "%s was computed by %d threads and is resumed by %d, which round sums differently: the "
            "weights will not be bit-identical to those of an undisturbed run.",
            *(checkpoint.name, before, training.threads),
        )


def note_products(
    training: VaswaniTrainingArguments, settings: Settings, checkpoint: Path | None
) -> None:
    """Let checkpoints say which library multiplies on a CPU; warn where it was another before."""
    if training.device.type != "cpu":
        return
    settings.keep(PRODUCTS, layers_vaswani.PRODUCTS)
    before = None if checkpoint is None else _of_checkpoint(checkpoint, PRODUCTS)
    if checkpoint is not None and before not in (None, layers_vaswani.PRODUCTS):
        logger.warning(
            "%s was computed on a processor where products are by %s, here they are by %s, which "
            "round differently: the weights will not be bit-identical to those of an undisturbed "
            "run.",
            *(checkpoint.name, before, layers_vaswani.PRODUCTS),
        )


def choose_threads(
    given: int | None, of_environment: int | None, before: int | None, paying: int, cores: int
) -> tuple[int, str]:
    """The number of threads, and why that one.

    Args:
        given: by the recipe or the command line.
        of_environment: by `OMP_NUM_THREADS`, where a user has set it.
        before: those of the checkpoint.
        paying: those that pay for the model.
        cores: of this process.
    """
    if given is not None:
        return given, "as `threads` says"
    if of_environment is not None:
        return of_environment, "as OMP_NUM_THREADS says"
    if before is not None and before <= cores:
        return before, "as many as before"
    if paying < cores:
        return paying, "more would not pay for a model and batches of this size"
    return paying, "one each"


def processes_here(
    training: VaswaniTrainingArguments, environment: Mapping[str, str] = os.environ
) -> int:
    """How many processes of the run share this machine's cores."""
    # Launchers of several processes say it, but for mpirun: then all might be here.
    return int(environment.get("LOCAL_WORLD_SIZE", training.world_size))


def threads_of_checkpoint(checkpoint: Path) -> int | None:
    """The threads that a checkpoint was computed with; `None` where it does not say so."""
    threads: int | None = _of_checkpoint(checkpoint, "threads")
    return threads


def _of_checkpoint(checkpoint: Path, name: str) -> Any:
    path = checkpoint / SETTINGS
    if not path.is_file():
        return None
    return json.loads(path.read_text(encoding="utf-8"))["training"].get(name)
