# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf translate"""

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import torch
from transformers.utils import logging

from ..processor import available_cores, paying_threads, threads_of_environment
from ..text.lines import decode_lines
from ..translation import CTranslate2Translator, LongSourceError, TextTranslator, Translator


CTRANSLATE2_OPTIONS = ("compute_type",)


def add_translate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "translate",
        help="translate text, one sentence per line",
        description="Translate text, one sentence per line, from a file or standard input to "
        "standard output. Empty lines stay empty.",
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="text to translate (default: standard input)"
    )
    parser.add_argument(
        "--model",
        required=True,
        metavar="FOLDER",
        help="a folder or a Hub id; with --engine ctranslate2, a folder of CTranslate2",
    )
    parser.add_argument(
        "--revision", metavar="REVISION", help="branch, tag or commit of a Hub id (default: main)"
    )
    parser.add_argument(
        "--engine",
        choices=("transformers", "ctranslate2"),
        default="transformers",
        help="transformers (the default), or CTranslate2, which is faster and reads folders of "
        "`vaswani-hf convert --to ctranslate2`",
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
        "--length_penalty_type",
        choices=("wu", "power"),
        help="for n tokens: wu is ((5 + n) / 6)^ALPHA, power is n^ALPHA (default: the model's). "
        "CTranslate2 always searches by power; with wu its hypotheses are ranked again, and a few "
        "translations in a hundred differ from those of transformers",
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
        help="sentences that are read, sorted by length and translated together (default: 10000); "
        "input typed in a terminal is translated line by line",
    )
    parser.add_argument("--device", help="such as cpu or cuda (default: a GPU if there is one)")
    parser.add_argument(
        "--compute_type",
        metavar="TYPE",
        help="ctranslate2: type of the computation, such as int8 or float32 (default: the folder's "
        "quantization)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="number of CPU threads; with ctranslate2, each translates batches of its own "
        "(default: OMP_NUM_THREADS, or as many as there are cores and as pay for the model's size)",
    )
    parser.set_defaults(run=_translate)


def _translate(arguments: argparse.Namespace) -> int:
    _check_options(arguments)
    with _source(arguments.file) as source:
        translator = _load_translator(arguments)
        if isinstance(translator, Translator):
            _take_threads(translator, arguments.threads, is_typed=source.isatty())
        # What is typed is answered line by line.
        size = 1 if source.isatty() else arguments.chunk_sentences
        progress = sys.stderr.isatty() and not source.isatty()
        _write_translations(
            translator, source, arguments.file or "standard input", size, progress=progress
        )
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    if arguments.chunk_sentences < 1:
        raise ValueError(f"--chunk_sentences must be at least 1, got {arguments.chunk_sentences}.")
    if arguments.threads is not None and arguments.threads < 1:
        raise ValueError(f"--threads must be at least 1, got {arguments.threads}.")
    if arguments.revision is not None and arguments.engine == "ctranslate2":
        raise ValueError("--revision is for --engine transformers only.")
    for name in CTRANSLATE2_OPTIONS:
        if getattr(arguments, name) is not None and arguments.engine != "ctranslate2":
            raise ValueError(f"--{name} is for --engine ctranslate2 only.")
    if sys.stdout is None:
        raise ValueError("Standard output is closed; open it to receive the translations.")


def _load_translator(arguments: argparse.Namespace) -> TextTranslator:
    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    names = ("device", "num_beams", "length_penalty", "length_penalty_type", "batch_tokens")
    options = {name: getattr(arguments, name) for name in names}
    is_fast = arguments.engine == "ctranslate2"
    for name in (*CTRANSLATE2_OPTIONS, "threads") if is_fast else ("revision",):
        if getattr(arguments, name) is not None:
            options[name] = getattr(arguments, name)
    engine = CTranslate2Translator if is_fast else Translator
    return engine.from_pretrained(arguments.model, **options)


def _take_threads(translator: Translator, threads: int | None, *, is_typed: bool) -> None:
    """Let torch compute by as many threads as pay for the model, and say so."""
    model = translator.model
    if threads is None and model.device.type != "cpu":
        return
    cores = available_cores()
    threads = threads or threads_of_environment()
    if threads is None:
        sentences = 1 if is_typed else translator.max_batch_sentences
        rows = sentences * translator.num_beams
        width = getattr(model.config, "hidden_size", None)  # which the library lets a model lack
        threads = paying_threads(rows, width, cores) if width else cores
    torch.set_num_threads(threads)
    if sys.stderr.isatty():  # as the progress bar; what is kept in a file is for errors
        print(f"vaswani-hf: CPU threads: {threads}; cores: {cores}.", file=sys.stderr)


def _write_translations(
    translator: TextTranslator, source: BinaryIO, name: str, chunk_size: int, *, progress: bool
) -> None:
    num_done = 0
    with open(sys.stdout.fileno(), "w", encoding="utf-8", newline="\n", closefd=False) as output:
        for chunk in _chunks(decode_lines(source, name), chunk_size):
            try:
                translations = translator(chunk, progress=progress)
            except LongSourceError as error:
                where = f"{name}, line {num_done + error.place + 1}"
                raise ValueError(f"{where}: {error}") from None
            for translation in translations:
                output.write(" ".join(translation.splitlines()) + "\n")
            output.flush()
            num_done += len(chunk)


def _source(file: str | None) -> BinaryIO:
    if file not in (None, "-"):
        return open(str(file), "rb")
    if sys.stdin is None:
        raise ValueError("Standard input is closed; name a FILE, or pipe the text in.")
    return sys.stdin.buffer


def _chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
