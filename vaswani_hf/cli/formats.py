# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What `vaswani-hf translate` writes of each sentence."""

import itertools
import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from ..translation import TextTranslator, Translation


DECIMALS = 4  # of scores; further ones differ by the batch that a sentence is in


@dataclass(frozen=True)
class Found:
    """A sentence and its translations, best first.

    `pieces` are those of each translation, and `alignments` its pairs of words, `None` where nobody
    has asked.
    """

    source: str
    translations: list["Translation"]
    pieces: list[list[str]]
    alignments: list[str] | None


def n_best_of(
    translator: "TextTranslator",
    texts: Iterable[str],
    *,
    alignments: bool,
    chunk_sentences: int,
    **options: Any,
) -> Iterator[Found]:
    """The translations of each sentence.

    Args:
        translator: of either engine; of transformers for alignments.
        texts: sentences.
        alignments: whether to align the words.
        chunk_sentences: how many sentences are held and translated together.
        options: further ones of `translator.n_best`; with a `utility`, of `translator.mbr`.
    """
    sources: deque[str] = deque()  # those that wait for their translations

    def noted() -> Iterator[str]:
        for text in texts:
            sources.append(text)
            yield text

    options["chunk_sentences"] = chunk_sentences
    if "utility" in options:
        found = ([chosen] for chosen in translator.mbr(noted(), **options))
    else:
        found = translator.n_best(noted(), **options)
    while chunk := list(itertools.islice(found, chunk_sentences)):
        pairs = [(sources.popleft(), translations) for translations in chunk]
        aligned = _alignments(translator, pairs) if alignments else itertools.repeat(None)
        for (source, translations), words in zip(pairs, aligned, strict=False):
            tokens = translator.target_tokenizer.convert_ids_to_tokens
            yield Found(source, translations, [tokens(one.ids) for one in translations], words)


def _alignments(
    translator: Any, pairs: list[tuple[str, list["Translation"]]]
) -> Iterator[list[str]]:
    """The pairs of words of each translation, none of an empty one."""
    both = [(source, one.ids) for source, several in pairs for one in several if one.ids]
    sides = [source for source, _ in both], [ids for _, ids in both]
    aligned = iter(translator.align(*sides))
    for _, several in pairs:
        yield [next(aligned).pharaoh if one.ids else "" for one in several]


def line_of(text: str) -> str:
    """A text as a line, without ends of lines in it."""
    return " ".join(text.splitlines()) + "\n"


def text_lines(found: Found, number: int) -> str:
    """A line for each translation."""
    return "".join(line_of(one.text) for one in found.translations)


def tsv_lines(found: Found, number: int) -> str:
    """For each translation the number of the sentence, the rank from 1, the score and the text."""
    lines = []
    for rank, one in enumerate(found.translations, start=1):
        text = line_of(one.text.replace("\t", " "))
        lines.append(f"{number}\t{rank}\t{one.score:.{DECIMALS}f}\t{text}")
    return "".join(lines)


def json_line(found: Found, number: int) -> str:
    """An object."""
    translations: list[dict[str, Any]] = [
        {
            "text": one.text,
            "score": round(one.score, DECIMALS),
            "log_prob": round(one.log_prob, DECIMALS),
            "pieces": pieces,
        }
        for one, pieces in zip(found.translations, found.pieces, strict=True)
    ]
    for translation, one in zip(translations, found.translations, strict=True):
        if hasattr(one, "utility"):
            translation["utility"] = round(one.utility, 6)
    if found.alignments is not None:
        for translation, words in zip(translations, found.alignments, strict=True):
            translation["alignment"] = words
    record = {"source": found.source, "translations": translations}
    return json.dumps(record, ensure_ascii=False) + "\n"


FORMATS = {"text": text_lines, "tsv": tsv_lines, "jsonl": json_line}


__all__ = ["FORMATS", "line_of", "n_best_of"]
