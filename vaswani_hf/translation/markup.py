# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Documents to translations: HTML, XLIFF and text with placeholders, whose markup stays."""

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..markup import HTML, PLACEHOLDERS, XLIFF
from ..markup.document import Document
from ..markup.html import read_html
from ..markup.inline import MarkedText
from ..markup.placeholders import read_placeholders
from ..markup.units import UnitAlignment, align_by_place, align_units, join_alignments
from ..markup.xliff import read_xliff
from ..text.paragraphs import SplitText, interleave
from .found import LongTextError
from .texts import Splitter
from .words import segment


READERS = {HTML: read_html, XLIFF: read_xliff, PLACEHOLDERS: read_placeholders}


class Sentence(NamedTuple):
    """A sentence of a document; whether there is markup in its text."""

    text: str
    is_marked: bool


class Translated(NamedTuple):
    """A translation, and of a sentence whose text has markup its alignment."""

    text: str
    alignment: UnitAlignment | None = None


def reader_of(markup: str) -> Callable[[str], Document]:
    """What reads documents of a kind.

    Args:
        markup: `"html"`, `"xliff"` or `"placeholders"`.

    Raises:
        ValueError: if it is another.
    """
    if markup not in READERS:
        raise ValueError(f"markup must be one of {', '.join(READERS)}, got {markup=}.")
    return READERS[markup]


class SplitDocument(NamedTuple):
    """A document, each of whose texts has been split into sentences."""

    document: Document
    texts: list[SplitText]

    @property
    def sentences(self) -> list[Sentence]:
        """What is translated."""
        return [
            Sentence(segment, bool(marked.marks))
            for marked, text in zip(self.document.marked, self.texts, strict=True)
            for segment in text.segments
        ]

    def joined(self, translations: Iterable[Translated]) -> str:
        """The document with the translations of its sentences.

        Args:
            translations: of each sentence; no more are taken.
        """
        rest = iter(translations)
        return self.document.with_translations(
            _join(marked, text, list(itertools.islice(rest, len(text.segments))))
            for marked, text in zip(self.document.marked, self.texts, strict=True)
        )


def split_documents(
    documents: Iterable[Document], splitter: Splitter | None
) -> list[SplitDocument]:
    """Documents whose texts are split into sentences; where nothing splits, each text is one."""
    documents = list(documents)
    texts = [marked.text for document in documents for marked in document.marked]
    if splitter is None:
        split = [SplitText([text], ["", ""]) for text in texts]
    else:
        split = splitter.split(texts)
    rest = iter(split)
    return [
        SplitDocument(document, list(itertools.islice(rest, len(document.marked))))
        for document in documents
    ]


def _join(
    marked: MarkedText, split: SplitText, translations: list[Translated]
) -> tuple[str, UnitAlignment | None]:
    """The translation of a text, and its alignment where it has markup."""
    lines = interleave(split, [one.text for one in translations])
    if not marked.marks:
        return "".join(lines), None
    parts = []
    source_start = target_start = 0
    for number, segment_ in enumerate(split.segments):
        source_start += len(split.separators[number])
        target_start += len(lines[2 * number])
        alignment = translations[number].alignment
        if alignment is not None:
            parts.append((source_start, target_start, alignment))
        source_start += len(segment_)
        target_start += len(lines[2 * number + 1])
    return "".join(lines), join_alignments(parts)


def with_alignments(
    translator: Any,
    sentences: Sequence[Sentence],
    translations: Sequence[tuple[str, list[int]]],
) -> list[Translated]:
    """Translations, with the alignments of those that need one.

    Args:
        translator: whose translations they are.
        sentences: the sources.
        translations: text and ids of each.
    """
    found = [Translated(" ".join(text.splitlines())) for text, _ in translations]
    places = [
        place
        for place, sentence in enumerate(sentences)
        if sentence.is_marked and found[place].text.strip()
    ]
    sources = translator.encode([sentences[place].text for place in places])
    lengths = [
        max(len(source), len(translations[place][1]))
        for source, place in zip(sources, places, strict=True)
    ]
    for batch in translator.batches(lengths):
        targets = [translations[places[one]][1] for one in batch]
        matrices = translator.piece_weights([sources[one] for one in batch], targets)
        for one, target, matrix in zip(batch, targets, matrices, strict=True):
            place = places[one]
            source_text, target_text = sentences[place].text, found[place].text
            try:
                source_spans = segment(translator.tokenizer, sources[one], source_text).spans
                target_spans = segment(
                    translator.target_tokenizer, target[: len(matrix)], target_text, is_target=True
                ).spans
                alignment = align_units(
                    source_text, target_text, source_spans, target_spans, matrix
                )
            except ValueError:  # it is not known which characters a piece spells
                alignment = align_by_place(source_text, target_text)
            found[place] = Translated(target_text, alignment)
    return found


