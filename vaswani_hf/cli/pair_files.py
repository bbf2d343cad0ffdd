# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What `score` and `align` share: two files in step, a model, and whole lines of output."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..text.lines import decode_lines, read_lines
from ..text.output import Output
from .engines import (
    REFUSED,
    add_chunks,
    add_engine,
    add_length_limit,
    add_machine,
    check_engine,
    load_translators,
)
from .models import add_model_options, check_models


if TYPE_CHECKING:
    from ..translation import TextTranslator


STANDARD_INPUT = "-"


def add_pair_options(parser: argparse.ArgumentParser, text_format: str) -> None:
    """The options of both commands.

    Args:
        parser: of the command.
        text_format: the format of its output beside `jsonl`; the default.
    """
    add_model_options(parser)
    add_sides(parser, "plain or .gz; - for standard input")
    parser.add_argument(
        "--output", metavar="FILE", help="where the lines go (default: standard output)"
    )
    parser.add_argument(
        "--format",
        choices=(text_format, "jsonl"),
        default=text_format,
        help=f"{text_format} (the default), or a JSON object a line, which says more",
    )
    add_engine(parser)
    add_machine(parser, tokens="tokens of a batch on each side", is_one_device=True)
    add_length_limit(parser, f"{REFUSED}; a target may have max_extra_tokens more")
    add_chunks(parser, "pairs that are read, sorted by length and answered")


def add_sides(parser: argparse.ArgumentParser, kinds: str) -> None:
    """The files of source and target; help tells which kinds of files they may be."""
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}",
            required=True,
            metavar="FILE",
            help=f"{side} sentences, one per line, {kinds}",
        )


def check_pair_options(arguments: argparse.Namespace) -> None:
    """Raise a `ValueError` for what needs no model to be refused."""
    check_models(arguments)
    check_engine(arguments)


def load_engine(arguments: argparse.Namespace) -> "TextTranslator":
    """The translator that the options name."""
    # Nothing is searched: with more beams CTranslate2 would warn of how it ranks.
    options = {"num_beams": 1, "rows": arguments.batch_tokens}
    (translator,) = load_translators(arguments, arguments.model, **options)
    return translator


def check_files(*files: str, output: str | None) -> None:
    """Raise an error for a file that is missing, is the output too, or standard input twice."""
    if files.count(STANDARD_INPUT) > 1:
        raise ValueError("Standard input, -, can be only one of the files.")
    for file in files:
        if file == STANDARD_INPUT:
            if sys.stdin is None:
                raise ValueError("Standard input is closed; name a file, or pipe the text in.")
        elif not Path(file).exists() or Path(file).is_dir():  # it may be a pipe
            raise FileNotFoundError(f"There is no file {file}.")
        elif output is not None and Path(output).exists() and Path(output).samefile(file):
            raise ValueError(f"{output} would overwrite what is read; name another file.")


def lines_of(file: str) -> Iterator[str]:
    """The lines of a file, or of standard input."""
    if file == STANDARD_INPUT:
        return decode_lines(sys.stdin.buffer, name_of(file))
    return read_lines(Path(file))


def name_of(file: str) -> str:
    return "standard input" if file == STANDARD_INPUT else file


def unequal_lengths(short: str, long: str, count: int) -> ValueError:
    """The error for a file that ends after so many lines, while the other goes on."""
    return ValueError(
        f"{name_of(short)} has {count} lines, and {name_of(long)} has more; each line of one needs "
        f"its line in the other."
    )


@contextmanager
def lines_named(source: str, *targets: str) -> Iterator[None]:
    """Errors name the file and the line; several targets were asked for in turn, line by line."""
    from ..translation.pairs import PairError, UnequalLengthError

    try:
        yield
    except PairError as error:
        line, turn = divmod(error.place, len(targets))
        file = source if error.side == "source" else targets[turn]
        raise ValueError(f"{name_of(file)}, line {line + 1}: {error.reason}") from None
    except UnequalLengthError as error:
        files = (source, targets[0]) if error.side == "source" else (targets[0], source)
        raise unequal_lengths(*files, error.count // len(targets)) from None


def write_lines(lines: Iterable[str], path: str | None) -> None:
    """Write lines, each whole or not at all, to a file or standard output."""
    if path is not None:
        with open(path, "wb", buffering=0) as file:
            _write(lines, Output(file))
    elif sys.stdout is None:
        raise ValueError("Standard output is closed; open it, or name a file by --output.")
    else:
        _write(lines, Output(sys.stdout))


def _write(lines: Iterable[str], output: Output) -> None:
    for line in lines:
        output.write(f"{line}\n")
