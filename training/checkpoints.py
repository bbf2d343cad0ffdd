# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The checkpoints of a run: written whole or not at all; the newest; those that are averaged."""

import json
import logging
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelerate.utils import gather_object
from safetensors import SafetensorError, safe_open
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import SAFE_WEIGHTS_NAME

from .arguments import VaswaniTrainingArguments


logger = logging.getLogger("training")
AUTO = "auto"  # resume from the newest whole checkpoint, or start afresh
STATE = "trainer_state.json"
# What the library's trainer needs to go on; of several names, FSDP's come after the usual one.
PARTS = (
    (SAFE_WEIGHTS_NAME,),
    ("optimizer.pt", "optimizer.bin", "optimizer_0"),
    ("scheduler.pt",),
    (STATE,),
)
# A checkpoint in the making; the library sees no checkpoint in a folder of this name.
UNFINISHED = "unfinished-"


class SaveError(RuntimeError):
    """A checkpoint could not be written; the message says where, why and what would do."""


def checkpoints(output_dir: str | Path) -> list[Path]:
    """The checkpoint folders of a run, oldest first."""
    found = {}
    for folder in Path(output_dir).glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        step = folder.name.rpartition("-")[2]
        if folder.is_dir() and step.isdecimal():
            found[int(step)] = folder
    return [found[step] for step in sorted(found)]


def what_is_torn(folder: Path) -> str | None:
    """Why a checkpoint cannot be resumed from, or `None` where it is whole.

    It need not be of this project's writing. No file is unpickled; what `torch.save` writes is a
    zip archive, whose directory comes last.
    """
    for names in PARTS:
        if not any((folder / name).exists() for name in names):
            return f"{names[0]} is missing"
    if not any(folder.glob("rng_state*.pth")):
        return "rng_state.pth is missing"
    try:
        with safe_open(folder / SAFE_WEIGHTS_NAME, framework="pt") as file:
            file.keys()
    except (SafetensorError, OSError) as error:
        return f"{SAFE_WEIGHTS_NAME} is damaged ({error})"
    for pattern in ("*.pt", "*.pth", "optimizer.bin"):
        for path in sorted(folder.glob(pattern)):
            if not zipfile.is_zipfile(path):
                return f"{path.name} is damaged"
    try:
        json.loads((folder / STATE).read_text(encoding="utf-8"))["global_step"]
    except (ValueError, KeyError, TypeError):
        return f"{STATE} is damaged"
    return None


def find_checkpoint(training: VaswaniTrainingArguments) -> str | None:
    """The checkpoint to resume from, as `--resume_from_checkpoint` asks.

    What is passed over, and why, goes to the log. Where processes see different disks, the newest
    checkpoint that all of them have is taken.

    Returns:
        A folder, or `None` for a fresh start.

    Raises:
        ValueError: if the checkpoint named by its path is not whole.
    """
    wanted = training.resume_from_checkpoint
    if wanted is None or str(wanted).lower() in ("false", "no"):
        return None
    if str(wanted).lower() not in (AUTO, "true"):
        torn = what_is_torn(Path(wanted))
        if torn:
            raise ValueError(f"resume_from_checkpoint={wanted} is no whole checkpoint: {torn}.")
        _compare_processes(Path(wanted), training)
        return wanted
    whole = []
    for folder in reversed(checkpoints(training.output_dir)):
        torn = what_is_torn(folder)
        if torn is None:
            whole.append(folder.name)
        elif not whole:
            logger.info("Passing over %s, which is torn: %s.", folder.name, torn)
    if training.world_size > 1:
        everywhere = set.intersection(*map(set, gather_object([whole])))
        whole = [name for name in whole if name in everywhere]
    if not whole:
        return None
    _compare_processes(Path(training.output_dir) / whole[0], training)
    logger.info("Resuming from %s.", whole[0])
    return str(Path(training.output_dir) / whole[0])


def _compare_processes(folder: Path, training: VaswaniTrainingArguments) -> None:
    """Warn where the run goes on with another number of processes than the checkpoint's."""
    state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    clock = (state.get("stateful_callbacks") or {}).get("CheckpointClock", {})
    before = clock.get("attributes", {}).get("num_processes", training.world_size)
    if before != training.world_size and training.process_index == 0:
        logger.warning(
            "%s was written by %d processes and is resumed by %d: the rest of this epoch has other "
            "batches, so that pairs may come twice or not at all in it, and dropout is drawn anew.",
            *(folder.name, before, training.world_size),
        )


