# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a model that parses scores: EVALB's F1, tags, and what was no tree (section 6.3)."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from vaswani_hf.parsing import (
    Repairs,
    SentenceScore,
    Summary,
    Tree,
    TreePieces,
    score_parse,
)


FIGURES = ("f1", "recall", "precision", "complete_match", "tagging_accuracy")
_ENDS = (10, 20, 30, 40, None)  # most words of each bin; the last has no limit


class Parse(NamedTuple):
    """A tree, mended where it was none; what was mended; the right tree; and the score."""

    tree: Tree
    repairs: Repairs
    gold: Tree
    score: SentenceScore


def parse_of(sentence: str, sequence: str, reference: str, pieces: TreePieces) -> Parse:
    """Read what a model has found.

    Args:
        sentence: its words, as the model reads them.
        sequence: that the model has found.
        reference: that of the right tree.
        pieces: of the model's trees.
    """
    words = pieces.words_of(sentence)
    tree, repairs = pieces.tree_of(sequence, words)
    gold = pieces.gold_tree_of(reference, words)
    return Parse(tree, repairs, gold, score_parse(gold, tree))


def figures_of(parses: Sequence[Parse]) -> dict[str, float]:
    """EVALB's figures, 0 to 100, with the tags of the right trees for punctuation.

    And `well_formed`, the share of sequences that needed no repair, in [0, 1].
    """
    summary = Summary([parse.score for parse in parses])
    well_formed = sum(not parse.repairs for parse in parses) / len(parses)
    return {name: getattr(summary, name) for name in FIGURES} | {"well_formed": well_formed}


def details_of(parses: Sequence[Parse]) -> dict[str, Any]:
    """What was mended, by kind, and the figures by the number of words."""
    repairs = [dataclasses.asdict(parse.repairs) for parse in parses]
    bins, low = [], 1
    for high in _ENDS:
        some = [
            parse
            for parse in parses
            if low <= parse.score.length and (high is None or parse.score.length <= high)
        ]
        if some:
            counts = {"min_words": low, "max_words": high, "sentences": len(some)}
            bins.append(counts | figures_of(some))
        low = (high or 0) + 1
    return {
        "repairs": {name: sum(each[name] for each in repairs) for name in repairs[0]},
        "by_words": bins,
    }
