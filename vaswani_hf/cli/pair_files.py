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
from ..translation.options import check_at_least
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
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}",
            required=True,
            metavar="FILE",
            help=f"{side} sentences, one per line, plain or .gz; - for standard input",
        )
    parser.add_argument(
        "--output", metavar="FILE", help="where the lines go (default: standard output)"
    )
    parser.add_argument(
        "--format",
        choices=(text_format, "jsonl"),
        default=text_format,
        help=f"{text_format} (the default), or a JSON object a line, which says more",
    )
    parser.add_argument(
        "--engine",
        choices=("transformers", "ctranslate2"),
        default="transformers",
        help="transformers (the default) or CTranslate2",
    )
    parser.add_argument(
        "--batch_tokens",
        type=int,
        default=4096,
        metavar="N",
        help="most padded tokens of a batch on each side (default: 4096)",
    )
    parser.add_argument(
        "--chunk_sentences",
        type=int,
        default=10_000,
        metavar="N",
        help="pairs that are read, sorted by length and answered together (default: 10000)",
    )
    parser.add_argument("--device", help="such as cpu or cuda (default: a GPU if there is one)")
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="number of CPU threads (default: OMP_NUM_THREADS, or as many as there are cores)",
    )


def check_pair_options(arguments: argparse.Namespace) -> None:
    """Raise a `ValueError` for what needs no model to be refused."""
    check_at_least(
        1,
        batch_tokens=arguments.batch_tokens,
        chunk_sentences=arguments.chunk_sentences,
        threads=arguments.threads,
    )
    if "," in (arguments.device or ""):
        raise ValueError(f"--device must be one device here, got {arguments.device}.")
    check_models(arguments)


def load_engine(arguments: argparse.Namespace) -> "TextTranslator":
    """The translator that the options name."""
    options = {"device": arguments.device, "batch_tokens": arguments.batch_tokens}
    if arguments.engine == "ctranslate2":
        from ..translation import CTranslate2Translator

        # Nothing is searched: with more beams it would warn of how it ranks.
        return CTranslate2Translator(
            arguments.model[0], num_beams=1, threads=arguments.threads, **options
        )
    if arguments.threads is not None:
        import torch

        torch.set_num_threads(arguments.threads)
    from transformers.utils import logging

    from ..translation import Translator

    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    options |= {name: getattr(arguments, name, None) for name in ("revision", "weights")}
    return Translator.from_pretrained(arguments.model, **options)


def check_files(*files: str, output: str | None) -> None:
    """Raise an error for a file that is missing, is the output too, or standard input twice."""
    if files.count(STANDARD_INPUT) > 1:
        raise ValueError("Standard input, -, can be only one of the files.")
    for file in files:
        if file == STANDARD_INPUT:
            if sys.stdin is None:
                raise ValueError("Standard input is closed; name a file, or pipe the text in.")
        elif not Path(file).is_file():
            raise FileNotFoundError(f"There is no file {file}.")
        elif output is not None and Path(output).exists() and Path(output).samefile(file):
            raise ValueError(f"--output {output} would overwrite what is read; name another file.")


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
