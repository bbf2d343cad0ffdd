# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf push"""

import argparse
import logging
import sys

from ..hub.names import check_push


def add_push(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "push",
        help="push a model to the Hub and verify it",
        description="Push a model's folder to the Hub: weights, configurations, tokenizer, the "
        "model's code, the card, and figures and settings of its training; nothing else in the "
        "folder. Then fetch it into an empty cache without this package, translate three sentences "
        "and compare. Running an interrupted push again finishes it. The token is that of `hf auth "
        "login` or HF_TOKEN.",
    )
    parser.add_argument("folder", metavar="FOLDER", help="output folder of training/run.py")
    parser.add_argument(
        "--to",
        required=True,
        metavar="ORG/NAME",
        help="repository on the Hub; created if it does not exist",
    )
    parser.add_argument(
        "--private", action="store_true", default=None, help="make a new repository private"
    )
    parser.add_argument("--revision", metavar="BRANCH", help="branch to push to (default: main)")
    parser.add_argument(
        "--license",
        metavar="ID",
        help="the model's license, a Hub identifier such as cc-by-4.0 (default: the card's)",
    )
    parser.add_argument(
        "--source_language", metavar="CODE", help="such as en (default: the card's)"
    )
    parser.add_argument(
        "--target_language", metavar="CODE", help="such as de (default: the card's)"
    )
    parser.add_argument(
        "--max_shard_size",
        default="5GB",
        metavar="SIZE",
        help="split larger weights into several files (default: 5GB)",
    )
    parser.add_argument(
        "--base_model",
        metavar="ORG/NAME",
        help="of an adapter: the model that it adapts, on the Hub (default: the one that the "
        "adapter names)",
    )
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="fetch the pushed model and compare translations (default: on)",
    )
    parser.set_defaults(run=_push)


def _push(arguments: argparse.Namespace) -> int:
    check_push(arguments.folder, arguments.to)
    logging.basicConfig(level=logging.WARNING, format="vaswani-hf: %(message)s")
    from huggingface_hub.utils import disable_progress_bars
    from transformers.utils import logging as library_logging

    from ..hub import push

    if not sys.stderr.isatty():
        disable_progress_bars()
        library_logging.disable_progress_bar()
    pushed = push(
        arguments.folder,
        arguments.to,
        private=arguments.private,
        revision=arguments.revision,
        license=arguments.license,
        source_language=arguments.source_language,
        target_language=arguments.target_language,
        max_shard_size=arguments.max_shard_size,
        base_model=arguments.base_model,
        is_verified=arguments.verify,
    )
    print(f"Pushed {arguments.folder} to {pushed.url} (commit {pushed.commit}).")
    if pushed.translations:
        print("Fetched into an empty cache and loaded without this package, it says the same:")
        for source, translation in pushed.translations:
            print(f"  {source}\n    {translation}")
    return 0
