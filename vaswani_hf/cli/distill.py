# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf distill"""

import argparse
import itertools
import json
import math
import sys
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..text.lines import read_lines
from .formats import line_of
from .kept_pairs import (
    add_kept_options,
    check_fraction,
    check_read_twice,
    kept_files,
    threshold_of_share,
)
from .pair_files import unequal_lengths


EMPTY = -math.inf  # what a sentence without text measures
SCORE = "score"
MEASURES = (SCORE, "chrf", "bleu")  # the last two against the reference
Measure = Callable[[dict[str, Any], str | None], float]  # of a translation and its reference


def add_distill(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "distill",
        help="choose what a student model learns of a teacher's translations",
        description="Make training pairs for a student model of a teacher's translations: the "
        "sources, and of each the translation that is chosen (sequence-level distillation). "
        "Standard error tells how many pairs are kept.",
    )
    parser.add_argument(
        "n_best",
        nargs="+",
        metavar="N_BEST",
        help="what `vaswani-hf translate --n_best N --format jsonl` has written, plain or .gz; "
        "several are one after the other",
    )
    parser.add_argument(
        "--target", metavar="FILE", help="reference of each sentence, a line each, plain or .gz"
    )
    parser.add_argument(
        "--choose",
        choices=MEASURES,
        default=SCORE,
        help="of each sentence take the translation that the teacher scores highest (score, the "
        "default), or the one that is nearest to the reference by sentence chrF or BLEU, which is "
        "sequence-level interpolation (needs --target and the extra `evaluate`)",
    )
    parser.add_argument(
        "--keep_best",
        type=float,
        metavar="SHARE",
        help="keep this share of the pairs, such as 0.8, and those that measure like the last of "
        "it (default: all)",
    )
    parser.add_argument(
        "--by", choices=MEASURES, help="--keep_best: what is measured (default: as --choose)"
    )
    add_kept_options(parser)
    parser.set_defaults(run=_distill)


class Sentence(NamedTuple):
    """A source with its translations, and its reference where there is one."""

    source: str
    translations: list[dict[str, Any]]
    reference: str | None

    def is_pair(self, place: int) -> bool:
        """Whether both the source and the translation at a place have text."""
        return bool(self.source.strip() and self.translations[place]["text"].strip())


def _distill(arguments: argparse.Namespace) -> int:
    _check_options(arguments)
    choose, by = arguments.choose, arguments.by or arguments.choose
    measures = {name: _measure(name) for name in {choose, by}}
    # Of each sentence which translation is chosen, and what that measures: 12 bytes. The text is
    # read once more, and not held.
    places, worths = array("I"), array("d")
    for sentence in _sentences(arguments):
        texts, reference = sentence.translations, sentence.reference
        values = [measures[choose](text, reference) for text in texts]
        place = values.index(max(values))
        worth = values[place] if by == choose else measures[by](texts[place], reference)
        places.append(place)
        worths.append(worth if sentence.is_pair(place) else EMPTY)
    threshold = _threshold(worths, arguments.keep_best)
    print(_write(arguments, places, worths, threshold, by), file=sys.stderr)
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    share, by = arguments.keep_best, arguments.by
    check_fraction("keep_best", share)
    if by is not None and share is None:
        raise ValueError("--by is for --keep_best only.")
    for option, value in (("choose", arguments.choose), ("by", by)):
        if value not in (None, SCORE) and arguments.target is None:
            raise ValueError(f"--{option} {value} compares with references; name --target FILE.")
    inputs = [*arguments.n_best, *([arguments.target] if arguments.target else [])]
    outputs = (arguments.output_source, arguments.output_target)
    if len(set(outputs)) < len(outputs):
        raise ValueError("--output_source and --output_target must be two files.")
    check_read_twice(inputs, outputs)


def _measure(name: str) -> Measure:
    if name == SCORE:
        return lambda translation, reference: float(translation["score"])
    from ..translation.mbr import Utility

    metric = Utility(name).metric
    return lambda translation, reference: (
        metric.sentence_score(translation["text"], [reference]).score
    )


def _sentences(arguments: argparse.Namespace) -> Iterator[Sentence]:
    """The sentences that have a source and translations in all files, with their references."""
    lines = (
        (file, number, line)
        for file in arguments.n_best
        for number, line in enumerate(read_lines(Path(file)), start=1)
    )
    if arguments.target is None:
        for file, number, line in lines:
            yield _sentence(file, number, line, None)
        return
    both = itertools.zip_longest(lines, read_lines(Path(arguments.target)))
    names = [" ".join(arguments.n_best), arguments.target]
    for count, (found, reference) in enumerate(both):
        if found is None or reference is None:
            short, long = names if found is None else names[::-1]
            raise unequal_lengths(short, long, count)
        file, number, line = found
        yield _sentence(file, number, line, reference)


def _sentence(file: str, number: int, line: str, reference: str | None) -> Sentence:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    match found:
        case {"source": str(source), "translations": [_, *_] as several}:
            if all(map(_is_translation, several)):
                return Sentence(source, several, reference)
    raise ValueError(f"{file}, line {number} is no line of `vaswani-hf translate --format jsonl`.")


def _is_translation(found: Any) -> bool:
    match found:
        case {"text": str(), "score": int() | float()}:
            return True
    return False


def _threshold(worths: array, share: float | None) -> float:
    """The measure of the last pair of the share that is kept."""
    if share is None:
        return EMPTY
    import numpy as np

    known = np.array(worths)
    return threshold_of_share(known[known != EMPTY], share)


def _write(
    arguments: argparse.Namespace, places: array, worths: array, threshold: float, by: str
) -> str:
    """Write the pairs that are kept, and say how many."""
    empty, low = "with an empty side", f"with a {by} below {threshold:.6g}"
    dropped, num_kept = {empty: 0, low: 0}, 0
    with kept_files(arguments) as keep:
        for sentence, place, worth in zip(_sentences(arguments), places, worths, strict=True):
            if worth == EMPTY:
                dropped[empty] += 1
            elif worth < threshold:
                dropped[low] += 1
            else:
                num_kept += 1
                chosen = sentence.translations[place]["text"]
                keep(line_of(sentence.source), line_of(chosen))
    reasons = [f"{count:,} {reason}" for reason, count in dropped.items() if count]
    return f"{len(places):,} sentences, {num_kept:,} kept, dropped {', '.join(reasons) or 'none'}"
