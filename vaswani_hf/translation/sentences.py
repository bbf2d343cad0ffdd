# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a caller gives to be translated: sentences with prefixes, any number of them."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from .found import LongTextError
from .options import check_at_least


Given = TypeVar("Given")
Answer = TypeVar("Answer")
Prefixes = str | Iterable[str | None] | None  # that translations start with


class Sentence(NamedTuple):
    """A sentence, and what its translation starts with."""

    text: str
    prefix: str | None


def sentences_of(sentences: Any, prefixes: Any) -> tuple[Iterable[str], Any]:
    """Sentences and prefixes, of which a caller may have given one each.

    Raises:
        ValueError: if there is one of the prefixes and a list of the sentences.
    """
    if isinstance(sentences, str):
        is_one = prefixes is None or isinstance(prefixes, str)
        return [sentences], [prefixes] if is_one else prefixes
    if isinstance(prefixes, str):
        raise ValueError(f"Each sentence needs a prefix of its own, or None, got {prefixes=}.")
    return sentences, prefixes


def with_prefixes(
    sentences: Iterable[str], prefixes: Iterable[str | None] | None
) -> Iterator[Sentence]:
    """Sentences and their prefixes side by side, none where there are none.

    Raises:
        ValueError: if one of the two has fewer, after what comes before.
    """
    if prefixes is None:
        prefixes = itertools.repeat(None)
        yield from map(Sentence, sentences, prefixes)
        return
    nothing = object()
    both = itertools.zip_longest(sentences, prefixes, fillvalue=nothing)
    for count, (text, prefix) in enumerate(both):
        if text is nothing or prefix is nothing:
            few, many = ("sentences", "prefixes") if text is nothing else ("prefixes", "sentences")
            raise ValueError(
                f"There are {count} {few}, and more {many}; each sentence needs its prefix, which "
                f"may be empty."
            )
        yield Sentence(text, prefix)  # type: ignore[arg-type]


def in_chunks(
    sentences: Iterable[Given],
    chunk_sentences: int,
    answer: Callable[[list[Given]], list[Answer]],
) -> Iterator[Answer]:
    """What `answer` says of each sentence; so many are read and answered at a time."""
    check_at_least(1, chunk_sentences=chunk_sentences)
    return _in_chunks(iter(sentences), chunk_sentences, answer)


def _in_chunks(
    sentences: Iterator[Given],
    chunk_sentences: int,
    answer: Callable[[list[Given]], list[Answer]],
) -> Iterator[Answer]:
    num_done = 0
    while chunk := list(itertools.islice(sentences, chunk_sentences)):
        try:
            yield from answer(chunk)
        except LongTextError as error:
            error.place += num_done
            raise
        num_done += len(chunk)
