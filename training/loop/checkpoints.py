# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The checkpoints of a run: what there is, what is whole, what to resume from."""

import json
import logging
import zipfile
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object
from safetensors import SafetensorError, safe_open
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import SAFE_WEIGHTS_NAME

from vaswani_hf.hub.names import ADAPTER_WEIGHTS

from ..settings.fields import VaswaniTrainingArguments


logger = logging.getLogger("training")
AUTO = "auto"  # resume from the newest complete checkpoint, if there is one
STATE = "trainer_state.json"
# What the library's trainer resumes from; where there are several names, FSDP's come last.
PARTS = (
    (SAFE_WEIGHTS_NAME, ADAPTER_WEIGHTS),
    ("optimizer.pt", "optimizer.bin", "optimizer_0"),
    ("scheduler.pt",),
    (STATE,),
)


def checkpoints(output_dir: str | Path) -> list[Path]:
    """The checkpoint folders of a run, oldest first."""
    found = {}
    for folder in Path(output_dir).glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        step = folder.name.rpartition("-")[2]
        if folder.is_dir() and step.isdecimal():
            found[int(step)] = folder
    return [found[step] for step in sorted(found)]


def weights_file(folder: Path) -> Path:
    """The weights of a checkpoint: of the model, or of an adapter alone."""
    adapter = folder / ADAPTER_WEIGHTS
    return adapter if adapter.is_file() else folder / SAFE_WEIGHTS_NAME


def find_damage(folder: Path) -> str | None:
    """What is missing or damaged in a checkpoint; `None` if it can be resumed from.

    The library's own checkpoints are complete too. No file is unpickled: what `torch.save` writes
    is a zip archive, and a truncated one lacks its directory, which comes last.
    """
    for names in PARTS:
        if not any((folder / name).exists() for name in names):
            return f"{names[0]} is missing"
    if not any(folder.glob("rng_state*.pth")):
        return "rng_state.pth is missing"
    weights = weights_file(folder)
    try:
        with safe_open(weights, framework="pt") as file:
            file.keys()
    except (SafetensorError, OSError) as error:
        return f"{weights.name} is damaged ({error})"
    for pattern in ("*.pt", "*.pth", "optimizer.bin"):
        for path in sorted(folder.glob(pattern)):
            if not zipfile.is_zipfile(path):
                return f"{path.name} is damaged"
    try:
        json.loads((folder / STATE).read_text(encoding="utf-8"))["global_step"]
    except (ValueError, KeyError, TypeError):
        return f"{STATE} is damaged"
    return None


def read_state(folder: Path) -> dict[str, Any]:
    """The state that the library's trainer keeps in a checkpoint."""
    state: dict[str, Any] = json.loads((folder / STATE).read_text(encoding="utf-8"))
    return state


def find_checkpoint(training: VaswaniTrainingArguments) -> str | None:
    """The checkpoint to resume from, as `--resume_from_checkpoint` asks.

    Checkpoints that are skipped are logged with the reason. Where processes see different disks,
    the newest checkpoint that all of them have is taken.

    Returns:
        A folder, or `None` for a fresh start.

    Raises:
        ValueError: if the named checkpoint is incomplete or damaged.
    """
    wanted = training.resume_from_checkpoint
    if wanted is None or str(wanted).lower() in ("false", "no"):
        return None
    if str(wanted).lower() not in (AUTO, "true"):
        damage = find_damage(Path(wanted))
        if damage:
            raise ValueError(f"resume_from_checkpoint={wanted} cannot be resumed from: {damage}.")
        _compare_processes(Path(wanted), training)
        return wanted
    whole = []
    for folder in reversed(checkpoints(training.output_dir)):
        damage = find_damage(folder)
        if damage is None:
            whole.append(folder.name)
        elif not whole:
            logger.info("Skipping %s: %s.", folder.name, damage)
    if training.world_size > 1:
        everywhere = set.intersection(*map(set, gather_object([whole])))
        whole = [name for name in whole if name in everywhere]
    if not whole:
        return None
    _compare_processes(Path(training.output_dir) / whole[0], training)
    logger.info("Resuming from %s.", whole[0])
    return str(Path(training.output_dir) / whole[0])


def _compare_processes(folder: Path, training: VaswaniTrainingArguments) -> None:
    """Warn if the checkpoint was written by another number of processes."""
    state = read_state(folder)
    clock = (state.get("stateful_callbacks") or {}).get("CheckpointClock", {})
    before = clock.get("attributes", {}).get("num_processes", training.world_size)
    if before != training.world_size and training.process_index == 0:
        logger.warning(
            "%s was written by %d processes and is resumed by %d: the rest of this epoch has other "
            "batches, in which pairs may come twice or not at all, and other dropout masks.",
            *(folder.name, before, training.world_size),
        )


def last_checkpoints(output_dir: str | Path, count: int, last_step: int) -> list[Path]:
    """The last `count` complete checkpoints up to an update, oldest first; fewer if there are."""
    whole = [
        folder
        for folder in checkpoints(output_dir)
        if int(folder.name.rpartition("-")[2]) <= last_step and not find_damage(folder)
    ]
    return whole[-count:]
