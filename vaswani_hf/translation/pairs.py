# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Pairs of a source and a target: as ids, in batches by length, answered in their order."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar


Side = str | Sequence[int]  # a text, or its ids
Answer = TypeVar("Answer")


class PairError(ValueError):
    """A pair that cannot be used.

    `place` is its index in the input, counted from 0; `side` is `"source"` or `"target"`; `reason`
    says what is wrong with that side.
    """

    def __init__(self, place: int, side: str, reason: str) -> None:
        super().__init__(f"{side} {place} (counted from 0): {reason}")
        self.place, self.side, self.reason = place, side, reason


class UnequalLengthError(ValueError):
    """One side, `"source"` or `"target"`, has ended after `count` texts, and the other goes on."""

    def __init__(self, side: str, count: int) -> None:
        other = "target" if side == "source" else "source"
        super().__init__(
            f"There are {count} of {side}, and more of {other}; each source needs its target."
        )
        self.side, self.count = side, count


@dataclass(frozen=True)
class Pair:
    """A source and a target as ids, and as texts where they came as such.

    `place` is the index in the input, counted from 0.
    """

    place: int
    source: list[int]
    target: list[int]
    source_text: str | None
    target_text: str | None

    @property
    def length(self) -> int:
        """Tokens of the longer side."""
        return max(len(self.source), len(self.target))


