# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf parse"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..hub.names import check_name
from ..text.lines import decode_lines, read_lines
from ..translation.options import check_at_least, check_search_options


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
    parser.add_argument(
        "--num_beams", type=int, metavar="N", help="beam width (default: the model's)"
    )
    parser.add_argument(
        "--length_penalty",
        type=float,
        metavar="ALPHA",
        help="exponent of the length penalty (default: the model's)",
    )
    parser.add_argument(
        "--batch_tokens",
        type=int,
        default=4096,
        metavar="N",
        help="most padded source tokens of a batch (default: 4096)",
    )
    parser.add_argument(
        "--chunk_sentences",
        type=int,
        default=10_000,
        metavar="N",
        help="sentences that are read, sorted by length and parsed together (default: 10000)",
    )
    parser.add_argument("--device", help="such as cpu or cuda (default: a GPU if there is one)")
    parser.set_defaults(run=_parse)


def _parse(arguments: argparse.Namespace) -> int:
    _check_options(arguments)
    from transformers.utils import logging

    from ..parsing import TreeParser

    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    names = ("revision", "device", "num_beams", "length_penalty", "batch_tokens", "constrained")
    options = {name: getattr(arguments, name) for name in names}
    parser = TreeParser.from_pretrained(arguments.model, **options)
    trees = parser.stream(
        _lines(arguments.file),
        tokenized=arguments.tokenized,
        chunk_sentences=arguments.chunk_sentences,
        progress=sys.stderr.isatty() and not (arguments.file is None and sys.stdin.isatty()),
    )
    if arguments.format == "svg":
        _write_pictures(trees, Path(arguments.output))
        return 0
    for tree in trees:
        indented = arguments.format == "indented"
        print("" if tree is None else tree.indented() if indented else tree, flush=True)
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    check_at_least(
        1, batch_tokens=arguments.batch_tokens, chunk_sentences=arguments.chunk_sentences
    )
    check_search_options(arguments.num_beams, arguments.length_penalty, None)
    if (arguments.format == "svg") != (arguments.output is not None):
        raise ValueError("--format svg and --output FOLDER belong together; give both or neither.")
    check_name(arguments.model, arguments.revision)


def _lines(file: str | None) -> Iterator[str]:
    if file not in (None, "-"):
        return read_lines(Path(str(file)))
    if sys.stdin is None:
        raise ValueError("Standard input is closed; name a FILE, or pipe the sentences in.")
    return decode_lines(sys.stdin.buffer, "standard input")


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