def check_output_dir(training: VaswaniTrainingArguments, checkpoint: str | None) -> None:
    """Refuse to mix a new run's checkpoints with an older run's; drop an unfinished one.

    Raises:
        ValueError: if the run starts afresh in a folder that has whole checkpoints.
    """
    whole = [folder for folder in checkpoints(training.output_dir) if not what_is_torn(folder)]
    if checkpoint is None and whole:
        raise ValueError(
            f"{training.output_dir} has checkpoints of another run, up to {whole[-1].name}. Go on "
            f"with it by --resume_from_checkpoint {AUTO}, or choose another --output_dir."
        )
    if training.local_process_index == 0:
        for folder in Path(training.output_dir).glob(f"{UNFINISHED}{PREFIX_CHECKPOINT_DIR}-*"):
            logger.info("Removing %s: its run ended while it was being written.", folder.name)
            shutil.rmtree(folder, ignore_errors=True)


def last_checkpoints(output_dir: str | Path, count: int, last_step: int) -> list[Path]:
    """The last `count` whole checkpoints up to an update, oldest first; or as many as there are."""
    whole = [
        folder
        for folder in checkpoints(output_dir)
        if int(folder.name.rpartition("-")[2]) <= last_step and not what_is_torn(folder)
    ]
    return whole[-count:]


@contextmanager
def saving(training: VaswaniTrainingArguments, step: int, is_sharded: bool) -> Iterator[str]:
    """A folder to write a checkpoint into, which gets its name once all of it is on the disk.

    A run that is killed meanwhile leaves `unfinished-checkpoint-STEP`; one that runs out of disk
    space leaves nothing of it. Every process enters and leaves together.

    Args:
        training: where, and who writes.
        step: the update after which the checkpoint is taken.
        is_sharded: whether writing is a joint work (FSDP): a process that fails in the middle of it
            cannot tell the others.

    Raises:
        SaveError: on every process, if one of them could not write.
    """
    final = Path(training.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{step}"
    unfinished = final.with_name(UNFINISHED + final.name)
    problems = []
    try:
        unfinished.mkdir(parents=True, exist_ok=True)
        yield str(unfinished)
        _flush(unfinished)
    except (OSError, SafetensorError, RuntimeError) as error:
        # torch.save reports a failed write by a RuntimeError that names its writer's source file.
        if isinstance(error, RuntimeError) and "inline_container" not in str(error):
            raise
        problems.append(_why_not(final, error))
        if is_sharded:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise SaveError(problems[0]) from error
    if training.world_size > 1:
        problems = gather_object(problems)
    if problems:
        if training.local_process_index == 0:
            shutil.rmtree(unfinished, ignore_errors=True)
        raise SaveError(problems[0])
    if training.process_index == 0:
        _put(unfinished, final)
    training.distributed_state.wait_for_everyone()
    if training.local_process_index == 0 and unfinished.exists():  # a node with a disk of its own
        _put(unfinished, final)
    training.distributed_state.wait_for_everyone()


def _why_not(final: Path, error: BaseException) -> str:
    while error.__context__ is not None:  # what came first; torch.save fails again as it closes
        error = error.__context__
    earlier = [folder.name for folder in checkpoints(final.parent) if not what_is_torn(folder)]
    try:
        space = f" ({shutil.disk_usage(final.parent).free / 2**20:,.0f} MiB are free there)"
    except OSError:
        space = ""
    way_out = (
        f"The last whole checkpoint is {earlier[-1]}: make room and go on with "
        f"--resume_from_checkpoint {AUTO}."
        if earlier
        else "There is no earlier one: make room, or choose another --output_dir."
    )
    return f"{final} could not be written{space}: {str(error).splitlines()[0]}. {way_out}"


def _flush(folder: Path) -> None:
    """Bring files to the disk: a full one may say so only now, and power may fail later."""
    for path in [*folder.rglob("*"), folder]:
        if path.is_file() or os.name == "posix":
            try:
                descriptor = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
            except (
                FileNotFoundError
            ):  # another process's, which has renamed it and flushes it itself
                continue
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _put(unfinished: Path, final: Path) -> None:
    """Give a checkpoint its name, in place of a torn or earlier one of this name."""
    replaced = None
    if final.exists():
        replaced = final.with_name(f"{UNFINISHED}{final.name}-replaced")
        shutil.rmtree(replaced, ignore_errors=True)
        final.rename(replaced)
    unfinished.rename(final)
    if os.name == "posix":
        descriptor = os.open(final.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    if replaced is not None:
        shutil.rmtree(replaced, ignore_errors=True)
