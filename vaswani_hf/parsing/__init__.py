# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How is a sentence parsed (section 6.3)? Trees to text and back, and EVALB's F1."""

from typing import TYPE_CHECKING

from ..imports import imported_at_use


if TYPE_CHECKING:
    from .constraint import TreeConstraint, TreePieces
    from .evalb import Parameters, SentenceScore, Summary, read_parameters, score_parse, score_trees
    from .linearization import Repairs, linearize, repair_tree, tree_of
    from .parser import TreeParser
    from .trees import Tree, read_trees, tree_of_text, without_traces


__all__ = [
    "Parameters",
    "Repairs",
    "SentenceScore",
    "Summary",
    "Tree",
    "TreeConstraint",
    "TreeParser",
    "TreePieces",
    "linearize",
    "read_parameters",
    "read_trees",
    "repair_tree",
    "score_parse",
    "score_trees",
    "tree_of",
    "tree_of_text",
    "without_traces",
]

__getattr__, __dir__ = imported_at_use(
    __name__,
    {
        "Parameters": "evalb",
        "Repairs": "linearization",
        "SentenceScore": "evalb",
        "Summary": "evalb",
        "Tree": "trees",
        "TreeConstraint": "constraint",
        "TreeParser": "parser",
        "TreePieces": "constraint",
        "linearize": "linearization",
        "read_parameters": "evalb",
        "read_trees": "trees",
        "repair_tree": "linearization",
        "score_parse": "evalb",
        "score_trees": "evalb",
        "tree_of": "linearization",
        "tree_of_text": "trees",
        "without_traces": "trees",
    },
)
