# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf translate --model FOLDER [FILE]"""

import argparse
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from .lines import decode_lines


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="vaswani-hf", description="Use a Transformer of 'Attention Is All You Need'."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_translate(commands)
    _add_plot(commands)
    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except (ValueError, OSError, ImportError) as error:
        if isinstance(error, BrokenPipeError):  # whoever read the output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        print(f"vaswani-hf: {error}", file=sys.stderr)
        return 1


def _add_translate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "translate",
        help="translate text, a sentence a line",
        description="Translate a sentence a line, from a file or standard input to standard "
        "output. An empty line stays empty.",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="text to translate; else stdin")
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a folder or a Hub id")
    parser.add_argument("--num_beams", type=int, metavar="N", help="beam width; else the model's")
    parser.add_argument("--length_penalty", type=float, metavar="ALPHA", help="else the model's")
    parser.add_argument(
        "--batch_tokens", type=int, default=4096, metavar="N", help="padded source tokens a batch"
    )
    parser.add_argument(
        "--chunk_sentences",
        type=int,
        default=10_000,
        metavar="N",
        help="sentences that are read, sorted by length and translated before the next are read",
    )
    parser.add_argument("--device", help="such as cpu or cuda; else a GPU where there is one")
    parser.set_defaults(run=_translate)


def _translate(arguments: argparse.Namespace) -> int:
    if arguments.chunk_sentences < 1:
        raise ValueError(f"--chunk_sentences must be at least 1, got {arguments.chunk_sentences}.")
    with _source(arguments.file) as source:
        # The heavy imports come after the file is open: a wrong name is told at once.
        from transformers.utils import logging

        from vaswani_hf import Translator

        if not sys.stderr.isatty():
            logging.disable_progress_bar()
        translator = Translator.from_pretrained(
            arguments.model,
            device=arguments.device,
            num_beams=arguments.num_beams,
            length_penalty=arguments.length_penalty,
            batch_tokens=arguments.batch_tokens,
        )
        lines = decode_lines(source, arguments.file or "standard input")
        with open(
            sys.stdout.fileno(), "w", encoding="utf-8", newline="\n", closefd=False
        ) as output:
            for chunk in _chunks(lines, arguments.chunk_sentences):
                for translation in translator(chunk, progress=sys.stderr.isatty()):
                    output.write(" ".join(translation.splitlines()) + "\n")
                output.flush()
    return 0


def _source(file: str | None) -> BinaryIO:
    return sys.stdin.buffer if file in (None, "-") else open(str(file), "rb")


def _chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _add_plot(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
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
    from .plotting import check_suffix, plot_training, save_picture

    check_suffix(arguments.output)
    save_picture(plot_training(*arguments.folders), arguments.output)
    print(arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
