# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf parse"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..hub.names import check_name
from .engines import (
    TRANSFORMERS,
    add_chunks,
    add_length_limit,
    add_length_penalty,
    add_machine,
    add_num_beams,
    check_engine,
    load_translators,
    search_options,
)
from .pair_files import STANDARD_INPUT, check_files, lines_of, name_of, write_lines


if TYPE_CHECKING:
    from ..parsing import Tree


def add_parse(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "parse",
        help="parse sentences into constituency trees",
        description="Parse sentences, one per line, from a file or standard input by a model that "
        "was trained to (recipes parsing_wsj, parsing_semi and parsing_craft). Empty lines stay "
        "empty.",
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="sentences, plain or .gz (default: standard input)"
    )
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a folder or a Hub id")
    parser.add_argument(
        "--revision", metavar="REVISION", help="branch, tag or commit of a Hub id (default: main)"
    )
    parser.add_argument(
        "--tokenized",
        action="store_true",
        help="spaces stand between words; else sentences are cut as the treebank's are (needs the "
        "extra `parsing`)",
    )
    parser.add_argument(
        "--format",
        choices=("brackets", "indented", "svg"),
        default="brackets",
        help="a tree a line (the default), brackets over several lines, or pictures",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        help="--format svg: where the pictures go, 1.svg for the first line and so on",
    )
    parser.add_argument(
        "--constrained",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="search among trees alone; else what is found is mended where it is none "
        "(default: on)",
    )
    add_num_beams(parser)
    add_length_penalty(parser)
    add_machine(parser, is_one_device=True)
    add_length_limit(parser)
    add_chunks(parser, "sentences that are read, sorted by length and parsed")
    parser.set_defaults(run=_parse, engine=TRANSFORMERS)


def _parse(arguments: argparse.Namespace) -> int:
    file = arguments.file or STANDARD_INPUT
    _check_options(arguments)
    check_files(file, output=None)
    from ..parsing import TreeParser
    from ..translation import LongSourceError

    (translator,) = load_translators(arguments, [arguments.model], **search_options(arguments))
    parser = TreeParser(translator, constrained=arguments.constrained)
    trees = parser.stream(
        lines_of(file),
        tokenized=arguments.tokenized,
        chunk_sentences=arguments.chunk_sentences,
        progress=sys.stderr.isatty() and not (file == STANDARD_INPUT and sys.stdin.isatty()),
    )
    try:
        _write(trees, arguments)
    except LongSourceError as error:
        raise ValueError(f"{name_of(file)}, line {error.place + 1}: {error}") from None
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    check_engine(arguments)
    if (arguments.format == "svg") != (arguments.output is not None):
        raise ValueError("--format svg and --output FOLDER belong together; give both or neither.")
    check_name(arguments.model, arguments.revision)


def _write(trees: "Iterator[Tree | None]", arguments: argparse.Namespace) -> None:
    if arguments.format == "svg":
        _write_pictures(trees, Path(arguments.output))
        return
    indented = arguments.format == "indented"
    lines = ("" if tree is None else tree.indented() if indented else str(tree) for tree in trees)
    write_lines(lines, None)


def _write_pictures(trees: "Iterator[Tree | None]", folder: Path) -> None:
    """Write a picture for each tree, and print its name."""
    from ..pictures.trees import tree_svg

    folder.mkdir(parents=True, exist_ok=True)
    for number, tree in enumerate(trees, start=1):
        if tree is not None:
            path = folder / f"{number}.svg"
            path.write_text(tree_svg(tree), encoding="utf-8")
            print(path, flush=True)


__all__ = ["add_parse"]
