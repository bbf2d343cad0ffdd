# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Checkpoints are written completely or not at all, and a failed write is told in one line."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelerate.utils import gather_object
from safetensors import SafetensorError
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from ..settings.fields import VaswaniTrainingArguments
from .checkpoints import AUTO, checkpoints, find_damage


# Before the name of a checkpoint that is being written; the library ignores such a folder.
UNFINISHED = "unfinished-"


class SaveError(RuntimeError):
    """A checkpoint could not be written; the message says where, why and what to do."""


@contextmanager
def write_checkpoint(
    training: VaswaniTrainingArguments, step: int, is_sharded: bool
) -> Iterator[str]:
    """A folder to write a checkpoint into; it gets its final name once all of it is on the disk.

    A run that is killed meanwhile leaves `unfinished-checkpoint-STEP`; one that runs out of disk
    space leaves nothing of it. All processes enter and leave together.

    Args:
        training: names the output folder, and says which process this is.
        step: the update after which the checkpoint is taken.
        is_sharded: whether the processes write together (FSDP): one that fails cannot tell the
            others.

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
    except Exception as error:
        if not _is_failed_write(error):
            raise
        problems.append(_failure_message(final, error))
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
        _rename_to(unfinished, final)
    training.distributed_state.wait_for_everyone()
    if training.local_process_index == 0 and unfinished.exists():  # a node with a disk of its own
        _rename_to(unfinished, final)
    training.distributed_state.wait_for_everyone()


@contextmanager
def explain_failed_write(what: Path) -> Iterator[None]:
    """Turn a failed write of a part of the output folder into an error that says what to do.

    Raises:
        SaveError: in place of the error that writing raised.
    """
    try:
        yield
    except Exception as error:
        if not _is_failed_write(error):
            raise
        raise SaveError(_failure_message(what, error)) from error


def _is_failed_write(error: Exception) -> bool:
    # torch.save and tokenizers have no class of error for it: the one names its source file, the
    # other the system's number.
    return isinstance(error, OSError | SafetensorError) or any(
        sign in str(error) for sign in ("inline_container", "(os error ")
    )


def _failure_message(final: Path, error: BaseException) -> str:
    while error.__context__ is not None:  # the first error; torch.save fails again as it closes
        error = error.__context__
    run_dir = final if any(checkpoints(final)) else final.parent
    earlier = [folder.name for folder in checkpoints(run_dir) if not find_damage(folder)]
    try:
        space = f" ({shutil.disk_usage(run_dir).free / 2**20:,.0f} MiB are free)"
    except OSError:
        space = ""
    remedy = (
        f"Free some space, then resume from {earlier[-1]} with --resume_from_checkpoint {AUTO}."
        if earlier
        else "There is no checkpoint yet: free some space, or choose another --output_dir."
    )
    return f"{final} could not be written{space}: {str(error).splitlines()[0]}. {remedy}"


def _flush(folder: Path) -> None:
    """Flush files to the disk: a full one may report it only now, and power may fail later."""
    for path in [*folder.rglob("*"), folder]:
        if path.is_file() or os.name == "posix":
            try:
                descriptor = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
            except FileNotFoundError:  # another process has renamed it, and flushes it itself
                continue
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _rename_to(unfinished: Path, final: Path) -> None:
    """Give a checkpoint its name, in place of a damaged or earlier one of this name."""
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
