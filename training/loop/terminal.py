# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""A run goes on when its terminal is closed or its output is no longer read."""

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


@contextmanager
def ignore_lost_output() -> Iterator[None]:
    """While entered, writing to standard output and error never fails.

    `run.py ... | head` or a closed terminal would otherwise end training without a checkpoint.
    """
    before = sys.stdout, sys.stderr
    lossy = _LossyStream(sys.stdout), _LossyStream(sys.stderr)
    sys.stdout, sys.stderr = lossy
    try:
        yield
    finally:
        for stream in lossy:
            stream.flush()
        sys.stdout, sys.stderr = before


class _LossyStream:
    """A stream that drops what it cannot write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._drop()

    def _drop(self) -> None:
        # From now on all of it: what is left in buffers would fail again at exit.
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
