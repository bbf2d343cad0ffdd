# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Translation by CTranslate2, from a folder in its own format."""

import functools
import logging
import math
import sys
from collections.abc import Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Self

from ..extras import require
from ..hub.names import TARGET_TOKENIZER
from ..processor import available_cores, threads_of_environment
from ..search_settings_vaswani import PAPER, POWER, WU, power_length_penalty, wu_length_penalty
from .engine import TextTranslator
from .found import Hypothesis, LongSourceError
from .loading import (
    CTRANSLATE2_WEIGHTS,
    GENERATION_CONFIG,
    forbidden_pieces,
    load_tokenizers,
    read_json,
)
from .options import (
    Sampling,
    check_at_least,
    check_search_options,
    device_names,
    first_given,
)
from .scoring import ctranslate2_log_probs
from .tokenizer_file import TokenizerFile


logger = logging.getLogger(__name__)


class CTranslate2Translator(TextTranslator):
    """Translates by CTranslate2, from a folder such as `to_ctranslate2` writes.

    An option that is `None` is taken from the folder's `generation_config.json`.

    CTranslate2 has one length penalty, the length to the power of alpha, and stops when a number of
    hypotheses have ended, however well the others could still score. The penalty does not change
    which hypotheses of one length survive. So this class asks CTranslate2 for twice as many
    hypotheses as beams and ranks them by either formula. With `early_stopping=True` in the config
    it asks for as many as beams, which is the search of transformers.

    In float32, translations equal those of `generate()` for one beam and for `"power"`, except
    where the model finds no end. By `"wu"` about one translation in a hundred differs: the paper's
    search also counts hypotheses that end among the second K of the 2K best continuations, which
    CTranslate2 ignores. Where the config's `early_stopping` is not the paper's `"never"`, about
    four in a hundred differ.

    Args:
        folder: the folder, on this machine.
        device: `"cpu"`, `"cuda"` or `"cuda:1"`; `None` for a GPU where there is one. Several GPUs,
            as a list or as `"cuda:0,cuda:1"`, each have a copy of the model and batches of their
            own.
        compute_type: what CTranslate2 computes in, such as `"int8"`; `"default"` for the
            quantization of the folder.
        threads: CPU threads, each of which translates batches of its own; `None` for
            `OMP_NUM_THREADS`, or else for as many as there are cores.
        num_beams: beam width.
        length_penalty: exponent of the length penalty, alpha.
        length_penalty_type: `"wu"` or `"power"`, as in `generate()` of Vaswani models.
        max_extra_tokens: how many tokens a translation may have beyond its source.
        batch_tokens: most padded source tokens of a thread's batch; a longer sentence is a batch of
            its own.
        max_batch_sentences: most sentences of a thread's batch.
        max_source_tokens: as for `Translator`.

    Raises:
        ValueError: if the folder is not one of CTranslate2 or is damaged, the device cannot be
            used, or an option is out of range.
        ImportError: if ctranslate2 is missing.
    """

    num_beams: int = 1

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        device: str | Sequence[str] | None = None,
        compute_type: str = "default",
        threads: int | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        length_penalty_type: str | None = None,
        max_extra_tokens: int | None = None,
        batch_tokens: int = 4096,
        max_batch_sentences: int = 64,
        max_source_tokens: int | None = None,
    ) -> None:
        folder = Path(folder)
        if not (folder / CTRANSLATE2_WEIGHTS).is_file():
            raise ValueError(
                f"{folder} is not a folder of CTranslate2: it has no {CTRANSLATE2_WEIGHTS}. Make "
                f"one with `vaswani-hf convert --to ctranslate2`, or use Translator, on the "
                f"command line --engine transformers."
            )
        ctranslate2 = require("ctranslate2")
        check_at_least(
            1, threads=threads, batch_tokens=batch_tokens, max_batch_sentences=max_batch_sentences
        )
        kind, indices = _parse_devices(device, ctranslate2.get_cuda_device_count())
        settings = read_json(folder / "config.json")
        if settings is None or "eos_token" not in settings:
            raise ValueError(
                f"{folder} has no config.json with an eos_token; convert it again with "
                f"`vaswani-hf convert --to ctranslate2`."
            )
        # A thread for each batch: two threads at one batch are slower than one.
        chosen = first_given(threads, threads_of_environment(), available_cores())
        self.workers = chosen if kind == "cpu" else len(indices)
        super().__init__(
            *_load_tokenizers(folder),
            self.workers * batch_tokens,
            self.workers * max_batch_sentences,
            settings.get("max_position_embeddings"),
            max_source_tokens,
        )
        check_search_options(
            *(num_beams, length_penalty, length_penalty_type, max_extra_tokens),
            len(self.target_tokenizer),
        )
        self.folder = folder
        config = read_json(folder / GENERATION_CONFIG) or {}
        self.num_beams = first_given(num_beams, config.get("num_beams"), 1)
        self.length_penalty: float = first_given(length_penalty, config.get("length_penalty"), 1.0)
        self.length_penalty_type: str = first_given(
            length_penalty_type, config.get("length_penalty_type"), POWER
        )
        self.max_extra_tokens = first_given(
            max_extra_tokens, config.get("max_extra_tokens"), PAPER["max_extra_tokens"]
        )
        # With patience 1 the search ends at as many ended hypotheses as beams.
        self.patience = 1 if config.get("early_stopping") is True else 2
        self.source_pieces = _load_pieces(folder, "source")
        self.target_pieces = _load_pieces(folder, "target")
        self.id_of_piece = {piece: token for token, piece in enumerate(self.target_pieces)}
        self.unknown_piece = settings.get("unk_token", "<unk>")
        self.end_id = self.id_of_piece[settings["eos_token"]]
        self.suppressed = [
            [self.target_pieces[token] for token in tokens] for tokens in forbidden_pieces(config)
        ]
        torch = sys.modules.get("torch")  # which this class does without
        torchs_threads = None if torch is None else torch.get_num_threads()
        try:
            self.model = ctranslate2.Translator(
                str(folder),
                device=kind,
                device_index=indices,
                compute_type=compute_type,
                inter_threads=self.workers // len(indices),
                intra_threads=1,
            )
        except (RuntimeError, ValueError) as error:
            raise ValueError(
                f"CTranslate2 cannot load {folder} (device={device or kind!r}, {compute_type=}): "
                f"{error}"
            ) from error
        finally:
            if torch is not None:  # CTranslate2 sets the number that both have from OpenMP
                torch.set_num_threads(torchs_threads)
        if self.num_beams > 1 and self.length_penalty_type == WU:
            warn_of_ranking_again()

    @classmethod
    def from_pretrained(cls, folder: str | PathLike[str], **options: Any) -> Self:
        """The same as `CTranslate2Translator(folder, **options)`, as `Translator` has it.

        Raises:
            ValueError: if several folders are named, which would be an ensemble.
        """
        if not isinstance(folder, str | PathLike):
            raise ValueError(
                "CTranslate2 translates by one model; an ensemble needs Translator and the folders "
                "that were converted."
            )
        return cls(folder, **options)

    def make_sampling(
        self, topk: int | None, temperature: float | None, seed: int | None
    ) -> Sampling | None:
        """As above, without a seed: CTranslate2 has one for each thread, not for each sentence."""
        sampling = super().make_sampling(topk, temperature, seed)
        if seed is not None:
            raise ValueError(
                "CTranslate2 cannot draw the same samples again, for they depend on its threads "
                "and batches; leave out seed, or sample with Translator, on the command line "
                "--engine transformers."
            )
        return sampling

    def hypotheses(
        self,
        sources: list[list[int]],
        *,
        prefixes: Sequence[list[int]] | None = None,
        num_return_sequences: int | None = None,
        sampling: Sampling | None = None,
    ) -> list[list[Hypothesis]]:
        """As above, ranked by the length penalty; of a search all, where no number is asked for.

        CTranslate2 has one length limit for a batch. A sentence whose search has reached its own
        limit is translated again alone, which is rare.

        Raises:
            LongSourceError: if a source has more tokens than the model has positions.
            ValueError: if the model computes NaN.
        """
        most = self.max_positions
        for place, source in enumerate(sources):
            if most is not None and len(source) > most:
                raise LongSourceError(place, len(source), most)
        prefixes = prefixes or [[]] * len(sources)
        limits = [  # of the prefix and what follows
            max(1, len(source) + self.max_extra_tokens) + len(prefix)
            for source, prefix in zip(sources, prefixes, strict=True)
        ]
        if most is not None:
            limits = [min(limit, most) for limit in limits]
        most_tokens = max(limits)
        search = partial(self.search, num_samples=num_return_sequences, sampling=sampling)
        found = search(sources, most_tokens, prefixes)
        ranked = []
        for source, prefix, limit, hypotheses in zip(sources, prefixes, limits, found, strict=True):
            reach = max(len(hypothesis.ids) for hypothesis in hypotheses)
            if limit <= reach and limit < most_tokens:
                (hypotheses,) = search([source], limit, [prefix])
            if sampling is None:
                rank = partial(self.rank, num_forced=len(prefix))
                hypotheses = sorted(hypotheses, key=rank, reverse=True)
            ranked.append(hypotheses[:num_return_sequences])
        if sampling is not None and num_return_sequences is not None:
            return self._scored(sources, prefixes, ranked)
        return ranked

    def _scored(
        self,
        sources: list[list[int]],
        prefixes: Sequence[list[int]],
        samples: list[list[Hypothesis]],
    ) -> list[list[Hypothesis]]:
        """Samples with the model's log-probabilities, whose scores know of temperature and k."""
        rows = [
            (source, one.ids, len(prefix))
            for source, prefix, several in zip(sources, prefixes, samples, strict=True)
            for one in several
        ]
        repeated, targets, lengths = map(list, zip(*rows, strict=True))
        log_probs = self.log_probs(repeated, targets)
        scored = [
            Hypothesis(ids, math.fsum(row[length:]))
            for ids, length, row in zip(targets, lengths, log_probs, strict=True)
        ]
        count = len(samples[0])
        return [scored[place : place + count] for place in range(0, len(scored), count)]

    def end_ids(self) -> list[int]:
        """The piece that ends a translation."""
        return [self.end_id]

    def unknown_id(self) -> int:
        """The unknown piece."""
        return self.source_pieces.index(self.unknown_piece)

    def num_pieces(self) -> tuple[int | None, int | None]:
        """Pieces of the source's vocabulary and of the target's."""
        return len(self.source_pieces), len(self.target_pieces)

    def length_penalty_of_search(self) -> tuple[float, str]:
        """Exponent and type of the length penalty that hypotheses are ranked by."""
        return self.length_penalty, self.length_penalty_type

    def num_target_positions(self, ids: list[int]) -> int:
        """One more where the target does not end: CTranslate2 ends each."""
        return len(ids) if ids[-1:] == [self.end_id] else len(ids) + 1

    def log_probs(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """The log-probability of each piece of each target of a batch."""
        return ctranslate2_log_probs(
            self.model,
            self.target_pieces[self.end_id],
            [[self.source_pieces[token] for token in source] for source in sources],
            [[self.target_pieces[token] for token in target] for target in targets],
            max_batch_size=max(len(sources) // self.workers, 1),
        )

    def align(self, *arguments: Any, **options: Any) -> Any:
        """CTranslate2 does not say where each head looks.

        Raises:
            ValueError: always; it names the engine that can.
        """
        raise ValueError(
            "CTranslate2 does not tell where the heads of a model look; align with Translator, on "
            "the command line --engine transformers, and the folder that was converted."
        )

    def search(
        self,
        sources: list[list[int]],
        max_tokens: int,
        prefixes: Sequence[list[int]] | None = None,
        *,
        num_samples: int | None = None,
        sampling: Sampling | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each source, of at most `max_tokens` tokens, `</s>` included.

        Args:
            sources: ids.
            max_tokens: those of the prefix count.
            prefixes: of each source, as ids; `None` for none.
            num_samples: of each source, where they are drawn; their log-probabilities are `None`.
            sampling: what is drawn; `None` for a search.
        """
        alpha = self.length_penalty
        if sampling is None:
            patience = self.patience if self.num_beams > 1 else 1
            options: dict[str, Any] = {
                "beam_size": self.num_beams,
                "patience": patience,
                "num_hypotheses": patience * self.num_beams,
                "length_penalty": alpha,
            }
        else:
            options = {
                "beam_size": 1,
                "num_hypotheses": num_samples or 1,
                "sampling_topk": sampling.topk,
                "sampling_temperature": sampling.temperature,
            }
        if prefixes is not None and any(prefixes):
            options["target_prefix"] = [
                [self.target_pieces[token] for token in prefix] for prefix in prefixes
            ]
        # The same share for each thread, within its token budget.
        share = math.ceil(len(sources) / self.workers)
        if self.workers * share * max(map(len, sources)) > self.batch_tokens:
            share = max(len(sources) // self.workers, 1)
        results = self.model.translate_batch(
            [[self.source_pieces[token] for token in source] for source in sources],
            max_batch_size=share,
            return_scores=True,
            return_end_token=True,
            suppress_sequences=self.suppressed or None,
            max_input_length=0,  # otherwise it cuts long sources silently
            max_decoding_length=max_tokens,
            min_decoding_length=0,
            **options,
        )
        if any(math.isnan(score) for result in results for score in result.scores):
            raise ValueError(
                "The model computes NaN: its weights are NaN, or too large for its compute_type; "
                "try compute_type float32."
            )

        def log_prob(pieces: list[str], score: float) -> float | None:
            # Scores leave the prefix out, the lengths that they are divided by do not.
            return score * len(pieces) ** alpha if sampling is None else None

        return [
            [
                Hypothesis([self.id_of_piece[piece] for piece in pieces], log_prob(pieces, score))
                for pieces, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]

    def rank(self, hypothesis: Hypothesis, num_forced: int = 0) -> tuple[bool, float]:
        """By what hypotheses are compared: the larger, the better.

        By `"wu"`, one that the limit cut off wins only if none has ended; by `"power"` it competes,
        as in the search of transformers.

        Args:
            hypothesis: of a search.
            num_forced: tokens of its prefix, which do not count.
        """
        num_tokens, alpha = len(hypothesis.ids) - num_forced, self.length_penalty
        if self.length_penalty_type == POWER:
            return True, hypothesis.log_prob / power_length_penalty(num_tokens, alpha)
        has_ended = hypothesis.ids[-1] == self.end_id
        return has_ended, hypothesis.log_prob / wu_length_penalty(num_tokens, alpha)


@functools.cache  # once a process
def warn_of_ranking_again() -> None:
    logger.warning(
        "CTranslate2 lacks the length penalty of Wu et al.: its hypotheses are ranked again by "
        "that formula, and a few translations in a hundred differ from those of generate(). With "
        'length_penalty_type="%s" both give the same.',
        POWER,
    )


def _load_tokenizers(folder: Path) -> tuple[Any, Any]:
    """As `load_tokenizers`, without the library where a file is enough."""
    has_own = (folder / TARGET_TOKENIZER / "tokenizer_config.json").is_file()
    tokenizer = TokenizerFile.load(folder)
    target_tokenizer = TokenizerFile.load(folder / TARGET_TOKENIZER) if has_own else None
    if tokenizer is None or (has_own and target_tokenizer is None):
        return load_tokenizers(folder)
    return tokenizer, target_tokenizer


def _parse_devices(device: str | Sequence[str] | None, num_gpus: int) -> tuple[str, list[int]]:
    """The kind and the indices of devices such as `"cuda:1"`."""
    found = []
    for name in device_names(device):
        if name in (None, "auto"):
            name = "cuda" if num_gpus else "cpu"
        kind, _, index = str(name).partition(":")
        if kind not in ("cpu", "cuda") or not (index or "0").isdecimal():
            raise ValueError(f"device must be cpu, cuda or such as cuda:1, got device={name!r}.")
        found.append((kind, int(index or 0)))
    if len(found) > 1 and any(kind == "cpu" for kind, _ in found):
        raise ValueError(f"CTranslate2 has several GPUs at most, or one CPU, got {device=}.")
    return found[0][0], [index for _, index in found]


def _load_pieces(folder: Path, side: str) -> list[str]:
    """The pieces of one side of a folder of CTranslate2, in the order of their ids."""
    names = [f"{name}_vocabulary.json" for name in ("shared", side)]
    for name in names:
        if (folder / name).is_file():
            return read_json(folder / name)
    raise ValueError(f"{folder} has no vocabulary: neither {' nor '.join(names)} is there.")
