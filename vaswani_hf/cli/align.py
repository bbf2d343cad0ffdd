# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf align"""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from .pair_files import (
    add_pair_options,
    check_files,
    check_pair_options,
    lines_named,
    lines_of,
    load_engine,
    write_lines,
)


def add_align(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "align",
        help="say which words of given translations belong together",
        description="Say which source words the words of target sentences come from, by where a "
        "head of the decoder looks: for each pair a line such as `0-0 1-2`, the places of a source "
        "word and a target word. Words are what white space separates. What is not named of "
        "--layer, --head and --step is chosen by the first pairs, and told on standard error.",
    )
    add_pair_options(parser, "pharaoh")
    parser.add_argument("--layer", type=int, metavar="N", help="of the decoder, counted from 0")
    parser.add_argument("--head", type=int, metavar="N", help="in its layer, counted from 0")
    parser.add_argument(
        "--step",
        choices=("reads", "predicts"),
        help="look at the step that reads a target piece, or at the one that predicts it",
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
    check_files(arguments.source, arguments.target, output=arguments.output)
    translator = load_engine(arguments)
    heads: list[Any] = []
    with lines_named(arguments.source, arguments.target):
        write_lines(_lines(arguments, translator, heads), arguments.output)
    for head in heads:
        print(
            f"layer {head.layer}, head {head.head}, at the step that {head.step} a target piece",
            file=sys.stderr,
        )
    return 0


def _lines(arguments: argparse.Namespace, translator: Any, heads: list[Any]) -> Iterator[str]:
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
        yield alignment.pharaoh if arguments.format == "pharaoh" else _json(alignment)


def _json(alignment: Any) -> str:
    record = {"pairs": alignment.pairs}
    for side in ("source", "target"):
        segmentation = getattr(alignment, side)
        record[f"{side}_words"] = segmentation.words
        record[f"{side}_pieces"] = segmentation.pieces
        record[f"{side}_spans"] = segmentation.spans
    record["matrix"] = [[round(weight, 6) for weight in row] for row in alignment.matrix.tolist()]
    return json.dumps(record, ensure_ascii=False)
