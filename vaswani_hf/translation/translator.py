# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Sentences to translations by `generate()`, and the part that all engines share."""

import abc
import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Self

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import GENERATION_CONFIG_NAME, logging

from ..beam_search_vaswani import power_length_penalty, wu_length_penalty
from ..generation_vaswani import (
    PAPER,
    POWER,
    WU,
    VaswaniGenerationMixin,
)
from ..hub.download import fetch
from .alignment import Aligner, align_pairs
from .forcing import end_ids_of, forced_log_probs
from .loading import CTRANSLATE2_WEIGHTS, check_finite, load_tokenizers, read_json
from .options import check_at_least, check_search_options, first_given, usable_device
from .pairs import PairReader, as_given, sides_of
from .scoring import score_pairs
from .texts import SENTENCES, split_for


logger = logging.get_logger(__name__)

MOST_WORKERS = 8  # each holds a batch, and one at a time runs Python
LENGTH_PENALTIES = {WU: wu_length_penalty, POWER: power_length_penalty}


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
    """Translates sentences, in their order; each engine implements `target_ids`.

    Args:
        tokenizer: makes source ids, each sentence ending in `</s>`.
        target_tokenizer: makes text of target ids; `None` where `tokenizer` does.
        batch_tokens: most padded source tokens of a batch; a longer sentence is a batch of its own.
        max_batch_sentences: most sentences of a batch.
    """

    max_extra_tokens: int
    max_positions: int | None  # most source tokens; `None` for no limit
    folder: Path | None = None  # that the model was loaded from

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        target_tokenizer: PreTrainedTokenizerBase | None,
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
        bar = logging.tqdm(total=len(places), disable=not progress, unit="sentence")
        batches = self.batches([len(ids) for ids in encoded])
        sources = [[encoded[index] for index in batch] for batch in batches]
        with bar, closing(self.translate_batches(sources)) as outputs:
            for batch, found in zip(batches, outputs, strict=True):
                for index, translation in zip(batch, found, strict=True):
                    translations[places[index]] = translation
                bar.update(len(batch))
        return translations

    def translate_texts(
        self,
        texts: Iterable[str],
        *,
        split: str = SENTENCES,
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
        return self.target_tokenizer.batch_decode(
            self.target_ids(sources), skip_special_tokens=True
        )

    @abc.abstractmethod
    def target_ids(self, sources: list[list[int]]) -> list[list[int]]:
        """The target ids of one batch of source ids; they may include special ids."""

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


class Translator(TextTranslator):
    """Translates by a model of transformers and its tokenizer.

    Args:
        model: any sequence-to-sequence model of transformers; put into evaluation mode.
        tokenizer: its tokenizer, fast or slow.
        target_tokenizer: the target's, if it has one of its own.
        num_beams: beam width; `None` for the one in the model's generation config.
        length_penalty: exponent of the length penalty; `None` likewise.
        length_penalty_type: `"wu"` or `"power"`, as in `generate()` of Vaswani models, which alone
            have the first; `None` likewise.
        max_extra_tokens: how many tokens a translation may have beyond its source, or in models of
            other kinds beyond the longest source of its batch; `None` for the number in the model's
            generation config, or else the paper's (section 6.1).
        batch_tokens: most padded source tokens of a batch; a longer sentence is a batch of its own.
        max_batch_sentences: most sentences of a batch.

    Raises:
        ValueError: if an option is out of range, or a weight of the model is NaN or infinite.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        target_tokenizer: PreTrainedTokenizerBase | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        length_penalty_type: str | None = None,
        max_extra_tokens: int | None = None,
        batch_tokens: int = 4096,
        max_batch_sentences: int = 128,
    ) -> None:
        super().__init__(tokenizer, target_tokenizer, batch_tokens, max_batch_sentences)
        check_search_options(num_beams, length_penalty, length_penalty_type, max_extra_tokens)
        check_finite(model)
        self.model = model.eval()
        config = model.generation_config
        # Code from the Hub has a class of its own; the config shows that it is a Vaswani model.
        self.is_vaswani = isinstance(model, VaswaniGenerationMixin) or hasattr(
            config, "max_extra_tokens"
        )
        if not self.is_vaswani:
            if length_penalty_type == WU:
                raise ValueError(
                    f'length_penalty_type="{WU}" exists for Vaswani models only, and this is a '
                    f"{type(model).__name__}; leave it out."
                )
            length_penalty_type = None  # all that other models have is "power"
        has_table = getattr(model.config, "position_encoding", "learned") == "learned"
        most = getattr(model.config, "max_position_embeddings", None)
        self.max_positions = most if has_table else None
        self.max_extra_tokens = first_given(
            max_extra_tokens, getattr(config, "max_extra_tokens", None), PAPER["max_extra_tokens"]
        )
        given = {
            "num_beams": num_beams,
            "length_penalty": length_penalty,
            "length_penalty_type": length_penalty_type,
        }
        self.generation = {name: value for name, value in given.items() if value is not None}

    @property
    def num_beams(self) -> int:
        """Beam width of the search."""
        return int(self.generation.get("num_beams") or self.model.generation_config.num_beams or 1)

    @classmethod
    def from_pretrained(
        cls,
        folder: str | PathLike[str],
        *,
        revision: str | None = None,
        token: str | None = None,
        device: str | None = None,
        **options: object,
    ) -> Self:
        """Load a model and its tokenizer from a folder or the Hub.

        Args:
            folder: a folder, or an id on the Hub. A tokenizer in the subfolder `target_tokenizer`
                is the target's.
            revision: branch, tag or commit of a Hub id; `main` unless given.
            token: for private repositories; the one that is logged in unless given.
            device: such as `"cuda"`; `None` for a GPU where there is one.
            options: as for `Translator`.

        Raises:
            ValueError: if it is a folder of CTranslate2 or cannot be loaded, or the device cannot
                be used.
            HubError: if it cannot be fetched from the Hub.
        """
        if (Path(folder) / CTRANSLATE2_WEIGHTS).is_file():
            raise ValueError(
                f"{folder} is a folder of CTranslate2 (it has {CTRANSLATE2_WEIGHTS}); use "
                f"CTranslate2Translator, on the command line --engine ctranslate2."
            )
        place = usable_device(device)
        folder = fetch(folder, revision=revision, token=token)
        read_json(folder / GENERATION_CONFIG_NAME)  # the library ignores a damaged one
        tokenizer, target_tokenizer = load_tokenizers(folder)
        model = AutoModelForSeq2SeqLM.from_pretrained(folder)
        translator = cls(
            model.to(place),
            tokenizer,
            target_tokenizer=target_tokenizer,
            **options,  # type: ignore[arg-type]
        )
        translator.folder = folder
        return translator

    def translate_batches(self, batches: list[list[list[int]]]) -> Generator[list[str]]:
        """As above; on a CPU torch's threads translate different batches.

        Each step of a search has many small operators, which threads that share them wait for.
        """
        threads = torch.get_num_threads()
        workers = min(threads, len(batches), MOST_WORKERS)
        draws = self.model.generation_config.do_sample  # in an order that must be the same
        if workers < 2 or draws or not self.is_vaswani or self.model.device.type != "cpu":
            yield from super().translate_batches(batches)
            return
        pool = ThreadPoolExecutor(workers, "batch", torch.set_num_threads, (threads // workers,))
        try:
            yield from pool.map(self.translate_ids, batches)
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)  # of threads that begin later

    @torch.inference_mode()
    def target_ids(self, sources: list[list[int]]) -> list[list[int]]:
        """The target ids of one batch of source ids, special ids included."""
        longest = max(map(len, sources))
        input_ids = torch.full((len(sources), longest), self.tokenizer.pad_token_id)
        attention_mask = torch.zeros_like(input_ids)
        for row, source in enumerate(sources):
            input_ids[row, : len(source)] = torch.tensor(source)
            attention_mask[row, : len(source)] = 1
        if self.is_vaswani:
            limit = {"max_extra_tokens": self.max_extra_tokens}
        else:  # one limit for the batch, at most the number of positions
            most = self.max_positions or math.inf
            limit = {"max_new_tokens": int(min(longest + self.max_extra_tokens, most))}
        outputs = self.model.generate(
            input_ids=input_ids.to(self.model.device),
            attention_mask=attention_mask.to(self.model.device),
            **limit,
            **self.generation,
        )
        return outputs.tolist()

    def align(
        self,
        source: Any,
        target: Any,
        *,
        layer: int | None = None,
        head: int | None = None,
        step: str | None = None,
        chunk_sentences: int = 10_000,
    ) -> Any:
        """Which source words the words of targets come from, by where a head looks.

        What is not named of layer, head and step is chosen by a sample of the first pairs, once for
        a model: `vaswani_hf.translation.alignment` says how.

        Args:
            source: as in `score`.
            target: as in `score`.
            layer: of the decoder, counted from 0.
            head: in its layer, counted from 0.
            step: `"reads"` or `"predicts"`: whether we look at the step that reads a target piece
                or at the one before, which predicts it.
            chunk_sentences: pairs that are read, sorted by length and aligned together.

        Returns:
            An `Alignment` for a text, a list of them for a list, and for an iterator an iterator;
            all in the given order.

        Raises:
            PairError: if a pair has more tokens than the model has positions, or a side none, or if
                it is not known which characters a piece spells.
            UnequalLengthError: if one side has fewer, after the pairs before that.
            ValueError: if the model has no such head, or does not tell where it looks.
        """
        aligner = Aligner(self.model, self.tokenizer, self.target_tokenizer, self.batch_tokens)
        sides = sides_of(source, target)
        found = align_pairs(self.pair_reader(chunk_sentences), *sides, aligner, layer, head, step)
        return as_given(source, found)

    def end_ids(self) -> list[int]:
        """The pieces that end a translation."""
        return end_ids_of(self.model)

    def length_penalty_of_search(self) -> tuple[float, str]:
        """Exponent and type of the length penalty that the search ranks by."""
        config = self.model.generation_config
        found = {
            name: first_given(self.generation.get(name), getattr(config, name, None), default)
            for name, default in (("length_penalty", 1.0), ("length_penalty_type", POWER))
        }
        return found["length_penalty"], found["length_penalty_type"]

    def log_probs(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """The log-probability of each piece of each target of a batch."""
        return forced_log_probs(self.model, self.tokenizer.pad_token_id, sources, targets)
