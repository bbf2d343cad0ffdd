# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The checkpoints of a run: which are whole, which is the newest, which are averaged."""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import SAFE_WEIGHTS_NAME

from .arguments import VaswaniTrainingArguments


AUTO = "auto"  # resume from the newest whole checkpoint, or start afresh
# What the library's trainer needs to go on, written in this order.
PARTS = (SAFE_WEIGHTS_NAME, "optimizer.pt", "scheduler.pt", "trainer_state.json")


def checkpoints(output_dir: str | Path) -> list[Path]:
    """The checkpoint folders of a run, oldest first."""
    found = {}
    for folder in Path(output_dir).glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        step = folder.name.rpartition("-")[2]
        if folder.is_dir() and step.isdecimal():
            found[int(step)] = folder
    return [found[step] for step in sorted(found)]


def what_is_torn(folder: Path) -> str | None:
    """Why a checkpoint cannot be resumed from, or `None` where it is whole."""
    for part in PARTS:
        if not (folder / part).is_file():
            return f"{part} is missing"
    try:
        with safe_open(folder / SAFE_WEIGHTS_NAME, framework="pt") as file:
            file.keys()
    except SafetensorError as error:
        return f"{SAFE_WEIGHTS_NAME} is damaged ({error})"
    try:
        json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
    except ValueError:
        return "trainer_state.json is damaged"
    return None


def find_checkpoint(training: VaswaniTrainingArguments) -> str | None:
    """The checkpoint to resume from, as `--resume_from_checkpoint` asks.

    Returns:
        A folder, or `None` for a fresh start.

    Raises:
        ValueError: if the checkpoint named by its path is not whole.
    """
    wanted = training.resume_from_checkpoint
    if wanted is None or str(wanted).lower() in ("false", "no"):
        return None
    if str(wanted).lower() in (AUTO, "true"):
        whole = [folder for folder in checkpoints(training.output_dir) if not what_is_torn(folder)]
        return str(whole[-1]) if whole else None
    torn = what_is_torn(Path(wanted))
    if torn:
        raise ValueError(f"resume_from_checkpoint={wanted} is no whole checkpoint: {torn}.")
    return wanted


def check_output_dir(training: VaswaniTrainingArguments, checkpoint: str | None) -> None:
    """Refuse to mix a new run's checkpoints with an older run's.

    Raises:
        ValueError: if the run starts afresh in a folder that has whole checkpoints.
    """
    whole = [folder for folder in checkpoints(training.output_dir) if not what_is_torn(folder)]
    if checkpoint is None and whole:
        raise ValueError(
            f"{training.output_dir} has checkpoints of another run, up to {whole[-1].name}. Go on "
            f"with it by --resume_from_checkpoint {AUTO}, or choose another --output_dir."
        )


def last_checkpoints(output_dir: str | Path, count: int, last_step: int) -> list[Path]:
    """The last `count` whole checkpoints up to an update, oldest first; or as many as there are."""
    whole = [
        folder
        for folder in checkpoints(output_dir)
        if int(folder.name.rpartition("-")[2]) <= last_step and not what_is_torn(folder)
    ]
    return whole[-count:]
