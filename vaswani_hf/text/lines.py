# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Lines of text files, read strictly."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path


BYTE_ORDER_MARK = "\ufeff"  # some editors write it before the text


def read_lines(path: Path) -> Iterator[str]:
    r"""The lines of a text file, plain or gzipped, without their ends.

    Only `\n` and `\r\n` end a line: Python's own reader also splits at a bare `\r`, which would
    break the alignment of parallel files. A byte order mark before the first line is removed.

    Raises:
        ValueError: if a line is not UTF-8, or a file whose name ends in `.gz` is damaged or not
            gzipped; file and line are named.
    """
    return decode_lines(_byte_lines(path), str(path))


def read_decodable_lines(path: Path) -> Iterator[str | None]:
    """The lines as `read_lines` gives them, `None` for one that is not UTF-8.

    Raises:
        ValueError: if a file whose name ends in `.gz` is damaged or not gzipped.
    """
    for text in _decoded(_byte_lines(path)):
        yield None if isinstance(text, UnicodeDecodeError) else text


def decode_lines(lines: Iterable[bytes], name: str, *, keep_ends: bool = False) -> Iterator[str]:
    """Decode lines of bytes; a line that is not UTF-8 is a `ValueError` that names it.

    Args:
        lines: with their ends.
        name: of the file, for messages.
        keep_ends: whether the ends stay, and with them a byte order mark.
    """
    for number, text in enumerate(_decoded(lines, keep_ends=keep_ends), start=1):
        if isinstance(text, UnicodeDecodeError):
            raise ValueError(f"{name}, line {number} is not UTF-8: {text.reason}.") from text
        yield text


def _decoded(
    lines: Iterable[bytes], *, keep_ends: bool = False
) -> Iterator[str | UnicodeDecodeError]:
    for place, line in enumerate(lines):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            yield error
            continue
        if keep_ends:
            yield text
            continue
        if place == 0:
            text = text.removeprefix(BYTE_ORDER_MARK)
        yield text.removesuffix("\n").removesuffix("\r")


def _byte_lines(path: Path) -> Iterator[bytes]:
    if path.suffix != ".gz":
        with open(path, "rb") as lines:
            yield from lines
        return
    number = 1
    try:
        with gzip.open(path, "rb") as lines:
            for number, line in enumerate(lines, start=2):  # noqa: B007, the number is for errors
                yield line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path} is not a complete gzip file ({error}, at line {number}); fetch it again, or "
            f"remove .gz from its name if it is plain text."
        ) from error
