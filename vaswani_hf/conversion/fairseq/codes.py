# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Byte-pair codes of subword-nmt and fastBPE."""

from pathlib import Path
from typing import NamedTuple

from ...text.lines import read_lines
from ..differences import Differences
from ..folders import AnyPath


CODES = ("bpecodes", "code")
OTHER_CODES = ("sentencepiece.bpe.model", "merges.txt")


class Codes(NamedTuple):
    """The merges of a byte-pair encoding, the first ones first.

    `end` is what stands for the end of a word: in codes of subword-nmt since 0.2 and of fastBPE the
    last characters of its last piece, in older ones a character of its own.
    """

    merges: list[tuple[str, str]]
    end: str


WORD_END = "</w>"
WORD_END_CHARACTER = "\ue000"  # of private use, so that no text has it


def find_codes(folder: Path, bpe_codes: AnyPath | None, differences: Differences) -> Codes | None:
    """The codes given, or else those beside the checkpoint; `None` if there are none.

    Raises:
        FileNotFoundError: if the given file does not exist.
        ValueError: if a file is not one of codes.
    """
    if bpe_codes is not None:
        return read_codes(Path(bpe_codes))
    for name in CODES:
        if (folder / name).is_file():
            return read_codes(folder / name)
    for name in OTHER_CODES:
        differences.refuse_if(
            (folder / name).is_file(),
            f"{folder / name} segments the text, and only codes of subword-nmt and fastBPE are "
            f"carried over; is_segmented=True takes text that is already segmented",
        )
    return None


def read_codes(path: Path) -> Codes:
    """Codes as subword-nmt writes them, `a b`, with its version, or fastBPE, `a b COUNT`.

    Raises:
        ValueError: if a line is something else.
    """
    merges: dict[tuple[str, str], None] = {}  # of merges that come twice the first one counts
    end, num_fields = WORD_END, 0
    for number, line in enumerate(read_lines(path), start=1):
        if number == 1 and line.startswith("#version:"):
            version = line.removeprefix("#version:").strip()
            if version.removesuffix(".0") not in ("0.1", "0.2"):
                raise ValueError(
                    f"{path} must be of version 0.1 or 0.2 of subword-nmt, got {version}."
                )
            end, num_fields = WORD_END if version.startswith("0.2") else WORD_END_CHARACTER, 2
            continue
        # Only at spaces: there are merges of other white space.
        fields = line.strip("\r\n ").split(" ")
        if fields == [""]:
            continue
        if not num_fields:  # neither fastBPE nor subword-nmt before 0.2 writes a version
            num_fields = 3 if len(fields) == 3 else 2
            end = WORD_END if num_fields == 3 else WORD_END_CHARACTER
        if len(fields) != num_fields or not all(field.isdecimal() for field in fields[2:]):
            wanted = "two pieces" if num_fields == 2 else "two pieces and a count"
            raise ValueError(f"{path}, line {number} must be {wanted}, got {line!r}.")
        left, right = (piece.replace(WORD_END, end) for piece in fields[:2])
        merges.setdefault((left, right))
    if not merges:
        raise ValueError(f"{path} holds no codes.")
    return Codes(list(merges), end)
