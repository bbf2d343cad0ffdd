# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""A run goes on when nobody reads what it writes."""

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


@contextmanager
def ignore_lost_output() -> Iterator[None]:
    """While it is entered, nobody needs to read what the program writes to its standard streams.

    `run.py ... | head` and a closed terminal would otherwise end training, without a checkpoint.
    """
    before = sys.stdout, sys.stderr
    lasting = _LossyStream(sys.stdout), _LossyStream(sys.stderr)
    sys.stdout, sys.stderr = lasting
    try:
        yield
    finally:
        for stream in lasting:
            stream.flush()
        sys.stdout, sys.stderr = before


class _LossyStream:
    """A stream that drops what cannot be written."""

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
        # For good: what is left in buffers would fail again when the interpreter ends.
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
