# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf filter"""

import argparse
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from ..hub.names import check_name
from ..text.lines import read_lines
from ..text.output import OutputFile
from .engines import (
    TRANSFORMERS,
    add_chunks,
    add_engine,
    add_length_limit,
    add_machine,
    check_engine,
    load_translators,
)
from .kept_pairs import (
    add_kept_options,
    check_fraction,
    check_read_twice,
    kept_files,
    threshold_of_share,
)
from .pair_files import add_sides, unequal_lengths
from .runs import describe_run, folders_of


# Why a pair is dropped, in the order in which it is asked.
EMPTY, TOO_LONG = "with an empty side", "too long"


def add_filter(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "filter",
        help="keep the pairs of a corpus that models of both directions find good",
        description="Keep the best pairs of a parallel corpus by dual conditional cross-entropy: a "
        "model of each direction says how many nats a token of one side has, given the other; the "
        "score is exp(-(|difference| + mean)). Standard error tells how many pairs are kept.",
    )
    for option, sides in (("model", "source to target"), ("backward_model", "target to source")):
        parser.add_argument(
            f"--{option}",
            required=True,
            metavar="FOLDER",
            help=f"model from {sides}: a folder or a Hub id; with --engine ctranslate2, a folder "
            "of CTranslate2",
        )
    add_sides(parser, "plain or .gz")
    how_many = parser.add_mutually_exclusive_group(required=True)
    how_many.add_argument(
        "--keep",
        type=float,
        metavar="SHARE",
        help="keep this share of the pairs, such as 0.8, and those that score like the last of it",
    )
    how_many.add_argument(
        "--threshold", type=float, metavar="SCORE", help="keep pairs that score as much, or more"
    )
    add_kept_options(parser)
    parser.add_argument(
        "--scores",
        required=True,
        metavar="FILE",
        help="where the score of each pair and its two cross-entropies go, a line a pair",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with scores that the same command has left unfinished, or take finished ones, "
        "such as for another --keep",
    )
    add_engine(parser)
    add_machine(parser, tokens="tokens of a batch on each side", is_one_device=True)
    add_length_limit(
        parser,
        "dropped (default: the longest that the model was trained with, or 1024 if that is less); "
        "a target may have max_extra_tokens more",
    )
    add_chunks(parser, "pairs that are read, sorted by length and scored")
    parser.set_defaults(run=_filter)


def _filter(arguments: argparse.Namespace) -> int:
    _check_options(arguments)
    with _open_scores(arguments) as output:
        if not output.is_finished:
            _write_scores(arguments, output)
    threshold = arguments.threshold
    if threshold is None:
        import numpy as np

        scores = np.fromiter(_scores(arguments), dtype=np.float64)
        threshold = threshold_of_share(scores, arguments.keep)
    print(_keep(arguments, threshold), file=sys.stderr)
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    check_engine(arguments)
    if arguments.engine == TRANSFORMERS:
        for model in (arguments.model, arguments.backward_model):
            check_name(model)
    for name in ("keep", "threshold"):
        check_fraction(name, getattr(arguments, name))
    outputs = (arguments.output_source, arguments.output_target, arguments.scores)
    if len(set(outputs)) < len(outputs):
        raise ValueError("--output_source, --output_target and --scores must be three files.")
    check_read_twice((arguments.source, arguments.target), outputs)


def _open_scores(arguments: argparse.Namespace) -> OutputFile:
    """The file of scores, which says which run has written it."""
    models = (arguments.model, arguments.backward_model)
    folders = list(map(Path, models))
    if arguments.engine == TRANSFORMERS:
        folders = folders_of(models)
    output = Path(arguments.scores)
    files = {side: os.stat(getattr(arguments, side)) for side in ("source", "target")}
    run = describe_run(arguments, folders, output, **files)
    return OutputFile(output, run, resume=arguments.resume)


def _pairs(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    files = (arguments.source, arguments.target)
    both = itertools.zip_longest(*(read_lines(Path(file)) for file in files))
    for count, (source, target) in enumerate(both):
        if source is None or target is None:
            raise unequal_lengths(*(files if source is None else files[::-1]), count)
        yield source, target


def _write_scores(arguments: argparse.Namespace, output: OutputFile) -> None:
    """Score the pairs that have no line yet."""
    forward, backward = load_translators(
        # Nothing is searched: with more beams CTranslate2 would warn of how it ranks.
        arguments,
        [arguments.model],
        [arguments.backward_model],
        num_beams=1,
        rows=arguments.batch_tokens,
    )
    from ..translation import dual_scores

    pairs = itertools.islice(_pairs(arguments), output.num_lines, None)
    for one in dual_scores(forward, backward, pairs, arguments.chunk_sentences):
        # A score of noise is small, and its digits are what ranks it.
        output.write(f"{one.score:.6g}\t{one.forward:.6f}\t{one.backward:.6f}\n")


def _scores(arguments: argparse.Namespace) -> Iterator[float]:
    for number, line in enumerate(read_lines(Path(arguments.scores)), start=1):
        try:
            yield float(line.split("\t")[0])
        except ValueError:
            raise ValueError(
                f"{arguments.scores}, line {number} is no score of `vaswani-hf filter`; delete the "
                f"file, or name another one."
            ) from None


def _keep(arguments: argparse.Namespace, threshold: float) -> str:
    """Write the pairs that are kept, and say how many."""
    low = f"with a score below {threshold:.6g}"
    dropped = {EMPTY: 0, TOO_LONG: 0, low: 0}
    num_kept = 0
    with kept_files(arguments) as keep:
        for pair, score in itertools.zip_longest(_pairs(arguments), _scores(arguments)):
            if pair is None or score is None:
                raise ValueError(
                    f"{arguments.scores} has {'more' if pair is None else 'fewer'} lines than "
                    f"{arguments.source}; delete it, or name another file."
                )
            if score >= threshold and score > 0:
                num_kept += 1
                keep(*(f"{text}\n" for text in pair))
            elif not all(map(str.strip, pair)):
                dropped[EMPTY] += 1
            else:
                dropped[low if score else TOO_LONG] += 1
    total = num_kept + sum(dropped.values())

    def of_read(count: int) -> str:
        return f"{count:,} ({100 * count / max(total, 1):.2f} %)"

    told = [f"{of_read(count)} {reason}" for reason, count in dropped.items() if count]
    return f"{total:,} pairs read, {of_read(num_kept)} kept, dropped {', '.join(told) or 'none'}"
