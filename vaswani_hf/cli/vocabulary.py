# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf vocabulary trim, vaswani-hf vocabulary extend"""

import argparse
import logging

from ..conversion.targets import check_target
from ..hub.names import check_name


def add_vocabulary(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "vocabulary",
        help="drop pieces of a model's vocabulary, or add some",
        description="Change the vocabulary of a model with its matrices, without training it anew.",
    )
    ways = parser.add_subparsers(dest="way", required=True, metavar="WAY")
    trim = ways.add_parser(
        "trim",
        help="drop the pieces that a text never uses",
        description="Write a smaller folder without the pieces that a text never uses. The text is "
        "cut as before; bytes, characters and special pieces stay, and so do the logits of all "
        "pieces that stay.",
    )
    extend = ways.add_parser(
        "extend",
        help="add pieces for a new domain or language",
        description="Write a folder with more pieces, learned from text as the old ones were. "
        "Their rows are the means of the rows of their parts; train the model then. With "
        "--source_tags also, or only, special pieces.",
    )
    for way in (trim, extend):
        way.add_argument("source", metavar="SOURCE", help="a folder or a Hub id")
        way.add_argument("target", metavar="TARGET", help="a new folder")
        for side in ("source", "target"):
            way.add_argument(
                f"--{side}_text",
                nargs="+",
                default=[],
                required=way is trim,
                metavar="FILE",
                help=f"{side} text, plain or gzipped",
            )
        way.set_defaults(run=_vocabulary)
    extend.add_argument(
        "--num_pieces", type=int, default=0, metavar="NUMBER", help="how many pieces to learn"
    )
    extend.add_argument(
        "--source_tags",
        nargs="+",
        default=[],
        metavar="TAG",
        help="special pieces, such as '<bt>', to stand before sources of a kind: what a corpus of "
        "training names as its source_tag",
    )


def _vocabulary(arguments: argparse.Namespace) -> int:
    check_target(arguments.target)
    check_name(arguments.source)
    logging.basicConfig(level=logging.WARNING, format="vaswani-hf: %(message)s")
    logging.getLogger("vaswani_hf").setLevel(logging.INFO)  # logs the numbers of pieces

    from .. import vocabulary

    texts = {"source_text": arguments.source_text, "target_text": arguments.target_text}
    if arguments.way == "trim":
        vocabulary.trim_vocabulary(arguments.source, arguments.target, **texts)
    else:
        vocabulary.extend_vocabulary(
            arguments.source,
            arguments.target,
            num_pieces=arguments.num_pieces,
            source_tags=arguments.source_tags,
            **texts,
        )
    print(f"Wrote {arguments.target}.")
    return 0
