# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf compare"""

import argparse
import logging

from ..evaluation import Comparison, SystemScore, compare
from ..text.tables import align
from .evaluate import (
    add_judging_options,
    as_json,
    metrics_of,
    number_of,
    read_parallel,
    warn_of_tokens,
)


logger = logging.getLogger(__name__)
SIGNIFICANT = 0.05  # sacrebleu marks a p-value up to this with an asterisk


def add_compare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "compare",
        help="tell whether one system's translations score better than another's by chance",
        description="Compare translations of the same sentences by two systems or more, with "
        "sacrebleu's paired bootstrap and paired approximate randomization tests. Each system is "
        "compared with the first one, the baseline.",
    )
    parser.add_argument(
        "systems",
        nargs="+",
        metavar="FILE",
        help="the translations of a system, plain or .gz; two files or more",
    )
    add_judging_options(parser)
    parser.set_defaults(run=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.WARNING, format="vaswani-hf: %(message)s")
    names = arguments.systems
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(
            f"A comparison needs two different files or more before --references, got "
            f"{', '.join(names)}."
        )
    metrics = metrics_of(arguments)
    texts = read_parallel([*names, *arguments.references])
    systems = dict(zip(names, texts, strict=False))
    for name, text in systems.items():
        warn_of_tokens(name, text, arguments.tokenize)
        if name != names[0] and text == texts[0]:
            # sacrebleu calls a difference of nothing significant.
            logger.warning("%s has the text of %s: their p means nothing.", name, names[0])
    compared = compare(systems, texts[len(names) :], metrics)
    if arguments.format == "json":
        found = {metric.name: one for metric, one in zip(metrics, compared, strict=True)}
        print(as_json({"sentences": len(texts[0]), "metrics": found}), flush=True)
        return 0
    sentences = number_of(len(texts[0]), "sentence")
    references = number_of(len(arguments.references), "reference")
    paragraphs = [f"{sentences}, {references}; the baseline is {names[0]}"]
    paragraphs += [_table(one) for one in compared]
    paragraphs.append(
        f"p is how often chance alone would make so large a difference from the baseline; * marks "
        f"up to {SIGNIFICANT}."
    )
    print("\n\n".join(paragraphs), flush=True)
    return 0


def _table(compared: Comparison) -> str:
    rows = [[compared.name, "Score", "95 % confidence", "p (bootstrap)", "p (randomization)"]]
    rows += [_row(system) for system in compared.systems]
    return "\n".join([align(rows), compared.bootstrap_signature, compared.randomization_signature])


def _row(system: SystemScore) -> list[str]:
    confidence = f"{system.mean:6.2f} ± {system.ci:.2f}"
    chances = [_chance(p) for p in (system.p_bootstrap, system.p_randomization)]
    return [system.system, f"{system.score:6.2f}", confidence, *chances]


def _chance(p: float | None) -> str:
    return "" if p is None else f"{p:.4f} *" if p <= SIGNIFICANT else f"{p:.4f}"
