# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""BLEU with its signature, as an `evaluate.Metric` that needs no network."""

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import sacrebleu


class SacreBleu(evaluate.Metric):
    """Corpus BLEU by sacrebleu (Post 2018), with the signature that makes it comparable.

    `compute(predictions=[...], references=[...])` takes detokenised sentences, one reference each
    (or a list of references each), and returns `score` (0 to 100), `precisions`, `bp`, `sys_len`,
    `ref_len`, `counts`, `totals` and `signature`.
    """

    def _info(self) -> evaluate.MetricInfo:
        one = datasets.Features(
            {"predictions": datasets.Value("string"), "references": datasets.Value("string")}
        )
        several = datasets.Features(
            {
                "predictions": datasets.Value("string"),
                "references": datasets.Sequence(datasets.Value("string")),
            }
        )
        return evaluate.MetricInfo(
            description="Corpus BLEU by sacrebleu, with its signature.",
            citation="Post, A Call for Clarity in Reporting BLEU Scores, WMT 2018.",
            features=[several, one],
            homepage="https://github.com/mjpost/sacrebleu",
        )

    def _compute(
        self,
        predictions: Sequence[str],
        references: Sequence[str] | Sequence[Sequence[str]],
        tokenize: str = "13a",
        lowercase: bool = False,
    ) -> dict[str, Any]:
        streams: Any = (
            [references]
            if isinstance(references[0], str)
            else [list(stream) for stream in zip(*references, strict=True)]
        )
        # `force`: text that is tokenised already is what tokenize="none" is for.
        bleu = sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
        result = bleu.corpus_score(list(predictions), streams)
        return {
            "score": result.score,
            "precisions": result.precisions,
            "bp": result.bp,
            "sys_len": result.sys_len,
            "ref_len": result.ref_len,
            "counts": result.counts,
            "totals": result.totals,
            "signature": str(bleu.get_signature()),
        }


def exact_match(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Share of predictions that equal their reference to the letter, in [0, 1]."""
    pairs = list(zip(predictions, references, strict=True))
    return sum(prediction == reference for prediction, reference in pairs) / len(pairs)
