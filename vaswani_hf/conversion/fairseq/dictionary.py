# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The dictionaries of source and target: `dict.LANGUAGE.txt`."""

from pathlib import Path

from ...text.lines import read_lines
from ..differences import listed
from ..folders import AnyPath


SPECIAL_PIECES = ("<s>", "<pad>", "</s>", "<unk>")  # their ids are their places here
BOS_ID, PAD_ID, EOS_ID, UNK_ID = range(4)


def find_dictionaries(
    folder: Path,
    source: AnyPath | None,
    target: AnyPath | None,
    languages: tuple[str | None, str | None],
) -> tuple[Path, Path]:
    """The files of the source's and the target's dictionary.

    Raises:
        FileNotFoundError: if one is not there.
        ValueError: if it is not clear which is which.
    """
    if target is None:
        target = source
    found = [path if path is None else Path(path) for path in (source, target)]
    for place, (language, side) in enumerate(zip(languages, ("source", "target"), strict=True)):
        if found[place] is None and language is not None:
            found[place] = folder / f"dict.{language}.txt"
        path = found[place]
        if path is not None and not path.is_file():
            raise FileNotFoundError(
                f"{path} does not exist; give {side}_dictionary, the dict.LANGUAGE.txt that "
                f"fairseq-preprocess wrote."
            )
    if found[0] is not None and found[1] is not None:
        return found[0], found[1]
    candidates = sorted(folder.glob("dict.*.txt"))
    if not candidates:
        raise FileNotFoundError(
            f"{folder} has no dict.LANGUAGE.txt; give source_dictionary, and target_dictionary "
            f"where it is another, which fairseq-preprocess wrote."
        )
    if len({path.read_bytes() for path in candidates}) > 1:
        raise ValueError(
            f"{folder} has {listed(path.name for path in candidates)}, and the checkpoint does not "
            f"say which is the source's; give source_language and target_language."
        )
    return found[0] or candidates[0], found[1] or candidates[0]


def read_dictionary(path: Path) -> list[str]:
    """The pieces of a `dict.LANGUAGE.txt` in the order of their ids, with fairseq's four before.

    Raises:
        ValueError: if a line is not `PIECE COUNT`, or a piece comes twice.
    """
    pieces = dict.fromkeys(SPECIAL_PIECES)
    for number, line in enumerate(read_lines(path), start=1):
        piece, _, count = line.rstrip().rpartition(" ")
        if not (piece and count.isdecimal()):
            raise ValueError(f"{path}, line {number} must be PIECE COUNT, got {line!r}.")
        if piece in pieces:
            raise ValueError(f"{path}, line {number}: {piece!r} occurs twice.")
        pieces[piece] = None
    return list(pieces)
