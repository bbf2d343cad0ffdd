# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""BLEU, chrF++ and TER by sacrebleu, with their signatures and their confidence."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..extras import require
from .resampling import bootstrap_seed, resamples
from .tokenizers import preparation


if TYPE_CHECKING:
    import numpy as np

METRICS = ("bleu", "chrf++", "ter")
_CHUNK_SENTENCES = 1000  # whose n-grams are held at a time
_BLEU_DETAILS = ("precisions", "bp", "sys_len", "ref_len", "counts", "totals")


@dataclass(frozen=True)
class Score:
    """A score of a text, as sacrebleu computes it.

    Attributes:
        name: sacrebleu's, such as `chrF2++`.
        score: 0 to 100, for TER sometimes more; of TER alone less is better.
        signature: sacrebleu's, which says how the score was computed.
        mean: of the scores of bootstrap resamples; `None` where there were none.
        ci: half the width of the interval that holds 95 % of those scores; likewise.
        details: of BLEU: `precisions`, `bp` (brevity penalty), `sys_len` and `ref_len` (tokens),
            `counts` and `totals` (matching and all n-grams).
    """

    name: str
    score: float
    signature: str
    mean: float | None = None
    ci: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class Metric:
    """One of sacrebleu's metrics (Post 2018), with its defaults.

    Args:
        name: one of `METRICS`.
        tokenize: for BLEU: sacrebleu's tokenizer; `"none"` for text that is tokenised already;
            `"moses-de"` for the Moses tokenizer of a language, which needs sacremoses.
        lowercase: whether case counts for nothing. To TER it never counts.
        split_compounds: for BLEU: whether tokens are cut at hyphens; nothing is smoothed then.

    Raises:
        ValueError: for an unknown metric or tokenizer, and for a tokenizer that would come after
            the cutting.
        ImportError: if sacrebleu or the package of a tokenizer is missing.
    """

    def __init__(
        self,
        name: str,
        *,
        tokenize: str = "13a",
        lowercase: bool = False,
        split_compounds: bool = False,
    ) -> None:
        if name not in METRICS:
            raise ValueError(f"A metric is one of {', '.join(METRICS)}; got '{name}'.")
        sacrebleu = require("sacrebleu")
        self.name = name
        self._tokenize = self._used = tokenize
        self._split_compounds = split_compounds
        self._prepare: Callable[[str], str] = str
        options: dict[str, Any] = {}
        if name == "bleu":
            self._prepare, self._used = preparation(tokenize, split_compounds)
            options = {
                "tokenize": self._used,
                "lowercase": lowercase,
                "smooth_method": "none" if split_compounds else "exp",
                # Text that is tokenised already is what tokenize="none" is for.
                "force": True,
            }
        elif name == "chrf++":
            options = {"word_order": 2, "lowercase": lowercase}
        kind = {"bleu": sacrebleu.BLEU, "chrf++": sacrebleu.CHRF, "ter": sacrebleu.TER}[name]
        self._make = functools.partial(kind, **options)
        self._metric = self.of_sacrebleu()

    def prepare(self, texts: Sequence[str]) -> list[str]:
        """What sacrebleu's metric is given in place of the texts."""
        return [self._prepare(text) for text in texts]

    def of_sacrebleu(self, references: Sequence[Sequence[str]] | None = None) -> Any:
        """The metric of sacrebleu, with the n-grams of references where they are given.

        Args:
            references: as for `statistics`; prepared.
        """
        try:
            return self._make(references=references)
        except (ImportError, RuntimeError) as error:  # a tokenizer's own package is missing
            raise ImportError(" ".join(str(error).split())) from error

    def statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """The counts of each sentence, from which the score of any set of sentences follows.

        Args:
            hypotheses: detokenised, a sentence each.
            references: one or several for each sentence: a list of all first ones, and so on.

        Raises:
            ValueError: if there are no sentences or no references, or not as many of each.
        """
        lengths = [len(hypotheses), *map(len, references)]
        if not references or set(lengths) != {lengths[0] or None}:
            raise ValueError(
                f"Each hypothesis needs its references: got {lengths[0]} hypotheses and "
                f"{' and '.join(map(str, lengths[1:])) or 'no'} references."
            )
        hypotheses = self.prepare(hypotheses)
        references = [self.prepare(stream) for stream in references]
        rows: list[list[float]] = []
        for start in range(0, len(hypotheses), _CHUNK_SENTENCES):
            chunk = slice(start, start + _CHUNK_SENTENCES)
            streams = [stream[chunk] for stream in references]
            rows += self._metric._extract_corpus_statistics(hypotheses[chunk], streams)
        return rows

    def score(self, statistics: Sequence[Sequence[float]], num_resamples: int = 0) -> Score:
        """The score of sentences.

        Args:
            statistics: rows that `statistics` of this object has returned.
            num_resamples: bootstrap resamples from which the confidence is taken, if any.
        """
        found = self._metric._aggregate_and_compute(statistics)
        signature, mean, ci = self._metric.get_signature(), None, None
        if num_resamples:
            signature.update("bs", num_resamples)
            signature.update("seed", bootstrap_seed())
            samples = resamples(len(statistics), num_resamples)
            found.estimate_ci(self._rescore(statistics, samples))
            mean, ci = float(found._mean), float(found._ci)
        return Score(
            found.name,
            float(found.score),
            self.signature(signature),
            mean,
            ci,
            {name: getattr(found, name) for name in _BLEU_DETAILS if self.name == "bleu"},
        )

    def signature(self, signature: Any) -> str:
        """The text of a signature of sacrebleu, with what was done before."""
        text = str(signature)
        if self._tokenize != self._used:
            from importlib.metadata import version

            named = f"|tok:{self._tokenize}-sacremoses-{version('sacremoses')}|"
            text = text.replace(f"|tok:{self._used}|", named)
        return f"{text}|compounds:split" if self._split_compounds else text

    def rescore(
        self, statistics: Sequence[Sequence[float]], samples: "Iterable[np.ndarray]"
    ) -> list[float]:
        """The score of each sample of the sentences.

        Args:
            statistics: rows that `statistics` of this object has returned.
            samples: the places of the sentences of each, such as `resamples` draws.
        """
        return [float(one.score) for one in self._rescore(statistics, samples)]

    def _rescore(
        self, statistics: Sequence[Sequence[float]], samples: "Iterable[np.ndarray]"
    ) -> list[Any]:
        """Scores as objects of sacrebleu's.

        sacrebleu holds the rows of all resamples at once, which for chrF++ are 96 kB a sentence;
        here it is one resample.
        """
        import numpy as np

        rows = np.array(statistics, dtype="float32")
        found = [self._metric._compute_score_from_stats(rows[some].sum(0)) for some in samples]
        # A resample where nothing matches scores the float 0.0, and the others of chrF++ and TER
        # are of float32: sacrebleu fails to take the mean of both.
        if len({type(one.score) for one in found}) > 1:
            for one in found:
                one.score = float(one.score)
        return found