@dataclass(frozen=True)
class PairReader:
    """Makes ids of pairs, and batches of those.

    Args:
        tokenizer: the source's.
        target_tokenizer: the target's.
        end_ids: pieces that end a target. A text whose ids lack one gets the first.
        max_positions: most positions that the model has on either side; `None` for no limit.
        batch_tokens: most padded tokens of a batch on each side; a longer pair is a batch of its
            own.
        max_batch_sentences: most pairs of a batch.
        chunk_pairs: pairs that are read, sorted by length and answered together.
        num_pieces: of the vocabulary of each side; `None` where it is not known.
        max_tokens: most tokens of each side that are taken; `None` for any number.
    """

    tokenizer: Any
    target_tokenizer: Any
    end_ids: Sequence[int]
    max_positions: int | None
    batch_tokens: int
    max_batch_sentences: int
    chunk_pairs: int = 10_000
    num_pieces: tuple[int | None, int | None] = (None, None)
    max_tokens: tuple[int | None, int | None] = (None, None)

    def chunks(
        self,
        sources: Iterable[Side],
        targets: Iterable[Side],
        num_positions: Callable[[list[int]], int] = len,
    ) -> Iterator[list[Pair]]:
        """The pairs as ids, in their order, so many at a time.

        Args:
            sources: texts, or ids.
            targets: as many.
            num_positions: how many positions the ids of a target need.

        Raises:
            PairError: if a pair has more tokens than the model has positions or than are taken, a
                side none, or one an id that the vocabulary lacks.
            UnequalLengthError: if one side has fewer, after the pairs before that.
        """
        pairs = enumerate(itertools.zip_longest(sources, targets))
        while chunk := list(itertools.islice(pairs, self.chunk_pairs)):
            whole = [(place, *sides) for place, sides in chunk if None not in sides]
            if whole:
                yield self._encoded(whole, num_positions)
            if len(whole) < len(chunk):
                place, sides = chunk[len(whole)]
                raise UnequalLengthError("source" if sides[0] is None else "target", place)

    def answers(
        self, pairs: Sequence[Pair], answer: Callable[[list[Pair]], Iterable[Answer]]
    ) -> list[Answer]:
        """What `answer`, which gets batches by length, says of each pair, in the given order."""
        found = [
            (pair.place, one)
            for batch in self.batches(pairs)
            for pair, one in zip(batch, answer(batch), strict=True)
        ]
        return [one for _, one in sorted(found, key=lambda entry: entry[0])]

    def batches(self, pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
        """Pairs by length, the longest first, so that memory runs out at once or never."""
        batch: list[Pair] = []
        for pair in sorted(pairs, key=lambda pair: -pair.length):
            room = self.batch_tokens // batch[0].length if batch else 0
            if batch and len(batch) >= min(max(room, 1), self.max_batch_sentences):
                yield batch
                batch = []
            batch.append(pair)
        if batch:
            yield batch

    def _encoded(
        self, chunk: list[tuple[int, Side, Side]], num_positions: Callable[[list[int]], int]
    ) -> list[Pair]:
        places, sources, targets = zip(*chunk, strict=True)
        # Not verbose: the library would tell that what is longer than the trained length fails.
        source_ids = _ids_of(sources, lambda texts: self.tokenizer(texts, verbose=False))
        target_ids = _ids_of(
            targets, lambda texts: self.target_tokenizer(text_target=texts, verbose=False)
        )
        pairs = []
        for place, source, target, source_row, target_row in zip(
            places, sources, targets, source_ids, target_ids, strict=True
        ):
            if isinstance(target, str) and self.end_ids and target_row[-1:] not in self._ends:
                target_row.append(self.end_ids[0])
            self._check(place, "source", source_row, len(source_row))
            self._check(place, "target", target_row, num_positions(target_row))
            source_text, target_text = (
                side if isinstance(side, str) else None for side in (source, target)
            )
            pairs.append(Pair(place, source_row, target_row, source_text, target_text))
        return pairs

    @property
    def _ends(self) -> list[list[int]]:
        return [[token] for token in self.end_ids]

    def _check(self, place: int, side: str, ids: list[int], num_positions: int) -> None:
        if not ids:
            raise PairError(place, side, "it has no tokens, not even </s>; leave out the pair.")
        size, most = self.num_pieces[side == "target"], self.max_tokens[side == "target"]
        for token in (min(ids), max(ids)):
            if size is not None and not 0 <= token < size:
                raise PairError(
                    place,
                    side,
                    f"the model has no piece of id {token}, for its vocabulary has {size} pieces, "
                    f"0 to {size - 1}; encode it by the tokenizer of the model.",
                )
        if self.max_positions is not None and num_positions > self.max_positions:
            raise PairError(
                place,
                side,
                f"its {len(ids)} tokens need {num_positions} positions, but the model has "
                f"{self.max_positions}; split the sentence, or use a model with a larger "
                f"max_position_embeddings.",
            )
        if most is not None and len(ids) > most:
            raise PairError(
                place,
                side,
                f"its {len(ids)} tokens are more than the {most} that it may have; split the "
                f"sentence, or allow more by max_source_tokens.",
            )


def sides_of(source: Any, target: Any) -> tuple[Iterable[Side], Iterable[Side]]:
    """Sources and targets, of which a caller may have given one each.

    Raises:
        ValueError: if there is one of them and a list of the other.
    """
    if isinstance(source, str):
        is_list = isinstance(target, list | tuple) and any(isinstance(one, str) for one in target)
    else:
        is_list = not isinstance(target, str)
    if isinstance(source, str) == is_list:
        one, several = ("source", "targets") if is_list else ("target", "sources")
        raise ValueError(f"There is one {one} and a list of {several}; give one of both, or lists.")
    return ([source], [target]) if isinstance(source, str) else (source, target)


def as_given(source: Any, answers: Iterator[Answer]) -> Any:
    """One answer for a text, a list of them for a list, and else an iterator."""
    if isinstance(source, str):
        return next(answers)
    return list(answers) if isinstance(source, Sequence) else answers


def _ids_of(sides: Sequence[Side], encode: Callable[[list[str]], Any]) -> list[list[int]]:
    """The ids of texts, and of those that are ids already."""
    texts = [side for side in sides if isinstance(side, str)]
    encoded = iter(encode(texts)["input_ids"] if texts else [])
    return [list(next(encoded) if isinstance(side, str) else side) for side in sides]


__all__ = [
    "Pair",
    "PairError",
    "PairReader",
    "Side",
    "UnequalLengthError",
    "as_given",
    "sides_of",
]
