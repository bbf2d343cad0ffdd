# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The scores of an evaluation, as `results.json` has them."""

import logging
from typing import Any

from .evaluation import Evaluation
from .parses import FIGURES


logger = logging.getLogger("training")
SHOWN = {"bleu": "BLEU", "chrf++": "chrF++"}  # scores with confidence, and how they are written


def scores_of(evaluation: Evaluation, name: str) -> dict[str, Any]:
    """The scores of a split by name, which are logged too.

    Args:
        evaluation: of the split.
        name: what the log calls it.
    """
    figures, signatures = evaluation.figures, evaluation.signatures
    scores: dict[str, Any] = {
        "loss_nats_per_token": figures["loss"],
        "perplexity_per_token": figures["perplexity_per_token"],
        "sentences": evaluation.sentences,
    }
    if "f1" in figures:
        scores |= {name: figures[name] for name in (*FIGURES, "well_formed")}
        scores |= evaluation.details
        logger.info(
            "%s: F1 %.2f (EVALB, COLLINS.prm, tags of punctuation given), recall %.2f, "
            "precision %.2f, tagging accuracy %.2f, well-formed %.1f %%",
            *(name, figures["f1"], figures["recall"], figures["precision"]),
            *(figures["tagging_accuracy"], 100 * figures["well_formed"]),
        )
    if "bleu" in figures:
        scores["bleu"] = figures["bleu"]
        scores["bleu_signature"] = signatures["bleu"]
        scores["exact_match"] = figures["exact_match"]
        logger.info(
            "%s: BLEU %.2f (%s), exact match %.1f %%, perplexity %.3f per token",
            *(name, figures["bleu"], signatures["bleu"], 100 * figures["exact_match"]),
            figures["perplexity_per_token"],
        )
    if "chrf++" in figures:
        scores["chrf++"] = figures["chrf++"]
        scores["chrf++_signature"] = signatures["chrf++"]
        logger.info("%s: chrF++ %.2f (%s)", name, figures["chrf++"], signatures["chrf++"])
    for metric, found in evaluation.confidence.items():
        scores[f"{metric}_confidence"] = {
            "mean": found.mean,
            "ci": found.ci,  # half the width of the interval
            "signature": found.signature,
        }
        logger.info(
            "%s: 95 %% confidence of %s %.2f ± %.2f (%s)",
            *(name, SHOWN[metric], found.mean, found.ci, found.signature),
        )
    if "compound_split_bleu" in figures:
        scores["compound_split_bleu"] = figures["compound_split_bleu"]
        scores["compound_split_bleu_signature"] = signatures["compound_split_bleu"]
        logger.info(
            "%s: tokenised, compound-split BLEU %.2f (%s)",
            *(name, figures["compound_split_bleu"], signatures["compound_split_bleu"]),
        )
    return scores
