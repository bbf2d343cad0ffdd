# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""BLEU with its signature and EVALB's F1, as `evaluate.Metric`s that need no network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import evaluate

from vaswani_hf.evaluation import Metric
from vaswani_hf.parsing import (
    Parameters,
    Summary,
    read_parameters,
    score_parse,
    score_trees,
    tree_of_text,
)
from vaswani_hf.parsing.evalb import ERROR, SKIPPED


class SacreBleu(evaluate.Metric):
    """Corpus BLEU by sacrebleu (Post 2018), with the signature that makes it comparable.

    `compute(predictions=[...], references=[...])` takes detokenised sentences, one reference each
    (or a list of references each), and returns `score` (0 to 100), `precisions`, `bp`, `sys_len`,
    `ref_len`, `counts`, `totals` and `signature`. Options:

    `tokenize`: sacrebleu's tokenizer; `"none"` for text that is tokenised already; `"moses-de"` for
    the Moses tokenizer of a language, which needs sacremoses.
    `lowercase`: whether case counts for nothing.
    `split_compounds`: tokenised, compound-split BLEU, by which the paper's authors scored German
    (tensor2tensor, `get_ende_bleu.sh`) and which is higher than 13a: tokens are cut at hyphens, and
    nothing is smoothed, as in `multi-bleu.perl`. That script takes a no-break space for a letter,
    sacrebleu for a space; else they give the same. The signature ends in `|compounds:split`.

    Raises `ValueError` for an unknown tokenizer, and for one that would come after the cutting.
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
        split_compounds: bool = False,
    ) -> dict[str, Any]:
        metric = Metric(
            "bleu", tokenize=tokenize, lowercase=lowercase, split_compounds=split_compounds
        )
        several: list[Any] = (
            [references] if isinstance(references[0], str) else [*zip(*references, strict=True)]
        )
        found = metric.score(metric.statistics(predictions, several))
        return {"score": found.score, "signature": found.signature, **found.details}


class EvalbF1(evaluate.Metric):
    """Labelled F1 of parse trees as EVALB computes it (Sekine and Collins 1997).

    `compute(predictions=[...], references=[...])` takes trees in brackets, a line each, and returns
    `f1`, `recall`, `precision`, `complete_match` and `tagging_accuracy` (0 to 100), and how many
    `sentences` there are and how many of these EVALB leaves out: `errors` and `skipped`. Options:

    `params`: path of a parameter file of EVALB; `None` for what `COLLINS.prm` says.
    `gold_tags`: whether punctuation is known by the tags of the references (see `score_parse`), so
    that every sentence counts.
    """

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Labelled F1 of parse trees, as EVALB computes it.",
            citation="Sekine and Collins, EVALB, 1997.",
            features=datasets.Features(
                {"predictions": datasets.Value("string"), "references": datasets.Value("string")}
            ),
            homepage="https://nlp.cs.nyu.edu/evalb/",
        )

    def _compute(
        self,
        predictions: Sequence[str],
        references: Sequence[str],
        params: str | None = None,
        gold_tags: bool = False,
    ) -> dict[str, Any]:
        parameters = Parameters() if params is None else read_parameters(Path(params))
        if gold_tags:
            trees = (map(tree_of_text, side) for side in (references, predictions))
            scores = [score_parse(one, two, parameters) for one, two in zip(*trees, strict=True)]
        else:
            scores = list(score_trees(references, predictions, parameters))
        return figures_of(Summary(scores))


def figures_of(summary: Summary) -> dict[str, Any]:
    """What `EvalbF1` returns, of scores that are there already."""
    return {
        "f1": summary.f1,
        "recall": summary.recall,
        "precision": summary.precision,
        "complete_match": summary.complete_match,
        "tagging_accuracy": summary.tagging_accuracy,
        "sentences": summary.num_sentences(),
        "errors": summary.num_sentences(ERROR),
        "skipped": summary.num_sentences(SKIPPED),
    }


def exact_match(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Share of predictions that equal their reference to the letter, in [0, 1]."""
    pairs = list(zip(predictions, references, strict=True))
    return sum(prediction == reference for prediction, reference in pairs) / len(pairs)
