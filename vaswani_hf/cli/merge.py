# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf merge"""

import argparse
import sys

from ..conversion.targets import check_target
from ..extras import require
from ..hub.names import check_name


def add_merge(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "merge",
        help="merge an adapter into its base model",
        description="Write an adapter (LoRA) and its base model as one folder, which needs PEFT no "
        "more (needs the extra `adapters`).",
    )
    parser.add_argument("adapter", metavar="ADAPTER", help="a folder or a Hub id")
    parser.add_argument("target", metavar="TARGET", help="a new folder")
    parser.add_argument(
        "--base_model",
        metavar="FOLDER",
        help="the model that is adapted, a folder or a Hub id (default: the one that the adapter "
        "names)",
    )
    parser.set_defaults(run=_merge)


def _merge(arguments: argparse.Namespace) -> int:
    check_target(arguments.target)
    check_name(arguments.adapter)
    if arguments.base_model is not None:
        check_name(arguments.base_model)
    require("peft")
    from transformers.utils import logging

    from ..conversion import merge_adapter

    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    merge_adapter(arguments.adapter, arguments.target, base=arguments.base_model)
    print(f"Wrote {arguments.target}.")
    return 0
