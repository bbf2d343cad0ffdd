# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf plot"""

import argparse

from ..pictures.drawing import check_suffix, save_picture
from ..pictures.runs import plot_training


def add_plot(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "plot",
        help="plot the curves of training runs",
        description="Plot training loss, validation perplexity, BLEU and learning rate over the "
        "updates of one run, or of several in one picture. Prints the picture's name.",
    )
    parser.add_argument(
        "folders", nargs="+", metavar="RUN_FOLDER", help="output folder of training/run.py"
    )
    parser.add_argument(
        "-o",
        "--output",
        default="training.png",
        metavar="PICTURE",
        help="the picture: .png, .svg or .pdf (default: training.png)",
    )
    parser.set_defaults(run=_plot)


def _plot(arguments: argparse.Namespace) -> int:
    check_suffix(arguments.output)
    save_picture(plot_training(*arguments.folders), arguments.output)
    print(arguments.output)
    return 0
