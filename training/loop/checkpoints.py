# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The checkpoints of a run: written whole or not at all; the newest; those that are averaged."""

import json
import logging
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object
from safetensors import SafetensorError, safe_open
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import SAFE_WEIGHTS_NAME

from ..settings.fields import VaswaniTrainingArguments


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
# What a run writes into its folder before it has a whole checkpoint, and what at its end.
WRITTEN_FIRST = ("config.yaml", "tokenizer", f"{PREFIX_CHECKPOINT_DIR}-*")
WRITTEN_AT_END = (
    *("config.json", "generation_config.json", "*.safetensors", "*.safetensors.index.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "target_tokenizer"),
    *("*_vaswani.py", "README.md", "results.json", "log_history.json"),
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


def read_state(folder: Path) -> dict[str, Any]:
    """What the library's trainer keeps of its state in a checkpoint."""
    state: dict[str, Any] = json.loads((folder / STATE).read_text(encoding="utf-8"))
    return state


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
    state = read_state(folder)
    clock = (state.get("stateful_callbacks") or {}).get("CheckpointClock", {})
    before = clock.get("attributes", {}).get("num_processes", training.world_size)
    if before != training.world_size and training.process_index == 0:
        logger.warning(
            "%s was written by %d processes and is resumed by %d: the rest of this epoch has other "
            "batches, so that pairs may come twice or not at all in it, and dropout is drawn anew.",
            *(folder.name, before, training.world_size),
        )


def check_output_dir(
    training: VaswaniTrainingArguments, checkpoint: str | None, is_begun: bool = False
) -> None:
    """Refuse to replace what is no part of this run; drop an unfinished checkpoint.

    A run that goes on from a checkpoint in its folder replaces what it has left there before.

    Args:
        training: names the folder.
        checkpoint: what the run goes on from; `None` for a fresh start.
        is_begun: whether a run has begun in the folder that is not live any more: what a run
            writes before its first checkpoint is its.

    Raises:
        ValueError: if a fresh start would mix with the checkpoints of another run, or anything that
            the run writes is there already; or if its model would replace the one it starts from.
    """
    folder, start = Path(training.output_dir), training.model_name_or_path
    if start and Path(start).is_dir() and folder.is_dir() and folder.samefile(start):
        raise ValueError(
            f"output_dir={folder} is the folder of model_name_or_path={start}: the run would "
            f"replace the model that it starts from. Choose another --output_dir."
        )
    is_resumed = checkpoint is not None and Path(checkpoint).resolve().parent == folder.resolve()
    if not is_resumed:
        whole = [path for path in checkpoints(folder) if not what_is_torn(path)]
        if whole:
            raise ValueError(
                f"{folder} has checkpoints of another run, up to {whole[-1].name}. Go on with it "
                f"by --resume_from_checkpoint {AUTO}, or choose another --output_dir."
            )
        patterns = WRITTEN_AT_END if is_begun else (*WRITTEN_AT_END, *WRITTEN_FIRST)
        names = sorted(path.name for path in folder.glob("*"))
        replaced = [name for name in names if any(fnmatchcase(name, each) for each in patterns)]
        if replaced and training.process_index == 0:
            raise ValueError(
                f"{folder} has files that this run would replace: {', '.join(replaced)}. Choose "
                f"another --output_dir, or move them away."
            )
    if training.local_process_index == 0:
        for unfinished in folder.glob(f"{UNFINISHED}{PREFIX_CHECKPOINT_DIR}-*"):
            logger.info("Removing %s: its run ended while it was being written.", unfinished.name)
            shutil.rmtree(unfinished, ignore_errors=True)


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
    except Exception as error:
        if not _is_failed_write(error):
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


@contextmanager
def writing(what: Path) -> Iterator[None]:
    """Say it in one line where a part of the output folder, or all of it, could not be written.

    Raises:
        SaveError: in place of what writing has raised.
    """
    try:
        yield
    except Exception as error:
        if not _is_failed_write(error):
            raise
        raise SaveError(_why_not(what, error)) from error


def _is_failed_write(error: Exception) -> bool:
    # torch.save and tokenizers have no error of their own for it: the one names its writer's source
    # file, the other the system's number.
    return isinstance(error, OSError | SafetensorError) or any(
        sign in str(error) for sign in ("inline_container", "(os error ")
    )


def _why_not(final: Path, error: BaseException) -> str:
    while error.__context__ is not None:  # what came first; torch.save fails again as it closes
        error = error.__context__
    run_dir = final if any(checkpoints(final)) else final.parent
    earlier = [folder.name for folder in checkpoints(run_dir) if not what_is_torn(folder)]
    try:
        space = f" ({shutil.disk_usage(run_dir).free / 2**20:,.0f} MiB are free there)"
    except OSError:
        space = ""
    way_out = (
        f"The last whole checkpoint is {earlier[-1]}: make room and go on with "
        f"--resume_from_checkpoint {AUTO}."
        if earlier
        else "There is no whole checkpoint: make room, or choose another --output_dir."
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
