# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Text by the line, read strictly."""

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path


def read_lines(path: Path) -> Iterator[str]:
    r"""The lines of a text file, plain or gzipped, without their ends.

    Only `\n` (and `\r\n`) ends a line: Python's own reader would also split at a bare `\r` and lose
    the alignment.

    Raises:
        ValueError: if a line is not UTF-8; file and line are named.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as lines:
        yield from decode_lines(lines, str(path))


def decode_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of bytes as text; an undecodable one is a `ValueError` that names it."""
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}, line {number} is not UTF-8: {error.reason}.") from error
        yield text.removesuffix("\n").removesuffix("\r")
