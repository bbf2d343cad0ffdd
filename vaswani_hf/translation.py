# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Text in, translated text out, by this library's `generate()` or by CTranslate2."""

import abc
import json
import math
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import GENERATION_CONFIG_NAME, logging

from .folders import TARGET_TOKENIZER
from .generation_vaswani import (
    PAPER,
    POWER,
    WU,
    VaswaniGenerationMixin,
    check_length_penalty,
    wu_length_penalty,
)
from .hub import fetch


logger = logging.get_logger(__name__)

CTRANSLATE2_WEIGHTS = "model.bin"  # what every folder of CTranslate2 holds, and no other


class LongSourceError(ValueError):
    """A source of more tokens than a model has positions.

    `place` is that of the sentence among those that were given, the first is 0.
    """

    def __init__(self, place: int, num_tokens: int, most: int) -> None:
        super().__init__(
            f"A sentence of {num_tokens} tokens needs as many positions, but the model has {most}; "
            f"split the sentence, or take a model with a larger max_position_embeddings."
        )
        self.place = place


class TextTranslator(abc.ABC):
    """Sentences in, translations out, in the same order; `target_ids` is what engines differ in.

    Args:
        tokenizer: makes source ids, each sentence ending in `</s>`.
        target_tokenizer: makes text of target ids; `None` where `tokenizer` does.
        batch_tokens: padded source tokens in a batch, at most; a longer sentence is a batch alone.
        max_batch_sentences: sentences in a batch, at most.
    """

    max_extra_tokens: int
    max_positions: int | None  # source tokens that the model can read; `None` for no limit

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        target_tokenizer: PreTrainedTokenizerBase | None,
        batch_tokens: int,
        max_batch_sentences: int,
    ) -> None:
        _check_from(1, batch_tokens=batch_tokens, max_batch_sentences=max_batch_sentences)
        self.tokenizer = tokenizer
        self.target_tokenizer = tokenizer if target_tokenizer is None else target_tokenizer
        self.batch_tokens = batch_tokens
        self.max_batch_sentences = max_batch_sentences

    def __call__(self, sentences: str | Iterable[str], *, progress: bool = False) -> list[str]:
        """Translate sentences; a blank one stays empty.

        Args:
            sentences: one sentence, or several.
            progress: whether to draw a progress bar.

        Returns:
            One translation a sentence, in the order they came.

        Raises:
            LongSourceError: if a sentence has more tokens than the model has positions; none is
                translated then.
        """
        sentences = [sentences] if isinstance(sentences, str) else list(sentences)
        translations = [""] * len(sentences)
        places = [place for place, sentence in enumerate(sentences) if sentence.strip()]
        if not places:
            return translations
        encoded = self.tokenizer([sentences[place] for place in places])["input_ids"]
        if self.max_positions is not None:
            for place, ids in zip(places, encoded, strict=True):
                if len(ids) > self.max_positions:
                    raise LongSourceError(place, len(ids), self.max_positions)
        bar = logging.tqdm(total=len(places), disable=not progress, unit="sentence")
        with bar:
            for batch in self.batches([len(ids) for ids in encoded]):
                outputs = self.translate_ids([encoded[index] for index in batch])
                for index, translation in zip(batch, outputs, strict=True):
                    translations[places[index]] = translation
                bar.update(len(batch))
        return translations

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Group sentences by length, longest first, so that memory runs out at once or not at all.

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

    def translate_ids(self, sources: list[list[int]]) -> list[str]:
        """Translate one batch of source ids, each ending in `</s>`."""
        return self.target_tokenizer.batch_decode(
            self.target_ids(sources), skip_special_tokens=True
        )

    @abc.abstractmethod
    def target_ids(self, sources: list[list[int]]) -> list[list[int]]:
        """The target ids of one batch of source ids; special ones may stand among them."""


