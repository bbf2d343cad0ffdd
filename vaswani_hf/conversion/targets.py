# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""New folders, written whole or not at all."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path


AnyPath = str | PathLike[str]


def check_target(target: AnyPath) -> None:
    """Refuse with a `FileExistsError` a target that exists and is not an empty folder."""
    target = Path(target)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise FileExistsError(
            f"{target} exists already; name a new folder, so that nothing in it is lost."
        )


@contextlib.contextmanager
def new_folder(target: AnyPath) -> Iterator[Path]:
    """A folder that gets its name only when the block has ended without an error.

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
