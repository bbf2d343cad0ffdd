# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The units of a text that markup is put around, and which of them come from which."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import regex


Span = tuple[int, int]  # of characters, as in text[start:end]

_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
_LETTER = rf"(?:(?!{_UNSPACED})\w)"
# A word or a number; where a script sets no spaces between words, a grapheme; else a character.
_UNIT = regex.compile(
    rf"(?={_UNSPACED})\X|{_LETTER}+(?:(?:['’-]|(?<=\d)[.,:](?=\d)){_LETTER}+)*|\S"
)
LEAST_WEIGHT = 0.02  # that is kept: of a long sentence most are next to nothing


class UnitAlignment(NamedTuple):
    """Which units of a source the units of its translation come from.

    Attributes:
        source: the characters of each unit, in their order.
        target: likewise.
        rows: for each target unit the weights of the source units that have some, by their places.
    """

    source: list[Span]
    target: list[Span]
    rows: list[dict[int, float]]


def units_of(text: str) -> list[Span]:
    """The characters of each unit; together they are all but the white space."""
    return [match.span() for match in _UNIT.finditer(text)]


def align_units(
    source: str,
    target: str,
    source_spans: Sequence[Span | None],
    target_spans: Sequence[Span | None],
    matrix: Sequence[Sequence[float]],
) -> UnitAlignment:
    """The alignment of units, from that of pieces.

    A target unit has the mean of the rows of its pieces. Where source and target have the same unit
    once each, such as a number, a name or a comma, and it is no word in small letters, these two
    belong together whatever the matrix says.

    Args:
        source: the text.
        target: its translation.
        source_spans: the characters of each of the S source pieces; `None` for a special piece.
        target_spans: likewise of the T target pieces.
        matrix: `(T, S)`, how much each target piece comes from each source piece.
    """
    source_units, target_units = units_of(source), units_of(target)
    units_of_columns = _touched(source_spans, source_units, len(source))
    rows: list[dict[int, float]] = [{} for _ in target_units]
    for units, weights in zip(
        _touched(target_spans, target_units, len(target)), matrix, strict=True
    ):
        shares: dict[int, float] = {}
        for columns, weight in zip(units_of_columns, weights, strict=True):
            for column in columns if weight >= LEAST_WEIGHT else ():
                shares[column] = shares.get(column, 0.0) + weight / len(columns)
        for unit in units:
            for column, weight in shares.items():
                rows[unit][column] = rows[unit].get(column, 0.0) + weight
    for place, column in _same_units(source, target, source_units, target_units):
        rows[place] = {column: 1.0 + sum(rows[place].values())}
    return UnitAlignment(source_units, target_units, rows)


def align_by_place(source: str, target: str) -> UnitAlignment:
    """Where nothing is known: the first unit comes from the first, the last from the last."""
    source_units, target_units = units_of(source), units_of(target)
    scale = len(source_units) / max(len(target_units), 1)
    rows = [
        {int((place + 0.5) * scale): 1.0} if source_units else {}
        for place in range(len(target_units))
    ]
    return UnitAlignment(source_units, target_units, rows)


def join_alignments(parts: Iterable[tuple[int, int, UnitAlignment]]) -> UnitAlignment:
    """The alignment of a text from those of its sentences.

    Args:
        parts: of each sentence, in their order, where it begins in the source, where its
            translation does in the target, and its alignment.
    """
    joined = UnitAlignment([], [], [])
    for source_start, target_start, part in parts:
        first = len(joined.source)
        joined.source.extend((source_start + a, source_start + b) for a, b in part.source)
        joined.target.extend((target_start + a, target_start + b) for a, b in part.target)
        joined.rows.extend(
            {first + column: weight for column, weight in row.items()} for row in part.rows
        )
    return joined


def _touched(spans: Sequence[Span | None], units: Sequence[Span], length: int) -> list[list[int]]:
    """The units that each span has a character of."""
    unit_at: list[int | None] = [None] * length
    for unit, (start, end) in enumerate(units):
        unit_at[start:end] = [unit] * (end - start)
    return [
        list(dict.fromkeys(unit for unit in unit_at[slice(*span)] if unit is not None))
        if span
        else []
        for span in spans
    ]


def _same_units(
    source: str, target: str, source_units: Sequence[Span], target_units: Sequence[Span]
) -> list[tuple[int, int]]:
    """The places of target and source units that are the same, once on either side."""
    texts = [
        [text[a:b] for a, b in units]
        for text, units in ((source, source_units), (target, target_units))
    ]
    counts = [Counter(side) for side in texts]
    places = {unit: place for place, unit in enumerate(texts[0])}
    return [
        (place, places[unit])
        for place, unit in enumerate(texts[1])
        if not unit.islower() and counts[0][unit] == counts[1][unit] == 1
    ]