class Translator(TextTranslator):
    """A model of the library and its tokenizer: sentences in, translations out.

    Args:
        model: any sequence-to-sequence model of the library; put into evaluation mode.
        tokenizer: its tokenizer, fast or slow.
        target_tokenizer: the target's, where that is another.
        num_beams: beam width; `None` for the one in the model's generation config.
        length_penalty: exponent of the length penalty; `None` likewise.
        length_penalty_type: `"wu"` or `"power"`, as in `generate()` of Vaswani models, which alone
            have the first; `None` likewise.
        max_extra_tokens: a translation has at most so many tokens more than its source, or in
            models of other kinds than the longest source of its batch; `None` for the number in the
            model's generation config, or the paper's where there is none (section 6.1).
        batch_tokens: padded source tokens in a batch, at most; a longer sentence is a batch alone.
        max_batch_sentences: sentences in a batch, at most.

    Raises:
        ValueError: if an option has a value that it cannot have, or a weight of the model is not
            finite.
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
        max_batch_sentences: int = 64,
    ) -> None:
        super().__init__(tokenizer, target_tokenizer, batch_tokens, max_batch_sentences)
        _check_search(num_beams, length_penalty, length_penalty_type, max_extra_tokens)
        check_finite(model)
        self.model = model.eval()
        config = model.generation_config
        # Code from the Hub brings a class of its own, which the config tells.
        self.is_vaswani = isinstance(model, VaswaniGenerationMixin) or hasattr(
            config, "max_extra_tokens"
        )
        if not self.is_vaswani:
            if length_penalty_type == WU:
                raise ValueError(
                    f'length_penalty_type="{WU}" is known to Vaswani models only, and this is a '
                    f"{type(model).__name__}; leave it out."
                )
            length_penalty_type = None  # what such models have
        has_table = getattr(model.config, "position_encoding", "learned") == "learned"
        most = getattr(model.config, "max_position_embeddings", None)
        self.max_positions = most if has_table else None
        self.max_extra_tokens = _first(
            max_extra_tokens, getattr(config, "max_extra_tokens", None), PAPER["max_extra_tokens"]
        )
        given = {
            "num_beams": num_beams,
            "length_penalty": length_penalty,
            "length_penalty_type": length_penalty_type,
        }
        self.generation = {name: value for name, value in given.items() if value is not None}

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
        """Load a folder or a Hub id, with its tokenizer and that of the target if it has one.

        Args:
            folder: a folder, or an id on the Hub. A tokenizer in its subfolder `target_tokenizer`
                is the target's.
            revision: branch, tag or commit of a Hub id; `main` unless given.
            token: for private repositories; the one that is logged in unless given.
            device: such as `"cuda"`; `None` for a GPU where there is one.
            options: as for `Translator`.

        Raises:
            ValueError: if the folder is CTranslate2's, or cannot be loaded as it is, or the device
                cannot be used.
            HubError: if it cannot be fetched from the Hub.
        """
        if (Path(folder) / CTRANSLATE2_WEIGHTS).is_file():
            raise ValueError(
                f"{folder} is a folder of CTranslate2, as its {CTRANSLATE2_WEIGHTS} shows: use "
                f"CTranslate2Translator, on the command line --engine ctranslate2."
            )
        place = _usable_device(device)
        folder = fetch(folder, revision=revision, token=token)
        _read_json(folder / GENERATION_CONFIG_NAME)  # the library passes over one that is torn
        tokenizer, target_tokenizer = load_tokenizers(folder)
        model = AutoModelForSeq2SeqLM.from_pretrained(folder)
        return cls(
            model.to(place),
            tokenizer,
            target_tokenizer=target_tokenizer,
            **options,  # type: ignore[arg-type]
        )

    @torch.inference_mode()
    def target_ids(self, sources: list[list[int]]) -> list[list[int]]:
        """The target ids of one batch of source ids; special ones stand among them."""
        longest = max(map(len, sources))
        input_ids = torch.full((len(sources), longest), self.tokenizer.pad_token_id)
        attention_mask = torch.zeros_like(input_ids)
        for row, source in enumerate(sources):
            input_ids[row, : len(source)] = torch.tensor(source)
            attention_mask[row, : len(source)] = 1
        if self.is_vaswani:
            limit = {"max_extra_tokens": self.max_extra_tokens}
        else:  # one limit for the batch, and no further than a table of positions
            most = self.max_positions or math.inf
            limit = {"max_new_tokens": int(min(longest + self.max_extra_tokens, most))}
        outputs = self.model.generate(
            input_ids=input_ids.to(self.model.device),
            attention_mask=attention_mask.to(self.model.device),
            **limit,
            **self.generation,
        )
        return outputs.tolist()


class Hypothesis(NamedTuple):
    """A translation that CTranslate2 has found.

    `ids` are the target's, `</s>` included where it has ended; `log_prob` is the sum over them.
    """

    ids: list[int]
    log_prob: float


class CTranslate2Translator(TextTranslator):
    """A folder of CTranslate2 with its tokenizer, such as `to_ctranslate2` writes.

    What `None` leaves open comes from `generation_config.json` of the folder.

    CTranslate2 knows one length penalty, the length to the power of alpha, and its search ends when
    a number of hypotheses have ended, whatever the others could still become. A penalty never
    changes which hypotheses of one length go on, so that CTranslate2 is asked for twice as many as
    there are beams, and these are ranked here by either formula. With `early_stopping=True` in the
    config it is asked for as many as beams, which is the library's own search.

    What comes out, in float32, is what `generate()` says for one beam and for `"power"`, but for a
    sentence in which the model finds no end. By `"wu"` about one translation in a hundred differs:
    the search of the paper also counts what ends among the second K of the 2K best continuations,
    which CTranslate2 passes over. Where the config's `early_stopping` is not the paper's `"never"`,
    about four in a hundred do.

    Args:
        folder: the folder, on this machine.
        device: `"cpu"`, `"cuda"` or `"cuda:1"`; `None` for a GPU where there is one.
        compute_type: what CTranslate2 computes in, such as `"int8"`; `"default"` for the
            quantization of the folder.
        threads: CPU threads, each of which translates batches of its own; `None` for PyTorch's
            number.
        num_beams: beam width.
        length_penalty: exponent of the length penalty, alpha.
        length_penalty_type: `"wu"` or `"power"`, as in `generate()` of Vaswani models.
        max_extra_tokens: a translation has at most so many tokens more than its source.
        batch_tokens: padded source tokens in a thread's batch, at most; a longer sentence is one
            alone.
        max_batch_sentences: sentences in a thread's batch, at most.

    Raises:
        ValueError: if this is no folder of CTranslate2 or a damaged one, if the device cannot be
            used, or an option has a value that it cannot have.
        ImportError: if ctranslate2 is missing.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        device: str | None = None,
        compute_type: str = "default",
        threads: int | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        length_penalty_type: str | None = None,
        max_extra_tokens: int | None = None,
        batch_tokens: int = 4096,
        max_batch_sentences: int = 64,
    ) -> None:
        folder = Path(folder)
        if not (folder / CTRANSLATE2_WEIGHTS).is_file():
            raise ValueError(
                f"{folder} is no folder of CTranslate2, which would hold {CTRANSLATE2_WEIGHTS}: "
                f"make one with `vaswani-hf convert --to ctranslate2`, or use Translator, on the "
                f"command line --engine transformers."
            )
        from .conversion.common import require

        ctranslate2 = require("ctranslate2")
        _check_from(
            1, threads=threads, batch_tokens=batch_tokens, max_batch_sentences=max_batch_sentences
        )
        _check_search(num_beams, length_penalty, length_penalty_type, max_extra_tokens)
        if device in (None, "auto"):
            device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
        kind, _, index = device.partition(":")
        if kind not in ("cpu", "cuda") or not (index or "0").isdecimal():
            raise ValueError(f"device must be cpu, cuda or such as cuda:1, got {device=}.")
        settings = _read_json(folder / "config.json")
        if settings is None or "eos_token" not in settings:
            raise ValueError(
                f"{folder} has no config.json of `vaswani-hf convert --to ctranslate2`."
            )
        # Each thread translates batches of its own: two at one batch are slower than one.
        self.workers = _first(threads, torch.get_num_threads()) if kind == "cpu" else 1
        super().__init__(
            *load_tokenizers(folder),
            self.workers * batch_tokens,
            self.workers * max_batch_sentences,
        )
        config = _load_generation_config(folder)
        self.num_beams: int = _first(num_beams, config.num_beams, 1)
        self.length_penalty: float = _first(length_penalty, config.length_penalty, 1.0)
        self.length_penalty_type: str = _first(
            length_penalty_type, getattr(config, "length_penalty_type", None), POWER
        )
        self.max_extra_tokens = _first(
            max_extra_tokens, getattr(config, "max_extra_tokens", None), PAPER["max_extra_tokens"]
        )
        # With patience 1 the search ends at as many ended hypotheses as beams.
        self.patience = 1 if config.early_stopping is True else 2

        self.max_positions = settings.get("max_position_embeddings")
        self.source_pieces = _load_pieces(folder, "source")
        self.target_pieces = _load_pieces(folder, "target")
        self.id_of_piece = {piece: token for token, piece in enumerate(self.target_pieces)}
        self.end = self.id_of_piece[settings["eos_token"]]
        self.suppressed = [
            [self.target_pieces[token] for token in tokens] for tokens in forbidden_pieces(config)
        ]
        try:
            self.model = ctranslate2.Translator(
                str(folder),
                device=kind,
                device_index=int(index or 0),
                compute_type=compute_type,
                inter_threads=self.workers,
                intra_threads=1,
            )
        except (RuntimeError, ValueError) as error:
            raise ValueError(
                f"CTranslate2 cannot load {folder} ({device=}, {compute_type=}): {error}"
            ) from error
        if self.num_beams > 1 and self.length_penalty_type == WU:
            logger.warning_once(
                "CTranslate2 knows no length penalty of Wu et al.: what it finds is ranked again "
                "by their formula, and a few translations in a hundred differ from those of "
                f'generate(). length_penalty_type="{POWER}" gives the same in both.'
            )

    @classmethod
    def from_pretrained(cls, folder: str | PathLike[str], **options: Any) -> Self:
        """The same as `CTranslate2Translator(folder, **options)`, as `Translator` has it."""
        return cls(folder, **options)

    def target_ids(self, sources: list[list[int]]) -> list[list[int]]:
        """The target ids of one batch of source ids.

        CTranslate2 has one length limit a batch. A sentence for which the search has gone on to the
        sentence's own limit or beyond is translated again alone, which is seldom.

        Raises:
            LongSourceError: if a source has more tokens than the model has positions.
            ValueError: if what the model computes are no numbers.
        """
        most = self.max_positions
        for place, source in enumerate(sources):
            if most is not None and len(source) > most:
                raise LongSourceError(place, len(source), most)
        limits = [max(1, len(source) + self.max_extra_tokens) for source in sources]
        if most is not None:
            limits = [min(limit, most) for limit in limits]
        targets = []
        most_tokens = max(limits)
        found = self.search(sources, most_tokens)
        for source, limit, hypotheses in zip(sources, limits, found, strict=True):
            reach = max(len(hypothesis.ids) for hypothesis in hypotheses)
            if limit <= reach and limit < most_tokens:
                (hypotheses,) = self.search([source], limit)
            targets.append(self.best(hypotheses).ids)
        return targets

    def search(self, sources: list[list[int]], max_tokens: int) -> list[list[Hypothesis]]:
        """What CTranslate2 finds for each source, with at most so many tokens, `</s>` included."""
        patience = self.patience if self.num_beams > 1 else 1
        alpha = self.length_penalty
        # As many for each thread, but no more than a thread may have.
        share = math.ceil(len(sources) / self.workers)
        if self.workers * share * max(map(len, sources)) > self.batch_tokens:
            share = max(len(sources) // self.workers, 1)
        results = self.model.translate_batch(
            [[self.source_pieces[token] for token in source] for source in sources],
            max_batch_size=share,
            beam_size=self.num_beams,
            patience=patience,
            num_hypotheses=patience * self.num_beams,
            length_penalty=alpha,
            return_scores=True,
            return_end_token=True,
            suppress_sequences=self.suppressed or None,
            max_input_length=0,  # else it cuts long sources in silence
            max_decoding_length=max_tokens,
            min_decoding_length=0,
        )
        if any(math.isnan(score) for result in results for score in result.scores):
            raise ValueError(
                "The model computes NaN: its weights are no numbers, or too large for its "
                "compute_type."
            )
        return [
            [
                Hypothesis(
                    [self.id_of_piece[piece] for piece in pieces], score * len(pieces) ** alpha
                )
                for pieces, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]

    def best(self, hypotheses: Sequence[Hypothesis]) -> Hypothesis:
        """The best by the length penalty.

        One that a limit has cut off wins by `"wu"` only where none has ended; by `"power"` it
        competes, as in the library's search.
        """

        def rank(hypothesis: Hypothesis) -> tuple[bool, float]:
            num_tokens, alpha = len(hypothesis.ids), self.length_penalty
            if self.length_penalty_type == POWER:
                return True, hypothesis.log_prob / num_tokens**alpha
            has_ended = hypothesis.ids[-1] == self.end
            return has_ended, hypothesis.log_prob / wu_length_penalty(num_tokens, alpha)

        return max(hypotheses, key=rank)


def load_tokenizers(
    folder: str | PathLike[str],
) -> tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase | None]:
    """The tokenizer of a folder, and the target's where `target_tokenizer/` holds one.

    Raises:
        ValueError: if there is none that loads; what is damaged is named.
        ImportError: if it needs a library that is not installed.
    """
    tokenizer = _load_tokenizer(Path(folder))
    if not (Path(folder) / TARGET_TOKENIZER / "tokenizer_config.json").is_file():
        return tokenizer, None
    # An empty config keeps the library from looking for one in the subfolder.
    return tokenizer, _load_tokenizer(Path(folder) / TARGET_TOKENIZER, config=PreTrainedConfig())


def _load_tokenizer(folder: Path, **options: Any) -> PreTrainedTokenizerBase:
    for name in ("tokenizer_config.json", "tokenizer.json", "vocab.json"):
        _read_json(folder / name)
    try:
        return AutoTokenizer.from_pretrained(folder, **options)
    except ImportError:
        raise
    # The library lets through whatever the first tokenizer class fails with for want of files.
    except Exception as error:
        raise ValueError(
            f"{folder} holds no tokenizer that AutoTokenizer can load; put one there with "
            f"tokenizer.save_pretrained({str(folder)!r})."
        ) from error


def check_finite(model: PreTrainedModel) -> None:
    """Refuse with a `ValueError` a model with weights that are no numbers: it would say nothing."""
    for name, parameter in model.named_parameters():
        is_readable = parameter.dtype in (
            *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        )
        if not is_readable or parameter.is_meta:  # quantized, or left on the disk
            continue
        num_wrong = int((~parameter.isfinite()).sum())
        if num_wrong:
            raise ValueError(
                f"{num_wrong} of the {parameter.numel()} values of {name} of "
                f"{model.name_or_path or 'this model'} are NaN or infinite: its training has "
                f"diverged, or the file is damaged; take an earlier checkpoint."
            )


def forbidden_pieces(config: GenerationConfig) -> list[list[int]]:
    """The sequences of target ids that a generation config says must not come out."""
    return [*(config.bad_words_ids or []), *([token] for token in config.suppress_tokens or [])]


def _load_generation_config(folder: Path) -> GenerationConfig:
    is_there = (folder / GENERATION_CONFIG_NAME).is_file()
    _read_json(folder / GENERATION_CONFIG_NAME)
    return GenerationConfig.from_pretrained(folder) if is_there else GenerationConfig()


def _read_json(path: Path) -> Any:
    """What a file of JSON holds; `None` where there is no such file."""
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON ({error}); fetch or save it again.") from None


def _usable_device(name: str | None) -> torch.device:
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.empty(0, device=name).device
    # Of a build without a kind of device, torch says so by an assertion.
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = (str(error).splitlines() or ["no reason is given"])[0]
        raise ValueError(f"device={name!r} cannot be used here ({reason}).") from None
    if device.type == "meta":
        raise ValueError("device='meta' holds no numbers; give one that does, such as cpu.")
    return device


def _load_pieces(folder: Path, side: str) -> list[str]:
    """The pieces of one side of a folder of CTranslate2, in the order of their ids."""
    names = [f"{name}_vocabulary.json" for name in ("shared", side)]
    for name in names:
        if (folder / name).is_file():
            return _read_json(folder / name)
    raise ValueError(f"{folder} has no vocabulary: neither {' nor '.join(names)} is there.")


def _check_from(least: int, **options: int | None) -> None:
    for name, value in options.items():
        if value is not None and value < least:
            raise ValueError(f"{name} must be at least {least}, got {name}={value}.")


def _check_search(
    num_beams: int | None,
    length_penalty: float | None,
    length_penalty_type: str | None,
    max_extra_tokens: int | None,
) -> None:
    _check_from(1, num_beams=num_beams)
    _check_from(0, max_extra_tokens=max_extra_tokens)
    if length_penalty is not None:
        check_length_penalty(length_penalty)
    if length_penalty_type not in (None, WU, POWER):
        raise ValueError(
            f'length_penalty_type must be "{WU}" or "{POWER}", got {length_penalty_type=}.'
        )


def _first(*values: Any) -> Any:
    """The first that is not `None`."""
    return next(value for value in values if value is not None)


__all__ = ["CTranslate2Translator", "TextTranslator", "Translator"]
