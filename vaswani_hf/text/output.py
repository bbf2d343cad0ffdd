# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Whole lines of output, in a file that a killed run goes on with."""

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self


try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


PROGRESS = ".progress"  # what is added to the name of an output for the file beside it
_BLOCK_BYTES = 1 << 20


class Output:
    """Where whole lines are written, from the first one on.

    Args:
        file: an open file, a pipe or a terminal; what it has in a buffer is left alone.
        name: of it, for messages.

    Attributes:
        num_lines: whole lines that are there already.
        is_finished: whether all of them are; nothing may be written then.
    """

    def __init__(self, file: IO[Any], name: str = "standard output") -> None:
        self.file, self.name = file, name
        self.num_lines, self.is_finished = 0, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        pass

    def write(self, text: str) -> None:
        """Add whole lines; Ctrl-C takes effect when that is done, a second one at once."""
        rest = memoryview(text.encode())
        with _interrupts_held():
            while rest:
                try:
                    rest = rest[os.write(self.file.fileno(), rest) :]
                except OSError as error:  # such as a full disk, which the system does not name
                    error.filename = self.name
                    raise


class OutputFile(Output):
    """A file of output lines, so many for each line of input, that a killed run goes on with.

    Until it is finished, `FILE.progress` beside it says what is written there. It is removed when
    the `with` block ends without an error; both are, when it fails before the first line.

    Args:
        path: the file.
        run: what decides the lines, such as the settings and the input.
        resume: whether to go on where an earlier run has ended, at the first line that is not
            whole; a missing file is begun.
        num_each: output lines of an input line, which are written together. `num_lines` counts
            those of the input.

    Raises:
        ValueError: if the file is there and `resume` is off, if another run has begun it, or if it
            is in use.
    """

    def __init__(
        self, path: Path, run: Mapping[str, Any], *, resume: bool, num_each: int = 1
    ) -> None:
        self.num_each = num_each
        self.path, self.run, self.resume = path, json.loads(json.dumps(run)), resume
        self.progress = path.with_name(path.name + PROGRESS)

    def __enter__(self) -> Self:
        if self.path.exists() and not self.path.is_file():
            raise ValueError(f"{self.path} is no file; what is written there cannot be resumed.")
        if not self.resume and self.path.exists() and self.path.stat().st_size:
            raise ValueError(
                f"{self.path} is there already; delete it, name another file, or go on with it by "
                f"--resume."
            )
        # It is not emptied: another run may be writing.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        super().__init__(open(descriptor, "r+b", buffering=0), str(self.path))
        try:
            self._lock()
            self._begin()
        except BaseException:
            self.file.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        # What is removed, is so while it is locked.
        is_empty = not os.fstat(self.file.fileno()).st_size
        if not self.is_finished and (kind is None or is_empty):
            self.progress.unlink()
        if kind is not None and is_empty:
            self.path.unlink()
        self.file.close()

    def _lock(self) -> None:
        """Refuse a second run, also on another machine; the system unlocks when a run ends."""
        if fcntl is None:
            return
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise ValueError(f"{self.path} is being written by another run; wait for it.") from None
        except OSError:  # the disk has no locks
            pass

    def _begin(self) -> None:
        if not os.fstat(self.file.fileno()).st_size:
            # Before the first line, and at once: a file with lines and without this is finished.
            unfinished = self.progress.with_name(self.progress.name + ".new")
            unfinished.write_text(json.dumps(self.run, indent=2) + "\n", encoding="utf-8")
            unfinished.replace(self.progress)
        elif self.progress.exists():
            self._check_run()
        else:
            self.is_finished = True
        self.num_lines, end = _whole_lines(self.file, self.num_each)
        if not self.is_finished:
            self.file.truncate(end)
            self.file.seek(end)

    def _check_run(self) -> None:
        begun = json.loads(self.progress.read_text(encoding="utf-8"))
        differing = [
            f"{name}={begun.get(name)} there and {name}={self.run.get(name)} here"
            for name in sorted(begun.keys() | self.run.keys())
            if begun.get(name) != self.run.get(name)
        ]
        if differing:
            raise ValueError(
                f"{self.path} was begun by another run, with {', '.join(differing)}; run that one "
                f"again, or delete {self.path} and {self.progress.name}."
            )


def _whole_lines(file: IO[bytes], num_each: int) -> tuple[int, int]:
    r"""How many groups of so many lines that end in `\n` a file has, and the bytes of these."""
    count = place = end = 0
    while block := file.read(_BLOCK_BYTES):
        num_here = block.count(b"\n")
        count += num_here
        surplus = count % num_each  # lines of a group that has not ended
        if num_here > surplus:
            here = len(block)
            for _ in range(surplus + 1):
                here = block.rfind(b"\n", 0, here)
            end = place + here + 1
        place += len(block)
    return count // num_each, end


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block, once."""
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before is not signal.default_int_handler:
        yield
        return
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        if held:
            raise KeyboardInterrupt
        held.append(number)

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt
