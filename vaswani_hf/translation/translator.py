# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Sentences to translations by `generate()`."""

import copy
import itertools
import math
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Self

import torch
from transformers import (
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from ..generation_vaswani import VaswaniGenerationMixin
from ..hub.adapters import find_adapted, find_adapter, has_tokenizer
from ..search_settings_vaswani import PAPER, POWER, WU
from .adapters import load_models, with_adapter
from .alignment import Aligner, align_pairs
from .engine import TextTranslator
from .ensemble import VaswaniEnsemble, check_tokenizers
from .forcing import end_ids_of, forced_log_probs, input_device, padded, start_id_of
from .found import Hypothesis
from .loading import (
    CTRANSLATE2_WEIGHTS,
    GENERATION_CONFIG,
    check_finite,
    load_tokenizers,
    read_json,
)
from .options import (
    Sampling,
    check_dtype,
    check_search_options,
    device_names,
    first_given,
    usable_device,
)
from .pairs import Pair, as_given, sides_of
from .sampling import SamplingNoise
from .sentences import Answer


MOST_WORKERS = 8  # each holds a batch, and one at a time runs Python


class Translator(TextTranslator):
    """Translates by a model of transformers and its tokenizer.

    Args:
        model: any sequence-to-sequence model of transformers, or a `VaswaniEnsemble`; put into
            evaluation mode.
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
        max_source_tokens: most tokens of a sentence, `</s>` included; a longer one is refused.
            `None` for the longest that the model was trained with, or 1024 if that is less or not
            known.

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
        max_source_tokens: int | None = None,
    ) -> None:
        has_table = getattr(model.config, "position_encoding", "learned") == "learned"
        positions = getattr(model.config, "max_position_embeddings", None) if has_table else None
        super().__init__(
            tokenizer,
            target_tokenizer,
            batch_tokens,
            max_batch_sentences,
            positions,
            max_source_tokens,
        )
        check_search_options(
            *(num_beams, length_penalty, length_penalty_type, max_extra_tokens),
            len(self.target_tokenizer),
        )
        check_finite(model)
        self.model = model.eval()
        self.copies = [self.model]
        self._aligning = threading.Lock()
        self._sample: list[Pair] = []
        self._thread = threading.local()  # has the copy that a thread of its own translates by
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
        folder: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        revision: str | None = None,
        token: str | None = None,
        device: str | Sequence[str] | None = None,
        dtype: str | None = None,
        weights: Sequence[float] | None = None,
        **options: object,
    ) -> Self:
        """Load a model and its tokenizer from a folder or the Hub; or several models, an ensemble.

        An adapter of PEFT is merged into the base model that it names; `with_adapter` takes others.

        Args:
            folder: a folder, or an id on the Hub, of a model or an adapter. A tokenizer in the
                subfolder `target_tokenizer` is the target's. Several make a `VaswaniEnsemble`; the
                tokenizers are the first's.
            revision: branch, tag or commit of a Hub id; `main` unless given.
            token: for private repositories; the one that is logged in unless given.
            device: such as `"cuda"`; `None` for a GPU where there is one. Several, as a list or as
                `"cuda:0,cuda:1"`, each have a copy of the model, and each batch that is to be
                translated goes to one that is free.
            dtype: that the model computes in, `"float32"`, `"bfloat16"` or `"float16"`; `None` for
                that of the saved weights.
            weights: of the models of an ensemble; as for `VaswaniEnsemble`.
            options: as for `Translator`.

        Raises:
            ValueError: if it is a folder of CTranslate2 or cannot be loaded, the base of an adapter
                is missing or does not fit it, a device cannot be used, `dtype` is another, or the
                models cannot be an ensemble.
            HubError: if it cannot be fetched from the Hub.
            ImportError: if there is an adapter, and PEFT is missing.
        """
        names = [folder] if isinstance(folder, str | PathLike) else list(folder)
        for name in names:
            if (Path(name) / CTRANSLATE2_WEIGHTS).is_file():
                raise ValueError(
                    f"{name} is a folder of CTranslate2 (it has {CTRANSLATE2_WEIGHTS}); use "
                    f"CTranslate2Translator, on the command line --engine ctranslate2."
                )
        check_dtype(dtype)
        places = list(map(usable_device, device_names(device)))
        found = [find_adapted(name, revision=revision, token=token) for name in names]
        for path in [path for one in found for path in one if path is not None]:
            read_json(path / GENERATION_CONFIG)  # the library ignores a damaged one
        tokenizers = [load_tokenizers(one.tokenizers) for one in found]
        check_tokenizers(names, tokenizers)
        models = load_models(found, **({} if dtype is None else {"dtype": dtype}))
        is_one = len(models) == 1 and weights is None
        model = models[0] if is_one else VaswaniEnsemble(models, weights)
        copies = [copy.deepcopy(model).to(place) for place in places[1:]]
        translator = cls(
            model.to(places[0]),
            tokenizers[0][0],
            target_tokenizer=tokenizers[0][1],
            **options,  # type: ignore[arg-type]
        )
        translator.folder = found[0].adapter or found[0].model
        translator.copies += [one.eval() for one in copies]
        return translator

    def with_adapter(
        self,
        folder: str | PathLike[str],
        *,
        revision: str | None = None,
        token: str | None = None,
        **options: object,
    ) -> Self:
        """A translator by this one's model with an adapter of PEFT merged into it.

        This one is not changed. Both share the matrices that the adapter leaves alone; of those
        that it adapts, each has its own.

        Args:
            folder: of the adapter, or its id on the Hub. It is merged into this model, whatever
                base it names.
            revision: branch, tag or commit of a Hub id; `main` unless given.
            token: for private repositories; the one that is logged in unless given.
            options: as for `Translator`.

        Raises:
            ValueError: if it is no adapter, or does not fit this model, or this is an ensemble.
            HubError: if it cannot be fetched from the Hub.
            ImportError: if PEFT is missing.
        """
        if isinstance(self.model, VaswaniEnsemble):
            raise ValueError(
                f"{folder} cannot be merged into an ensemble; load each model with its adapter, "
                f"such as by merge_adapter, and make the ensemble of these."
            )
        path = find_adapter(folder, revision=revision, token=token)
        read_json(path / GENERATION_CONFIG)
        first, *others = (with_adapter(one, path) for one in self.copies)
        tokenizers = self.tokenizer, self.target_tokenizer
        if has_tokenizer(path):
            tokenizers = load_tokenizers(path)
        translator = type(self)(
            first,
            tokenizers[0],
            target_tokenizer=tokenizers[1],
            **options,  # type: ignore[arg-type]
        )
        translator.folder = path
        translator.copies += [one.eval() for one in others]
        return translator

    @property
    def num_workers(self) -> int:
        """Batches that are translated at a time."""
        # Weights that are read from the disk for each use are there for one thread.
        is_on_disk = "disk" in getattr(self.model, "hf_device_map", {}).values()
        is_on_cpu = self.model.device.type == "cpu" and not is_on_disk
        if len(self.copies) == 1 and self.is_vaswani and is_on_cpu:
            return min(torch.get_num_threads(), MOST_WORKERS)
        return 1 if hasattr(self._thread, "model") else len(self.copies)

    def sharing(self) -> Callable[[int, int], None]:
        """As above; a thread has one copy of the model."""
        threads = torch.get_num_threads()

        def take(number: int, num_sharing: int) -> None:
            torch.set_num_threads(max(1, threads // num_sharing))
            self._thread.model = self.copies[number % len(self.copies)]

        return take

    def map_batches(
        self, answer: Callable[[list[int]], list[Answer]], batches: list[list[int]]
    ) -> Generator[list[Answer]]:
        """As above, by several threads.

        Each has a copy of the model, where there are several. On a CPU torch's threads have batches
        of their own: each step of a search has many small operators, which threads that share them
        wait for.
        """
        workers = min(self.num_workers, len(batches))
        draws = self.model.generation_config.do_sample  # in an order that must be the same
        if workers < 2 or draws:
            yield from super().map_batches(answer, batches)
            return
        threads, take, numbers = torch.get_num_threads(), self.sharing(), itertools.count()
        pool = ThreadPoolExecutor(workers, "batch", lambda: take(next(numbers), workers))
        try:
            yield from pool.map(answer, batches)
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)  # of threads that begin later

    @property
    def _own_model(self) -> PreTrainedModel:
        """The copy that this thread translates by."""
        return getattr(self._thread, "model", self.model)

    @torch.inference_mode()
    def hypotheses(
        self,
        sources: list[list[int]],
        *,
        prefixes: Sequence[list[int]] | None = None,
        num_return_sequences: int | None = None,
        sampling: Sampling | None = None,
    ) -> list[list[Hypothesis]]:
        """As above; without `num_return_sequences` the best one, and no log-probability."""
        prefixes = prefixes or [[]] * len(sources)
        if len(set(map(len, prefixes))) > 1:  # padding on the left is not for all models
            return self._by_prefix_length(
                sources, prefixes, num_return_sequences=num_return_sequences, sampling=sampling
            )
        count, has_scores = num_return_sequences or 1, num_return_sequences is not None
        arguments: dict[str, Any] = {"num_return_sequences": count}
        if sampling is not None:
            sources, prefixes = (
                [row for row in rows for _ in range(count)] for rows in (sources, prefixes)
            )
            noise = LogitsProcessorList([SamplingNoise(sampling, sources, count)])
            arguments = {"num_beams": 1, "do_sample": False, "logits_processor": noise}
        # Of other models the library would keep the logits of all steps.
        is_told = has_scores and sampling is None and self.is_vaswani and self.num_beams > 1
        outputs = self._generate(sources, prefixes, return_dict_in_generate=is_told, **arguments)
        rows = outputs.sequences if is_told else outputs
        found = [self._without_padding(row) for row in rows.tolist()]
        log_probs: Iterable[float | None] = itertools.repeat(None)
        if is_told:
            scores, num_forced = outputs.sequences_scores.tolist(), len(prefixes[0])
            penalty = self.length_divisor()
            log_probs = (
                score * penalty(len(ids) - num_forced)
                for score, ids in zip(scores, found, strict=True)
            )
        elif has_scores:
            repeats = len(found) // len(sources)
            log_probs = self._forced_log_probs(
                [source for source in sources for _ in range(repeats)], found, len(prefixes[0])
            )
        hypotheses = list(map(Hypothesis, found, log_probs))
        return [hypotheses[place : place + count] for place in range(0, len(found), count)]

    def _by_prefix_length(
        self, sources: list[list[int]], prefixes: Sequence[list[int]], **options: Any
    ) -> list[list[Hypothesis]]:
        """`hypotheses`, of prefixes of one length after the other."""
        found: dict[int, list[Hypothesis]] = {}
        for length in set(map(len, prefixes)):
            places = [place for place, prefix in enumerate(prefixes) if len(prefix) == length]
            alike = self.hypotheses(
                [sources[place] for place in places],
                prefixes=[prefixes[place] for place in places],
                **options,
            )
            found |= zip(places, alike, strict=True)
        return [found[place] for place in range(len(sources))]

    def _generate(
        self, sources: list[list[int]], prefixes: Sequence[list[int]], **arguments: Any
    ) -> Any:
        """What `generate()` returns; prefixes have one length."""
        model, num_forced = self._own_model, len(prefixes[0])
        limit = {"max_extra_tokens": self.max_extra_tokens}
        if not self.is_vaswani:  # one limit for the batch, at most the number of positions
            longest, most = max(map(len, sources)), self.max_positions or math.inf
            most_new = min(longest + self.max_extra_tokens, most - num_forced)
            limit = {"max_new_tokens": int(most_new)}
        device = input_device(model)
        if num_forced:
            start = start_id_of(model)
            starts = [[start, *prefix] for prefix in prefixes]
            arguments["decoder_input_ids"] = torch.tensor(starts, device=device)
        return model.generate(
            input_ids=padded(sources, self.tokenizer.pad_token_id, device),
            attention_mask=padded([[1] * len(source) for source in sources], 0, device),
            **limit | self.generation | arguments,
        )

    def _forced_log_probs(
        self, sources: list[list[int]], targets: list[list[int]], num_forced: int
    ) -> list[float]:
        """The log-probability of each target, without that of its first so many pieces."""
        found = {}
        lengths = [max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
        for batch in self.batches(lengths):
            rows = self.log_probs(
                [sources[place] for place in batch], [targets[place] for place in batch]
            )
            for place, row in zip(batch, rows, strict=True):
                found[place] = math.fsum(row[num_forced:])
        return [found[place] for place in range(len(targets))]

    def _without_padding(self, row: list[int]) -> list[int]:
        """What `generate()` has found, without the start and what stands behind the end."""
        ids, ends = row[1:], self.end_ids()
        for count, token in enumerate(ids, start=1):
            if token in ends:
                return ids[:count]
        padding = self.model.generation_config.pad_token_id
        while ids and ids[-1] == padding:  # of one that was cut off before its batch-mates
            ids.pop()
        return ids

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

        What is not named of layer, head and step is that of the head that was trained to align, if
        any was; else it is chosen by a sample of the first pairs, once for a model:
        `vaswani_hf.translation.alignment` says how.

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

    def piece_weights(
        self, sources: list[list[int]], targets: list[list[int]]
    ) -> Sequence[Sequence[Sequence[float]]]:
        """As above, by the head that `align` would choose; an ensemble has none of its own.

        Raises:
            ValueError: if the model does not tell where it looks.
        """
        if isinstance(self.model, VaswaniEnsemble):
            return super().piece_weights(sources, targets)
        pairs = [
            Pair(place, source, target, None, None)
            for place, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]
        with self._aligning:
            aligner = self._own_aligner
            # A page may have few sentences, and the first one little to choose a head by.
            self._sample = aligner.sample([*self._sample, *pairs])
            head = aligner.chosen_head(self._sample)
            return [matrix.tolist() for matrix in aligner.matrices(pairs, head)]

    @cached_property
    def _own_aligner(self) -> Aligner:
        """Aligns by modules of its own, since others may translate by the model meanwhile."""
        model = self.model
        if not hasattr(model, "hf_device_map"):  # whose modules have hooks that belong to them
            tensors = itertools.chain(model.parameters(), model.buffers())
            model = copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
        return Aligner(model, self.tokenizer, self.target_tokenizer, self.batch_tokens)

    def unknown_id(self) -> int:
        """The unknown piece, or else padding."""
        return first_given(self.tokenizer.unk_token_id, self.tokenizer.pad_token_id)

    def end_ids(self) -> list[int]:
        """The pieces that end a translation."""
        return end_ids_of(self.model)

    def num_pieces(self) -> tuple[int | None, int | None]:
        """Pieces of the source's vocabulary and of the target's; `None` if it is not known."""
        source, target = self.model.get_input_embeddings(), self.model.get_output_embeddings()
        return getattr(source, "num_embeddings", None), getattr(target, "out_features", None)

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
        return forced_log_probs(self._own_model, self.tokenizer.pad_token_id, sources, targets)
