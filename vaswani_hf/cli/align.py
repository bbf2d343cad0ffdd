# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf align"""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from ..evaluation import AlignmentScore
from ..text.pharaoh import parse_links
from .pair_files import (
    add_pair_options,
    check_files,
    check_pair_options,
    lines_named,
    lines_of,
    load_engine,
    name_of,
    write_lines,
)


def add_align(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "align",
        help="say which words of given translations belong together",
        description="Say which source words the words of target sentences come from, by where a "
        "head of the decoder looks: for each pair a line such as `0-0 1-2`, the places of a source "
        "word and a target word. Words are what white space separates. What is not named of "
        "--layer, --head and --step is that of the head that was trained to align, or else chosen "
        "by the first pairs, and told on standard error.",
    )
    add_pair_options(parser, "pharaoh")
    parser.add_argument("--layer", type=int, metavar="N", help="of the decoder, counted from 0")
    parser.add_argument("--head", type=int, metavar="N", help="in its layer, counted from 0")
    parser.add_argument(
        "--step",
        choices=("reads", "predicts"),
        help="look at the step that reads a target piece, or at the one that predicts it",
    )
    parser.add_argument(
        "--references",
        metavar="FILE",
        help="right alignments, a line for each pair, sure links as 1-2 and possible ones as 1p2: "
        "the alignment error rate is told on standard error",
    )
    parser.set_defaults(run=_align)


def _align(arguments: argparse.Namespace) -> int:
    if arguments.engine == "ctranslate2":
        raise ValueError(
            "--engine ctranslate2 does not tell where the heads of a model look; use --engine "
            "transformers and the folder that was converted."
        )
    if len(arguments.model) > 1:
        raise ValueError(
            f"--model: an ensemble has no heads of its own, got {len(arguments.model)} models; "
            f"name one of them."
        )
    check_pair_options(arguments)
    files = [arguments.source, arguments.target]
    if arguments.references is not None:
        files.append(arguments.references)
    check_files(*files, output=arguments.output)
    translator = load_engine(arguments)
    heads: list[Any] = []
    score = None
    with lines_named(arguments.source, arguments.target):
        found = _alignments(arguments, translator, heads)
        if arguments.references is not None:
            score = AlignmentScore()
            found = _scored(found, arguments.references, score)
        is_short = arguments.format == "pharaoh"
        lines = (each.pharaoh if is_short else _json(each) for each in found)
        write_lines(lines, arguments.output)
    for head in heads:
        print(
            f"layer {head.layer}, head {head.head}, at the step that {head.step} a target piece",
            file=sys.stderr,
        )
    if score is not None:
        print(score, file=sys.stderr)
    return 0


def _alignments(arguments: argparse.Namespace, translator: Any, heads: list[Any]) -> Iterator[Any]:
    found = translator.align(
        lines_of(arguments.source),
        lines_of(arguments.target),
        layer=arguments.layer,
        head=arguments.head,
        step=arguments.step,
        chunk_sentences=arguments.chunk_sentences,
    )
    for alignment in found:
        if alignment.head not in heads:
            heads.append(alignment.head)
        yield alignment


def _scored(found: Iterator[Any], references: str, score: AlignmentScore) -> Iterator[Any]:
    """The alignments; each is compared with its line of the file."""
    lines = lines_of(references)
    number = 0
    for number, alignment in enumerate(found, start=1):
        line = next(lines, None)
        if line is None:
            raise ValueError(
                f"{name_of(references)} has {number - 1} lines, and there are more pairs; each "
                f"needs its line, blank where nothing belongs together."
            )
        num_words = len(alignment.source.words), len(alignment.target.words)
        try:
            reference = parse_links(line, num_words)
        except ValueError as error:
            raise ValueError(f"{name_of(references)}, line {number}: {error}") from None
        score.add(alignment.pairs, reference)
        yield alignment
    if next(lines, None) is not None:
        raise ValueError(
            f"{name_of(references)} has more lines than there are pairs, {number}; each line needs "
            f"its pair."
        )


def _json(alignment: Any) -> str:
    record = {"pairs": alignment.pairs}
    for side in ("source", "target"):
        segmentation = getattr(alignment, side)
        record[f"{side}_words"] = segmentation.words
        record[f"{side}_pieces"] = segmentation.pieces
        record[f"{side}_spans"] = segmentation.spans
    record["matrix"] = [[round(weight, 6) for weight in row] for row in alignment.matrix.tolist()]
    return json.dumps(record, ensure_ascii=False)