def translate_documents(
    translator: Any,
    documents: Iterable[Document],
    find: Callable[[list[str]], list[tuple[str, list[int]]]],
    splitter: Splitter | None,
    chunk_sentences: int,
) -> Iterator[str]:
    """The translation of each document, in their order.

    Args:
        translator: tells which words belong together.
        documents: any number of them; no more are read than are translated together.
        find: the translation of each sentence, as text and ids.
        splitter: of the texts; `None` where each is one sentence.
        chunk_sentences: how many sentences are translated together, or more where one document has
            more.
    """
    num_done = 0
    try:
        for chunk in _chunks(documents, splitter, chunk_sentences):
            sentences = [sentence for document in chunk for sentence in document.sentences]
            try:
                found = find([sentence.text for sentence in sentences])
            except LongTextError as error:
                ends = itertools.accumulate(len(document.sentences) for document in chunk)
                error.place = num_done + bisect_right(list(ends), error.place)
                raise
            num_done += len(chunk)
            translated = iter(with_alignments(translator, sentences, found))
            for document in chunk:
                yield document.joined(translated)
    finally:
        if splitter is not None:
            splitter.warn()


def _chunks(
    documents: Iterable[Document], splitter: Splitter | None, chunk_sentences: int
) -> Iterator[list[SplitDocument]]:
    chunk: list[SplitDocument] = []
    num_sentences = 0
    for document in documents:
        chunk += split_documents([document], splitter)
        num_sentences += max(len(chunk[-1].sentences), 1)
        if num_sentences >= chunk_sentences:
            yield chunk
            chunk, num_sentences = [], 0
    if chunk:
        yield chunk


def piece_weights_by_difference(
    translator: Any,
    sources: list[list[int]],
    targets: list[list[int]],
) -> list[list[list[float]]]:
    """How much each target piece comes from each source piece, by prediction difference.

    That is its share of the log-probability that the target piece loses where the unknown piece
    takes its place (Li et al. 2019). It asks nothing of an engine but to score.

    Args:
        translator: whose model it is.
        sources: ids, with `</s>`.
        targets: likewise.

    Returns:
        Of each pair `(T, S)`; neither `</s>` has a weight.
    """
    ends, unknown = set(translator.end_ids()), translator.unknown_id()
    rows = []
    for source, target in zip(sources, targets, strict=True):
        rows.append((source, target))
        rows += [
            ([*source[:place], unknown, *source[place + 1 :]], target)
            for place in range(len(source) - (source[-1] in ends))
        ]
    log_probs: list[list[float]] = [[]] * len(rows)
    for batch in translator.batches([max(map(len, row)) for row in rows]):
        scored = translator.log_probs(
            [rows[place][0] for place in batch], [rows[place][1] for place in batch]
        )
        for place, one in zip(batch, scored, strict=True):
            log_probs[place] = one
    rest = iter(log_probs)
    found = []
    for source, target in zip(sources, targets, strict=True):
        whole = next(rest)
        without = list(itertools.islice(rest, len(source) - (source[-1] in ends)))
        matrix = []
        for piece in range(len(target) - (target[-1] in ends)):
            losses = [max(whole[piece] - one[piece], 0.0) for one in without]
            total = math.fsum(losses) or 1.0
            matrix.append([loss / total for loss in losses] + [0.0] * (source[-1] in ends))
        found.append(matrix)
    return found
