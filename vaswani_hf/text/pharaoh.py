# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Word alignments in the format of Pharaoh: `0-0 1-2`, source first, counted from 0.

References tell sure links from possible ones: `1-2` is sure, `1p2` or `1?2` possible.
"""

import re
from dataclasses import dataclass


SURE = "-"
_LINK = re.compile(r"([0-9]+)([-p?])([0-9]+)")
Link = tuple[int, int]  # places of a source word and a target word


@dataclass(frozen=True)
class Links:
    """The links of a pair of sentences; every sure link is a possible one too."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def parse_links(line: str, num_words: tuple[int, int] | None = None) -> Links:
    """The links of a line.

    Args:
        line: links with white space between them, or nothing.
        num_words: how many words source and target have; `None` if that is not known.

    Raises:
        ValueError: if something is no link, or links a word that is not there.
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    for text in line.split():
        found = _LINK.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{text!r} is no link; one is written 1-2, the places of a source word and a "
                f"target word, counted from 0."
            )
        link = int(found[1]), int(found[3])
        for side, place, count in zip(("source", "target"), link, num_words or (), strict=False):
            if place >= count:
                raise ValueError(
                    f"{text} links word {place} of the {side}, which has {count} words, counted "
                    f"from 0."
                )
        (sure if found[2] == SURE else possible).add(link)
    return Links(frozenset(sure), frozenset(sure | possible))


def format_links(links: list[Link]) -> str:
    """Links as a line."""
    return " ".join(f"{source}-{target}" for source, target in links)
