# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The model of a command, or the models of an ensemble."""

import argparse

from ..hub.names import check_name


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """The options that name a model, or several."""
    parser.add_argument(
        "--model",
        action="append",
        required=True,
        metavar="FOLDER",
        help="a folder or a Hub id, of a model or an adapter; with --engine ctranslate2, a folder "
        "of CTranslate2. Several --model FOLDER are an ensemble",
    )
    parser.add_argument(
        "--adapter",
        metavar="FOLDER",
        help="an adapter on --model, whatever base it names; a folder or a Hub id",
    )
    parser.add_argument(
        "--revision", metavar="REVISION", help="branch, tag or commit of a Hub id (default: main)"
    )


def add_weights(parser: argparse.ArgumentParser) -> None:
    """The option that weights the models of an ensemble."""
    parser.add_argument(
        "--weights",
        nargs="+",
        type=_weight,
        metavar="W",
        help="weights of the models of an ensemble, in their order (default: equal ones)",
    )


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number; other arguments stand before --weights, or behind the next "
            f"option"
        ) from None


def check_models(arguments: argparse.Namespace) -> None:
    """Raise a `ValueError` for what needs no model to be refused."""
    models, weights = arguments.model, getattr(arguments, "weights", None)
    if weights is not None and len(weights) != len(models):
        raise ValueError(
            f"--weights must be as many as the models, {len(models)}, got {len(weights)}."
        )
    adapter = getattr(arguments, "adapter", None)
    if adapter is not None and len(models) > 1:
        raise ValueError(f"--adapter is for one model, got {len(models)}.")
    if arguments.engine == "transformers":
        for model in models:
            check_name(model, arguments.revision)
        if adapter is not None:
            check_name(adapter)
    elif len(models) > 1:
        raise ValueError(
            f"--engine ctranslate2 translates by one model, got {len(models)}; an ensemble needs "
            f"--engine transformers and the folders that were converted."
        )
