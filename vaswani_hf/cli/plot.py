# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf plot"""

import argparse


def add_plot(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "plot",
        help="draw the curves of training runs",
        description="Draw training loss, validation perplexity, BLEU and learning rate over the "
        "updates of a run, or of several runs in one picture. The picture's name is printed.",
    )
    parser.add_argument(
        "folders", nargs="+", metavar="RUN_FOLDER", help="output folder of training/run.py"
    )
    parser.add_argument(
        "-o",
        "--output",
        default="training.png",
        metavar="PICTURE",
        help="the picture, .png, .svg or .pdf; training.png unless given",
    )
    parser.set_defaults(run=_plot)


def _plot(arguments: argparse.Namespace) -> int:
    from ..pictures.drawing import check_suffix, save_picture
    from ..pictures.runs import plot_training

    check_suffix(arguments.output)
    save_picture(plot_training(*arguments.folders), arguments.output)
    print(arguments.output)
    return 0
