# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The part that all engines share: sentences to batches of ids, and back to text in their order."""

import abc
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..search_settings_vaswani import POWER, WU, power_length_penalty, wu_length_penalty
from .options import check_at_least, check_search_options, first_given
from .pairs import PairReader, as_given, sides_of
from .scoring import score_pairs


LENGTH_PENALTIES = {WU: wu_length_penalty, POWER: power_length_penalty}


class Hypothesis(NamedTuple):
    """A translation of a source, as an engine has found it.

    `ids` are target ids without the start and padding, and with `</s>` if it has ended; `log_prob`
    is the sum over them, `None` where the engine was not asked for it.
    """

    ids: list[int]
    log_prob: float | None


class LongSourceError(ValueError):
    """A source has more tokens than the model has positions.

    `place` is the index of the sentence in the input, counted from 0.
    """

    def __init__(self, place: int, num_tokens: int, most: int) -> None:
        super().__init__(
            f"A sentence of {num_tokens} tokens needs as many positions, but the model has {most}; "
            f"split the sentence, or use a model with a larger max_position_embeddings."
        )
        self.place = place


class TextTranslator(abc.ABC):
    """Translates sentences, in their order; each engine implements `hypotheses`.

    Args:
        tokenizer: makes source ids, each sentence ending in `</s>`; the library's, or a
            `TokenizerFile`.
        target_tokenizer: makes text of target ids; `None` where `tokenizer` does.
        batch_tokens: most padded source tokens of a batch; a longer sentence is a batch of its own.
        max_batch_sentences: most sentences of a batch.
    """

    max_extra_tokens: int
    max_positions: int | None  # most source tokens; `None` for no limit
    folder: Path | None = None  # that the model was loaded from

    def __init__(
        self,
        tokenizer: Any,
        target_tokenizer: Any,
        batch_tokens: int,
        max_batch_sentences: int,
    ) -> None:
        check_at_least(1, batch_tokens=batch_tokens, max_batch_sentences=max_batch_sentences)
        self.tokenizer = tokenizer
        self.target_tokenizer = tokenizer if target_tokenizer is None else target_tokenizer
        self.batch_tokens = batch_tokens
        self.max_batch_sentences = max_batch_sentences

    def __call__(
        self,
        sentences: str | Iterable[str],
        *,
        split: str | None = None,
        language: str | None = None,
        max_source_tokens: int | None = None,
        progress: bool = False,
    ) -> list[str]:
        """Translate sentences; a blank one stays empty.

        Args:
            sentences: one sentence, or several; with `split`, texts of any length.
            split: `"sentences"` splits every text into sentences; what stands between them, such as
                line breaks, stays as it is.
            language: with `split`, that of the texts, such as `"en"`; `None` for the one that the
                model's card translates from.
            max_source_tokens: with `split`, longer sentences are cut at clauses, and a warning
                tells so; `None` for the longest that the model was trained with, or 256 if its
                tokenizer does not say.
            progress: whether to draw a progress bar.

        Returns:
            One translation for each sentence or text, in the same order.

        Raises:
            LongSourceError: if a sentence has more tokens than the model has positions; nothing is
                translated then.
            ValueError: if an option is out of range, or `split` is missing or finds no language.
            ImportError: if sentencex, which splits, is missing.
        """
        sentences = [sentences] if isinstance(sentences, str) else list(sentences)
        if split is not None:
            return list(
                self.translate_texts(
                    sentences,
                    split=split,
                    language=language,
                    max_source_tokens=max_source_tokens,
                    progress=progress,
                )
            )
        if language is not None or max_source_tokens is not None:
            raise ValueError(
                'language and max_source_tokens are for split="sentences", which is missing.'
            )
        translations = [""] * len(sentences)
        places = [place for place, sentence in enumerate(sentences) if sentence.strip()]
        if not places:
            return translations
        encoded = self.encode([sentences[place] for place in places])
        if self.max_positions is not None:
            for place, ids in zip(places, encoded, strict=True):
                if len(ids) > self.max_positions:
                    raise LongSourceError(place, len(ids), self.max_positions)
        batches = self.batches([len(ids) for ids in encoded])
        sources = [[encoded[index] for index in batch] for batch in batches]
        with (
            _progress_bar(len(places), is_shown=progress) as advance,
            closing(self.translate_batches(sources)) as outputs,
        ):
            for batch, found in zip(batches, outputs, strict=True):
                for index, translation in zip(batch, found, strict=True):
                    translations[places[index]] = translation
                advance(len(batch))
        return translations

    def stream(
        self, sentences: Iterable[str], *, chunk_sentences: int = 10_000, progress: bool = False
    ) -> Iterator[str]:
        """Translate any number of sentences, of which no more are held than are needed.

        Args:
            sentences: such as the lines of a large file; a blank one stays empty.
            chunk_sentences: how many are read, sorted by length and translated together.
            progress: whether to draw a progress bar for each of these.

        Returns:
            An iterator of the translations, in the same order.

        Raises:
            LongSourceError: if a sentence has more tokens than the model has positions, after the
                translations of the chunks before.
            ValueError: if `chunk_sentences` is below 1.
        """
        check_at_least(1, chunk_sentences=chunk_sentences)
        return self._stream(iter(sentences), chunk_sentences, progress)

    def _stream(
        self, sentences: Iterator[str], chunk_sentences: int, progress: bool
    ) -> Iterator[str]:
        num_done = 0
        while chunk := list(itertools.islice(sentences, chunk_sentences)):
            try:
                yield from self(chunk, progress=progress)
            except LongSourceError as error:
                error.place += num_done
                raise
            num_done += len(chunk)

    def translate_texts(
        self,
        texts: Iterable[str],
        *,
        split: str = "sentences",
        language: str | None = None,
        max_source_tokens: int | None = None,
        chunk_sentences: int = 10_000,
        progress: bool = False,
    ) -> Iterator[str]:
        """Translate texts of any length one after the other, as many as there are.

        Args:
            texts: such as the lines of a large file, with their ends.
            split: as in a call.
            language: likewise.
            max_source_tokens: likewise.
            chunk_sentences: how many sentences are held and translated together, or all of one
                text.
            progress: whether to draw a progress bar for each of these.
        """
        from .texts import split_for

        splitter = split_for(
            self, split=split, language=language, max_source_tokens=max_source_tokens
        )
        return splitter.translate(texts, partial(self, progress=progress), chunk_sentences)

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """The source ids of each sentence, ending in `</s>`."""
        # The library would tell that sources beyond the trained length end in errors of an index.
        return self.tokenizer(list(sentences), verbose=False)["input_ids"] if sentences else []

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Group sentences by length, the longest first, so that memory runs out at once or never.

        Args:
            lengths: source tokens of each sentence.

        Returns:
            Lists of indices into `lengths`; each index occurs once.
        """
        batches: list[list[int]] = []
        for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
            room = self.batch_tokens // lengths[batches[-1][0]] if batches else 0
            if batches and len(batches[-1]) < min(room, self.max_batch_sentences):
                batches[-1].append(index)
            else:
                batches.append([index])
        return batches

    def translate_batches(self, batches: list[list[list[int]]]) -> Generator[list[str]]:
        """Translate batches of source ids, in their order."""
        yield from map(self.translate_ids, batches)

    def translate_ids(self, sources: list[list[int]]) -> list[str]:
        """Translate one batch of source ids, each ending in `</s>`."""
        return self.texts_of(self.target_ids(sources))

    def target_ids(self, sources: list[list[int]]) -> list[list[int]]:
        """The ids of the best hypothesis for each source of a batch."""
        return [found[0].ids for found in self.hypotheses(sources)]

    def texts_of(self, targets: Sequence[list[int]]) -> list[str]:
        """The text of target ids, special ids left out."""
        return self.target_tokenizer.batch_decode(targets, skip_special_tokens=True)

    @abc.abstractmethod
    def hypotheses(self, sources: list[list[int]]) -> list[list[Hypothesis]]:
        """What the search finds for each source of a batch, the best first.

        Args:
            sources: ids, each ending in `</s>`.
        """

    def score(
        self,
        source: Any,
        target: Any,
        *,
        length_penalty: float | None = None,
        length_penalty_type: str | None = None,
        chunk_sentences: int = 10_000,
    ) -> Any:
        """How probable the model finds targets, given their sources.

        What beam search has found has the score that the search gave it, where the target is given
        as the ids that were found: a text may be encoded in other pieces than those. The generation
        config, such as `bad_words_ids`, changes no score.

        Args:
            source: a text, a list, or an iterator of texts; or of ids in place of any text.
            target: likewise, as many. A text ends in `</s>`. Ids are scored as they are: without
                the start, and without `</s>` if the limit has cut them off.
            length_penalty: exponent of the length penalty; `None` for that of the search, 0 for
                none.
            length_penalty_type: `"wu"` or `"power"`; `None` likewise.
            chunk_sentences: pairs that are read, sorted by length and scored together.

        Returns:
            A `PairScore` for a text, a list of them for a list, and for an iterator an iterator,
            which reads no further than it must; all in the given order.

        Raises:
            PairError: if a pair has more tokens than the model has positions, or a side none.
            UnequalLengthError: if one side has fewer, after the pairs before that.
            ValueError: if an option is out of range, or the model computes NaN.
        """
        check_search_options(None, length_penalty, length_penalty_type, None)
        alpha, kind = self.length_penalty_of_search()
        alpha, kind = first_given(length_penalty, alpha), first_given(length_penalty_type, kind)
        divisor = LENGTH_PENALTIES[kind]
        scores = score_pairs(
            self.pair_reader(chunk_sentences),
            *sides_of(source, target),
            self.log_probs,
            lambda num_tokens: divisor(num_tokens, alpha),
            self.num_target_positions,
        )
        return as_given(source, scores)

    def pair_reader(self, chunk_sentences: int) -> PairReader:
        """What makes ids and batches of pairs."""
        check_at_least(1, chunk_sentences=chunk_sentences)
        return PairReader(
            self.tokenizer,
            self.target_tokenizer,
            self.end_ids(),
            self.max_positions,
            self.batch_tokens,
            self.max_batch_sentences,
            chunk_sentences,
        )

    def num_target_positions(self, ids: list[int]) -> int:
        """The positions that a target needs to be scored."""
        return len(ids)

    @abc.abstractmethod
    def end_ids(self) -> list[int]:
        """The pieces that end a translation."""

    @abc.abstractmethod
    def length_penalty_of_search(self) -> tuple[float, str]:
        """Exponent and type of the length penalty that the search ranks by."""

    @abc.abstractmethod
    def log_probs(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """The log-probability of each piece of each target of a batch."""


@contextmanager
def _progress_bar(total: int, *, is_shown: bool) -> Iterator[Callable[[int], object]]:
    """A function that moves the bar on by so many sentences."""
    if not is_shown:
        yield lambda count: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, unit="sentence") as bar:
        yield bar.update
