# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The part that all engines share: sentences to batches of ids, and back to text in their order."""

import abc
import logging
import math
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ..markup import HTML, PLACEHOLDERS
from ..search_settings_vaswani import POWER, WU, power_length_penalty, wu_length_penalty
from .found import Hypothesis, LongPrefixError, LongSourceError, MBRTranslation, Translation
from .lengths import LONGEST_SOURCE, length_limit, trained_length
from .options import (
    Sampling,
    check_at_least,
    check_num_returned,
    check_search_options,
    first_given,
)
from .pairs import PairReader, as_given, sides_of
from .scoring import NAN, score_pairs
from .sentences import Answer, Prefixes, Sentence, in_chunks, sentences_of, with_prefixes


logger = logging.getLogger(__name__)
LEAST_SHARE = 32  # sentences that are worth a batch of their own
LENGTH_PENALTIES = {WU: wu_length_penalty, POWER: power_length_penalty}


class TextTranslator(abc.ABC):
    """Translates sentences, in their order; each engine implements `hypotheses`.

    Args:
        tokenizer: makes source ids, each sentence ending in `</s>`; the library's, or a
            `TokenizerFile`.
        target_tokenizer: makes text of target ids; `None` where `tokenizer` does.
        batch_tokens: most padded source tokens of a batch; a longer sentence is a batch of its own.
        max_batch_sentences: most sentences of a batch.
        max_positions: tokens that the model can read at all; `None` for any number.
        max_source_tokens: most tokens of a sentence, `</s>` included; a longer one is refused.
            `None` for the longest that the model was trained with, or 1024 if that is less or not
            known.
    """

    max_extra_tokens: int
    folder: Path | None = None  # that the model was loaded from

    def __init__(
        self,
        tokenizer: Any,
        target_tokenizer: Any,
        batch_tokens: int,
        max_batch_sentences: int,
        max_positions: int | None,
        max_source_tokens: int | None,
    ) -> None:
        check_at_least(1, batch_tokens=batch_tokens, max_batch_sentences=max_batch_sentences)
        self.max_positions, self.max_source_tokens = max_positions, max_source_tokens
        self.trained_length = trained_length(tokenizer)
        longest = max(LONGEST_SOURCE, self.trained_length or 0)
        self._has_warned = False
        self.source_limit = length_limit(max_source_tokens, longest, max_positions)
        self.tokenizer = tokenizer
        self.target_tokenizer = tokenizer if target_tokenizer is None else target_tokenizer
        self.batch_tokens = batch_tokens
        self.max_batch_sentences = max_batch_sentences
        self._encoding = threading.Lock()  # the library changes a tokenizer that it uses

    def __call__(
        self,
        sentences: str | Iterable[str],
        *,
        split: str | None = None,
        language: str | None = None,
        max_source_tokens: int | None = None,
        prefixes: Prefixes = None,
        sampling_topk: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
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
                tells so; `None` for as many as the translator was made with, or else the longest
                that the model was trained with, or 256 if its tokenizer does not say.
            prefixes: what each translation starts with, one for each sentence; `None` or an empty
                one for a sentence without. They are part of the translations. A prefix is cut into
                pieces by itself, and what follows begins with a piece: a last word may go on.
            sampling_topk: draws each piece among so many, the most probable ones, by their
                probabilities; 0 among all. `None` searches.
            temperature: of sampling, above 0; logits are divided by it. 1 unless given.
            seed: of sampling: the same seed gives a source the same translation, whatever its
                batch. `None` for another one at each call.
            progress: whether to draw a progress bar.

        Returns:
            One translation for each sentence or text, in the same order.

        Raises:
            LongTextError: if a sentence or a prefix has more tokens than the model has positions,
                or than the translator takes; nothing is translated then.
            ValueError: if an option is out of range, `split` is missing or finds no language, or
                there are fewer or more prefixes than sentences.
            ImportError: if sentencex, which splits, is missing.
        """
        sampling = self.make_sampling(sampling_topk, temperature, seed)
        if split is not None:
            if prefixes is not None:
                raise ValueError("prefixes are for sentences; leave out prefixes or split.")
            return list(
                self._translate_texts(
                    [sentences] if isinstance(sentences, str) else sentences,
                    split=split,
                    language=language,
                    max_source_tokens=max_source_tokens,
                    sampling=sampling,
                    progress=progress,
                )
            )
        if language is not None or max_source_tokens is not None:
            raise ValueError(
                'language and max_source_tokens are for split="sentences", which is missing.'
            )
        given = list(with_prefixes(*sentences_of(sentences, prefixes)))
        return self._translate(given, sampling=sampling, progress=progress)

    def stream(
        self,
        sentences: Iterable[str],
        *,
        prefixes: Iterable[str | None] | None = None,
        sampling_topk: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        chunk_sentences: int = 10_000,
        progress: bool = False,
    ) -> Iterator[str]:
        """Translate any number of sentences, of which no more are held than are needed.

        Args:
            sentences: such as the lines of a large file; a blank one stays empty.
            prefixes: as in a call; such as the lines of another file.
            sampling_topk: as in a call.
            temperature: likewise.
            seed: likewise.
            chunk_sentences: how many are read, sorted by length and translated together.
            progress: whether to draw a progress bar for each of these.

        Returns:
            An iterator of the translations, in the same order.

        Raises:
            LongTextError: as for a call, after the translations of the chunks before.
            ValueError: if an option is out of range, or there are fewer or more prefixes than
                sentences.
        """
        translate = partial(
            self._translate,
            sampling=self.make_sampling(sampling_topk, temperature, seed),
            progress=progress,
        )
        return in_chunks(with_prefixes(sentences, prefixes), chunk_sentences, translate)

    def n_best(
        self,
        sentences: Any,
        *,
        num_return_sequences: int = 1,
        prefixes: Any = None,
        sampling_topk: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        chunk_sentences: int = 10_000,
        progress: bool = False,
    ) -> Any:
        """The best translations of each sentence, or several samples, with their scores.

        Translations that differ in their pieces are different ones, also where their texts are the
        same. By the paper's rules one that the limit cut off comes after those that have ended.

        Args:
            sentences: a text, a list, or an iterator of texts.
            num_return_sequences: translations of each; of a search at most `num_beams`. A blank
                sentence has as many empty ones.
            prefixes: as in a call: a text or `None`, a list, or an iterator.
            sampling_topk: as in a call; samples are sorted by their scores. Their log-probabilities
                are the model's, of all pieces and without temperature.
            temperature: as in a call.
            seed: likewise; each sample of a source is another.
            chunk_sentences: how many are read, sorted by length and translated together.
            progress: whether to draw a progress bar for each of these.

        Returns:
            A list of `Translation`, the best first, for a text; a list of such lists for a list;
            and for an iterator an iterator, which reads no further than it must.

        Raises:
            LongTextError: as for `stream`.
            ValueError: if an option is out of range, there are fewer or more prefixes than
                sentences, or the model computes NaN.
        """
        check_at_least(1, num_return_sequences=num_return_sequences)
        sampling = self.make_sampling(sampling_topk, temperature, seed)
        if sampling is None:
            check_num_returned(num_return_sequences, self.num_beams)
        find = partial(
            self._n_best,
            num_return_sequences=num_return_sequences,
            sampling=sampling,
            progress=progress,
        )
        given = with_prefixes(*sentences_of(sentences, prefixes))
        return as_given(sentences, in_chunks(given, chunk_sentences, find))

    def mbr(
        self,
        sentences: Any,
        *,
        utility: str = "chrf",
        num_candidates: int | None = None,
        prefixes: Any = None,
        sampling_topk: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        chunk_sentences: int = 10_000,
        progress: bool = False,
    ) -> Any:
        """Of several translations of each sentence the one that is most like all the others.

        That is minimum Bayes risk decoding (Eikema & Aziz 2020): each candidate is scored against
        each other as its reference, and the mean counts; a candidate that was found twice counts
        twice. Of equal ones it is that with the larger score.

        Args:
            sentences: as in `n_best`.
            utility: `"chrf"` or `"bleu"`, of sentences by sacrebleu.
            num_candidates: of each sentence; of a search at most `num_beams`, which is what `None`
                means. Samples need a number.
            prefixes: as in `n_best`.
            sampling_topk: likewise.
            temperature: likewise.
            seed: likewise.
            chunk_sentences: likewise.
            progress: likewise.

        Returns:
            An `MBRTranslation` for a text, a list of them for a list, and for an iterator an
            iterator.

        Raises:
            LongTextError: as for `stream`.
            ValueError: as for `n_best`, or for another utility.
            ImportError: if sacrebleu is missing.
        """
        from .mbr import Utility

        if num_candidates is None and sampling_topk is not None:
            raise ValueError(
                "num_candidates is missing: how many samples of each sentence to draw."
            )
        check_at_least(1, num_candidates=num_candidates)
        if num_candidates is not None and sampling_topk is None:
            check_num_returned(num_candidates, self.num_beams, "num_candidates")
        expected = Utility(utility).expected
        found = self.n_best(
            sentences,
            num_return_sequences=first_given(num_candidates, self.num_beams),
            prefixes=prefixes,
            sampling_topk=sampling_topk,
            temperature=temperature,
            seed=seed,
            chunk_sentences=chunk_sentences,
            progress=progress,
        )

        def choose(candidates: list[Translation]) -> MBRTranslation:
            utilities = expected([one.text for one in candidates])
            best = max(range(len(candidates)), key=utilities.__getitem__)
            return MBRTranslation(**vars(candidates[best]), utility=utilities[best])

        several = [found] if isinstance(sentences, str) else found
        return as_given(sentences, map(choose, several))

    def translate_texts(
        self,
        texts: Iterable[str],
        *,
        split: str = "sentences",
        language: str | None = None,
        max_source_tokens: int | None = None,
        sampling_topk: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        chunk_sentences: int = 10_000,
        progress: bool = False,
    ) -> Iterator[str]:
        """Translate texts of any length one after the other, as many as there are.

        Args:
            texts: such as the lines of a large file, with their ends.
            split: as in a call.
            language: likewise.
            max_source_tokens: likewise.
            sampling_topk: likewise.
            temperature: likewise.
            seed: likewise.
            chunk_sentences: how many sentences are held and translated together, or all of one
                text.
            progress: whether to draw a progress bar for each of these.
        """
        return self._translate_texts(
            texts,
            split=split,
            language=language,
            max_source_tokens=max_source_tokens,
            sampling=self.make_sampling(sampling_topk, temperature, seed),
            chunk_sentences=chunk_sentences,
            progress=progress,
        )

    def translate_markup(
        self,
        documents: Any,
        markup: str = HTML,
        *,
        split: str | None = None,
        language: str | None = None,
        max_source_tokens: int | None = None,
        sampling_topk: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        chunk_sentences: int = 10_000,
        progress: bool = False,
    ) -> Any:
        """Translate documents; their markup goes where its words went, and nothing of it is lost.

        Args:
            documents: a text, a list, or an iterator of texts.
            markup: what they are: `"html"`, pages or fragments; `"xliff"`, whole files, 1.2 or 2.x;
                or `"placeholders"`, lines of text in which `{name}`, `%s`, URLs, e-mail addresses
                and tags are not translated.
            split: with `"placeholders"`, `"sentences"` splits each line; without, it is one
                sentence. Texts in HTML and XLIFF are always split.
            language: of the texts that are split; as in a call.
            max_source_tokens: likewise of their sentences.
            sampling_topk: as in a call.
            temperature: likewise.
            seed: likewise.
            chunk_sentences: how many sentences are held and translated together, or all of one
                document.
            progress: whether to draw a progress bar for each of these.

        Returns:
            A text for a text, a list for a list, and for an iterator an iterator.

        Raises:
            LongTextError: as for `stream`, where a line is one sentence; `place` is the line's.
            ValueError: if an option is out of range, the language is not known, a document is not
                XLIFF, or the model does not tell where it looks.
            ImportError: if sentencex, which splits, is missing.
        """
        from .markup import reader_of, translate_documents
        from .texts import SENTENCES, split_for

        check_at_least(1, chunk_sentences=chunk_sentences)
        read, splitter = reader_of(markup), None
        sampling = self.make_sampling(sampling_topk, temperature, seed)
        if split is not None or markup != PLACEHOLDERS:
            splitter = split_for(
                self,
                split=SENTENCES if split is None else split,
                language=language,
                max_source_tokens=max_source_tokens,
            )
        elif language is not None or max_source_tokens is not None:
            raise ValueError(
                'language and max_source_tokens are for split="sentences", which is missing.'
            )
        most = None
        if splitter is not None:
            most = max(self.source_limit, splitter.max_source_tokens)

        def answer(sources: list[list[int]], **options: Any) -> list[tuple[str, list[int]]]:
            targets = self.target_ids(sources, sampling=sampling, **options)
            return list(zip(self.texts_of(targets), targets, strict=True))

        def find(sentences: list[str]) -> list[tuple[str, list[int]]]:
            given = list(with_prefixes(sentences, None))
            return self._answers(given, answer, ("", []), progress=progress, most=most)

        several = [documents] if isinstance(documents, str) else documents
        found = translate_documents(self, map(read, several), find, splitter, chunk_sentences)
        return as_given(documents, found)

    def _translate_texts(
        self,
        texts: Iterable[str],
        *,
        split: str,
        language: str | None,
        max_source_tokens: int | None,
        sampling: Sampling | None,
        chunk_sentences: int = 10_000,
        progress: bool,
    ) -> Iterator[str]:
        from .texts import split_for

        splitter = split_for(
            self, split=split, language=language, max_source_tokens=max_source_tokens
        )

        most = max(self.source_limit, splitter.max_source_tokens)

        def translate(sentences: list[str]) -> list[str]:
            given = list(with_prefixes(sentences, None))
            return self._translate(given, sampling=sampling, progress=progress, most=most)

        return splitter.translate(texts, translate, chunk_sentences)

    def _translate(
        self,
        sentences: list[Sentence],
        *,
        sampling: Sampling | None,
        progress: bool,
        most: int | None = None,
    ) -> list[str]:
        answer = self.translate_ids
        if sampling is not None:
            answer = partial(answer, sampling=sampling)
        return self._answers(sentences, answer, "", progress=progress, most=most)

    def _n_best(
        self,
        sentences: list[Sentence],
        *,
        num_return_sequences: int,
        sampling: Sampling | None,
        progress: bool,
    ) -> list[list[Translation]]:
        penalty = self.length_divisor()

        def find(sources: list[list[int]], **options: Any) -> list[list[Translation]]:
            prefixes = options.get("prefixes") or [[]] * len(sources)
            found = self.hypotheses(
                sources, num_return_sequences=num_return_sequences, sampling=sampling, **options
            )
            # As the search of generate() does, where there are fewer: the last one again.
            found = [
                [*several, *several[-1:] * (num_return_sequences - len(several))]
                for several in found
            ]
            texts = iter(self.texts_of([one.ids for several in found for one in several]))
            translations = []
            for several, prefix in zip(found, prefixes, strict=True):
                chosen = []
                for ids, log_prob in several:
                    if log_prob is None or math.isnan(log_prob):
                        raise ValueError(NAN)
                    score = log_prob / penalty(len(ids) - len(prefix))
                    chosen.append(Translation(next(texts), score, log_prob, ids))
                if sampling is not None:
                    chosen.sort(key=lambda one: -one.score)
                translations.append(chosen)
            return translations

        nothing = [Translation("", 0.0, 0.0, [])] * num_return_sequences
        return self._answers(
            sentences,
            find,
            nothing,
            num_rows=1 if sampling is None else num_return_sequences,
            progress=progress,
        )

    def _answers(
        self,
        sentences: list[Sentence],
        answer: Callable[..., list[Answer]],
        nothing: Answer,
        *,
        num_rows: int = 1,
        progress: bool,
        most: int | None = None,
    ) -> list[Answer]:
        """What `answer`, which gets batches of source ids, says of each sentence, in their order.

        Args:
            sentences: with their prefixes.
            answer: gets the `prefixes` of a batch too, as ids, where it has some.
            nothing: the answer for a blank sentence.
            num_rows: rows that a sentence needs in a batch.
            progress: whether to draw a progress bar.
            most: tokens of a sentence that is not refused; `None` for the translator's limit.
        """
        answers = [nothing] * len(sentences)
        places = [place for place, sentence in enumerate(sentences) if sentence.text.strip()]
        if not places:
            return answers
        encoded = self.encode([sentences[place].text for place in places])
        prefixes = self.encode_prefixes([sentences[place].prefix for place in places])
        for place, ids, prefix in zip(places, encoded, prefixes, strict=True):
            self.check_lengths(place, len(ids), len(prefix), most)
        self._warn_of_length(max(map(len, encoded)))
        batches = self.batches(list(map(len, encoded)), list(map(len, prefixes)), num_rows)

        def answer_batch(batch: list[int]) -> list[Answer]:
            chosen = [prefixes[index] for index in batch]
            given = {"prefixes": chosen} if any(chosen) else {}
            return answer([encoded[index] for index in batch], **given)

        with (
            _progress_bar(len(places), is_shown=progress) as advance,
            closing(self.map_batches(answer_batch, batches)) as outputs,
        ):
            for batch, found in zip(batches, outputs, strict=True):
                for index, one in zip(batch, found, strict=True):
                    answers[places[index]] = one
                advance(len(batch))
        return answers

    def check_lengths(
        self, place: int, num_tokens: int, num_forced: int = 0, most: int | None = None
    ) -> None:
        """Refuse a sentence that is too long.

        Args:
            place: of the sentence in the input, counted from 0.
            num_tokens: of its source.
            num_forced: of its prefix.
            most: as for `_answers`.

        Raises:
            LongTextError: if one of the two has too many.
        """
        most, positions = most or self.source_limit, self.max_positions or math.inf
        if num_tokens > most:
            raise LongSourceError(place, num_tokens, most, is_choice=most < positions)
        if num_forced >= positions:
            raise LongPrefixError(place, num_forced, int(positions))
        if num_forced > self.target_limit:
            raise LongPrefixError(place, num_forced, self.target_limit, is_choice=True)

    def _warn_of_length(self, num_tokens: int) -> None:
        """Tell once that a sentence is longer than those of the training, if nobody chose so."""
        trained = self.trained_length
        if trained is None or num_tokens <= trained or self.max_source_tokens or self._has_warned:
            return
        self._has_warned = True
        logger.warning(
            f"A sentence of {num_tokens} tokens is longer than any that the model was trained with "
            f"({trained}), and may be translated badly; split such sentences "
            f'(split="sentences", on the command line --split sentences).'
        )

    @property
    def target_limit(self) -> int:
        """Tokens that a translation of the longest source may have."""
        return self.source_limit + self.max_extra_tokens

    def make_sampling(
        self, topk: int | None, temperature: float | None, seed: int | None
    ) -> Sampling | None:
        """What the options of sampling ask for; `None` for a search.

        Raises:
            ValueError: if one is out of range, or the engine has it not.
        """
        return Sampling.make(topk, temperature, seed)

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """The source ids of each sentence, ending in `</s>`."""
        if not sentences:
            return []
        # The library would tell that sources beyond the trained length end in errors of an index.
        with self._encoding:
            return self.tokenizer(list(sentences), verbose=False)["input_ids"]

    def encode_prefixes(self, prefixes: Sequence[str | None]) -> list[list[int]]:
        """The target ids of each prefix, which lack `</s>`; none for `None` and an empty one."""
        texts = [prefix for prefix in prefixes if prefix]
        rows = self.target_tokenizer(text_target=texts, verbose=False)["input_ids"] if texts else []
        ends = self.end_ids()
        encoded = iter([list(row[:-1] if row and row[-1] in ends else row) for row in rows])
        return [next(encoded) if prefix else [] for prefix in prefixes]

    def batches(
        self,
        lengths: Sequence[int],
        prefix_lengths: Sequence[int] | None = None,
        num_rows: int = 1,
    ) -> list[list[int]]:
        """Group sentences by length, the longest first, so that memory runs out at once or never.

        Few sentences are shared out among the workers, where each has enough of them.

        Args:
            lengths: source tokens of each sentence.
            prefix_lengths: tokens of each prefix, which are the same in a batch.
            num_rows: how often a sentence is there.

        Returns:
            Lists of indices into `lengths`; each index occurs once.
        """
        prefix_lengths = prefix_lengths or [0] * len(lengths)
        num_shares = min(self.num_workers, max(len(lengths) // LEAST_SHARE, 1))
        most = min(self.max_batch_sentences // num_rows, math.ceil(len(lengths) / num_shares))
        batches: list[list[int]] = []
        for index in sorted(
            range(len(lengths)), key=lambda index: (-prefix_lengths[index], -lengths[index])
        ):
            first = batches[-1][0] if batches else index
            room = min(self.batch_tokens // (num_rows * lengths[first]), most)
            is_alike = prefix_lengths[index] == prefix_lengths[first]
            if batches and is_alike and len(batches[-1]) < room:
                batches[-1].append(index)
            else:
                batches.append([index])
        return batches

    @property
    def num_workers(self) -> int:
        """Batches that are translated at a time."""
        return 1

    def map_batches(
        self, answer: Callable[[list[int]], list[Answer]], batches: list[list[int]]
    ) -> Generator[list[Answer]]:
        """What `answer` says of each batch, in their order."""
        yield from map(answer, batches)

    def sharing(self) -> Callable[[int, int], None]:
        """What a thread calls that is to translate beside others, before it does.

        Its arguments are the number of the thread, from 0 on, and how many they are. They share
        what this thread has: the copies of the model, and the threads of the CPU.
        """
        return lambda number, num_sharing: None

    def translate_ids(self, sources: list[list[int]], **options: Any) -> list[str]:
        """Translate one batch of source ids, each ending in `</s>`; options as for `hypotheses`."""
        return self.texts_of(self.target_ids(sources, **options))

    def target_ids(self, sources: list[list[int]], **options: Any) -> list[list[int]]:
        """The ids of the best hypothesis for each source; options as for `hypotheses`."""
        return [found[0].ids for found in self.hypotheses(sources, **options)]

    def texts_of(self, targets: Sequence[list[int]]) -> list[str]:
        """The text of target ids, special ids left out."""
        return self.target_tokenizer.batch_decode(targets, skip_special_tokens=True)

    @property
    @abc.abstractmethod
    def num_beams(self) -> int:
        """Beam width of the search."""

    @abc.abstractmethod
    def hypotheses(
        self,
        sources: list[list[int]],
        *,
        prefixes: Sequence[list[int]] | None = None,
        num_return_sequences: int | None = None,
        sampling: Sampling | None = None,
    ) -> list[list[Hypothesis]]:
        """What the search finds for each source of a batch, the best first, or samples.

        Args:
            sources: ids, each ending in `</s>`.
            prefixes: target ids that each translation starts with, without start and `</s>`.
            num_return_sequences: hypotheses of each source, at most `num_beams`, or samples, in the
                order that they have by number; with their log-probabilities. `None` for what the
                engine has at no cost.
            sampling: draws in place of a search.
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
            PairError: if a pair has more tokens than the model has positions or than the translator
                takes, a side none, or one an id that the vocabulary lacks.
            UnequalLengthError: if one side has fewer, after the pairs before that.
            ValueError: if an option is out of range, or the model computes NaN.
        """
        check_search_options(None, length_penalty, length_penalty_type, None)
        scores = score_pairs(
            self.pair_reader(chunk_sentences),
            *sides_of(source, target),
            self.log_probs,
            self.length_divisor(length_penalty, length_penalty_type),
            self.num_target_positions,
        )
        return as_given(source, scores)

    def length_divisor(
        self, alpha: float | None = None, kind: str | None = None
    ) -> Callable[[int], float]:
        """What a log-probability is divided by, for a number of tokens.

        Args:
            alpha: exponent; `None` for that of the search.
            kind: `"wu"` or `"power"`; `None` likewise.
        """
        own_alpha, own_kind = self.length_penalty_of_search()
        exponent = first_given(alpha, own_alpha)
        divisor = LENGTH_PENALTIES[first_given(kind, own_kind)]
        return lambda num_tokens: divisor(num_tokens, exponent)

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
            self.num_pieces(),
            (self.source_limit, self.target_limit),
        )

    def num_target_positions(self, ids: list[int]) -> int:
        """The positions that a target needs to be scored."""
        return len(ids)

    @abc.abstractmethod
    def end_ids(self) -> list[int]:
        """The pieces that end a translation."""

    @abc.abstractmethod
    def num_pieces(self) -> tuple[int | None, int | None]:
        """Pieces of the source's vocabulary and of the target's; `None` if it is not known."""

    @abc.abstractmethod
    def length_penalty_of_search(self) -> tuple[float, str]:
        """Exponent and type of the length penalty that the search ranks by."""

    def piece_weights(
        self, sources: list[list[int]], targets: list[list[int]]
    ) -> Sequence[Sequence[Sequence[float]]]:
        """How much each target piece of a batch comes from each source piece.

        Args:
            sources: ids, with `</s>`.
            targets: ids that were found, with `</s>` if they have ended.

        Returns:
            Of each pair `(T, S)`, without a row for the last `</s>`; no row sums to more than 1.
        """
        from .markup import piece_weights_by_difference

        return piece_weights_by_difference(self, sources, targets)

    @abc.abstractmethod
    def unknown_id(self) -> int:
        """The source piece that stands for none in particular."""

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
