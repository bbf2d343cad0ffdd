# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""One run at a time in an output folder."""

import json
import logging
import os
import platform
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from ..settings.fields import VaswaniTrainingArguments
from .processes import raise_on_all_processes


try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


logger = logging.getLogger("training")
LOCK = ".run.lock"  # its content names the owner; a killed run leaves it, unlocked


class FolderLock:
    """While entered, no other process on any machine can enter a lock of the same folder.

    It is a POSIX record lock of one byte. The system releases it when the process ends, however it
    ends; forked processes do not hold it. NFS forwards it to its server. Where the disk has no
    locks, and on Windows, a warning says so.

    A missing folder is made. If nothing else is written into it, it is left as it was.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._made: list[Path] = []  # missing folders, the outermost last
        self._before: set[str] = set()
        self._file: TextIO | None = None

    @property
    def was_there(self) -> bool:
        """Whether an earlier run in this folder has left its lock file."""
        return LOCK in self._before

    def __enter__(self) -> "FolderLock":
        """Take the lock.

        Raises:
            ValueError: if another process has it, or the folder cannot be written.
        """
        try:
            self._made = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
            self.folder.mkdir(parents=True, exist_ok=True)
            self._before = {path.name for path in self.folder.iterdir()}
            self._file = self._take()
            self._file.seek(0)
            self._file.truncate()
            self._file.write(json.dumps(_this_process()) + "\n")
            self._file.flush()
        except OSError as error:
            self._leave_as_it_was()
            why = "it is a file" if self.folder.is_file() else error.strerror
            raise ValueError(
                f"output_dir={self.folder} cannot be written: {why}. Choose another --output_dir."
            ) from error
        return self

    def __exit__(self, *exception: object) -> None:
        """Release the lock."""
        assert self._file is not None
        self._leave_as_it_was()
        self._file.close()

    def _take(self) -> TextIO:
        path = self.folder / LOCK
        while True:
            # Not emptied: it may be another run's.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            file = os.fdopen(descriptor, "r+", encoding="utf-8")
            try:
                if fcntl is None:
                    raise OSError("this system has none")
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
            except (BlockingIOError, PermissionError):
                with file:
                    raise ValueError(
                        f"{self.folder} is in use by another run{_holder(file)}: stop it, wait for "
                        f"it to end, or choose another --output_dir."
                    ) from None
            except OSError as error:
                logger.warning(
                    "%s cannot be locked (%s): make sure that no other run writes into it.",
                    *(self.folder, error),
                )
            if _is_at(file, path):
                return file
            file.close()  # its owner has removed the file meanwhile

    def _leave_as_it_was(self) -> None:
        try:
            if {path.name for path in self.folder.iterdir()} - self._before == {LOCK}:
                (self.folder / LOCK).unlink()
            for path in self._made:
                path.rmdir()
        except OSError:  # something is in it, or it is gone
            pass


def lock_output_dir(training: VaswaniTrainingArguments, exits: ExitStack) -> FolderLock | None:
    """Lock the output folder until `exits` is left; the first process holds the lock.

    Returns:
        The lock; `None` on other processes.

    Raises:
        ValueError: on every process, if another run has it or it cannot be written.
    """
    with raise_on_all_processes(training):
        if training.process_index == 0:
            return exits.enter_context(FolderLock(training.output_dir))
    return None


def _this_process() -> dict[str, Any]:
    since = datetime.now().isoformat(" ", "seconds")
    return {"process": os.getpid(), "host": platform.node(), "since": since}


def _is_at(file: TextIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _holder(file: TextIO) -> str:
    try:
        holder = json.load(file)
        return f" (process {holder['process']} on {holder['host']}, since {holder['since']})"
    except (ValueError, KeyError, TypeError, OSError):  # it is being written
        return ""
