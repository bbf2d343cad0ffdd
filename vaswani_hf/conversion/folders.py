# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Folders of models: read with what is wrong in them named, written whole or not at all."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, PreTrainedConfig
from transformers.utils import CONFIG_NAME


AnyPath = str | PathLike[str]


def load_config(folder: Path, source: AnyPath) -> PreTrainedConfig:
    """The configuration of a folder, of whichever kind of model.

    Args:
        folder: the folder.
        source: what a message calls it.

    Raises:
        ValueError: if there is none, or one that cannot be read.
    """
    if not (folder / CONFIG_NAME).is_file():
        raise ValueError(f"{source} is no model's folder: it has no {CONFIG_NAME}.")
    try:
        return AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, StrictDataclassError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{CONFIG_NAME} of {source} cannot be read: {reason}") from error


def check_target(target: AnyPath) -> None:
    """Refuse with a `FileExistsError` a target that exists and is not an empty folder."""
    target = Path(target)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise FileExistsError(
            f"{target} exists already; name a new folder, so that nothing there is lost."
        )


@contextlib.contextmanager
def new_folder(target: AnyPath) -> Iterator[Path]:
    """A folder that appears under its name only when it is whole.

    Raises:
        FileExistsError: if the target exists and is not an empty folder.
    """
    check_target(target)
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield partial
        partial.chmod(0o755)  # mkdtemp's is 0700
        if target.exists():
            target.rmdir()
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
