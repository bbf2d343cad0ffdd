# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf evalb"""

import argparse
from pathlib import Path

from ..parsing.evalb import ERROR, Parameters, SentenceScore, Summary, read_parameters, score_trees
from .evaluate import read_parallel


def add_evalb(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "evalb",
        help="score parse trees as EVALB does",
        description="Score parse trees, a tree a line, against gold trees: labelled recall, "
        "precision and F1 and tagging accuracy, in the lines of EVALB's summary.",
    )
    parser.add_argument("gold", metavar="GOLD", help="the right trees, plain or .gz")
    parser.add_argument("test", metavar="TEST", help="what a parser found, plain or .gz")
    parser.add_argument(
        "--params",
        metavar="FILE",
        help="a parameter file of EVALB (default: what COLLINS.prm says)",
    )
    parser.set_defaults(run=_evalb)


def _evalb(arguments: argparse.Namespace) -> int:
    params = arguments.params
    parameters = Parameters() if params is None else read_parameters(Path(params))
    gold, test = read_parallel([arguments.gold, arguments.test])
    scores = list(score_trees(gold, test, parameters))
    _check_errors(scores, arguments, parameters)
    summary, most = Summary(scores), parameters.cutoff_words
    print("=== Summary ===\n")
    print("\n".join(summary.lines("All")), end="\n\n")
    print("\n".join(summary.up_to(most).lines(f"len<={most}")), flush=True)
    return 0


def _check_errors(
    scores: list[SentenceScore], arguments: argparse.Namespace, parameters: Parameters
) -> None:
    errors = [place for place, score in enumerate(scores, 1) if score.status == ERROR]
    if len(errors) > parameters.max_errors + 1:  # EVALB stops when it meets one more than that
        first = errors[0]
        raise ValueError(
            f"{len(errors)} trees of {arguments.test} do not fit those of {arguments.gold}, first "
            f"in line {first} ({scores[first - 1].problem}), and EVALB stops beyond MAX_ERROR="
            f"{parameters.max_errors}; mend them, or raise MAX_ERROR in a file for --params."
        )


__all__ = ["add_evalb"]
