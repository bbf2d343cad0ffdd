# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which words of training pairs belong together, and so which of their pieces.

The links of a pair are a flat list, source before target: `[0, 0, 1, 2]` for `0-0 1-2`.
"""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from vaswani_hf.text.lines import read_lines
from vaswani_hf.text.pharaoh import parse_links
from vaswani_hf.translation.words import segment


WORD_LINKS, PIECE_LINKS = "word_links", "piece_links"  # columns of pairs, as text and as ids
TextPair = tuple[str | None, str | None]
_END: Any = object()  # of a file


def with_links(pairs: Iterable[TextPair], path: Path, source: Path) -> Iterator[tuple[Any, ...]]:
    """Source, target and links of each pair; a pair that lacks a text has no links.

    Args:
        pairs: of text.
        path: has a line for each of them, in the format of Pharaoh.
        source: the file of the sources, for messages.

    Raises:
        ValueError: if `path` has more lines or fewer, or a line is not of that format or links a
            word that is not there; file and line are named.
    """
    rows = itertools.zip_longest(pairs, read_lines(path), fillvalue=_END)
    for number, (pair, line) in enumerate(rows, start=1):
        if pair is _END or line is _END:
            count = number + sum(1 for _ in rows)
            lines = (number - 1, count) if pair is _END else (count, number - 1)
            raise ValueError(
                f"{source} has {lines[0]} lines and {path} has {lines[1]}; guided_alignment has a "
                f"line for each pair, blank where nothing belongs together."
            )
        text, translation = pair
        links: list[int] = []
        if text is not None and translation is not None:
            try:
                found = parse_links(line, (len(text.split()), len(translation.split())))
                if found.possible != found.sure:
                    raise ValueError("links to learn are sure ones; some are possible.")
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
            links = [place for link in sorted(found.sure) for place in link]
        yield text, translation, links


def piece_links(
    word_links: list[int] | None,
    texts: tuple[str, str],
    ids: tuple[list[int], list[int]],
    tokenizers: tuple[Any, Any],
    num_before: int = 0,
) -> list[int]:
    """The links of pieces: every piece of a source word with every one of its target words.

    Args:
        word_links: of the pair; `None` for none.
        texts: source and target.
        ids: the pieces that a tokenizer made of each.
        tokenizers: of source and target.
        num_before: pieces that will stand before the source's, such as a tag.

    Raises:
        ValueError: if it is not known which characters a piece spells.
    """
    if not word_links:
        return []
    source = segment(tokenizers[0], ids[0], texts[0]).pieces_of_words
    target = segment(tokenizers[1], ids[1], texts[1], is_target=True).pieces_of_words
    links = {
        link
        for left, right in zip(word_links[::2], word_links[1::2], strict=True)
        for link in itertools.product(source[left], target[right])
    }
    return [place for left, right in sorted(links) for place in (left + num_before, right)]
