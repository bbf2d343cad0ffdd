# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf translate"""

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from ..text.lines import decode_lines


def add_translate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "translate",
        help="translate text, a sentence a line",
        description="Translate a sentence a line, from a file or standard input to standard "
        "output. An empty line stays empty.",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="text to translate; else stdin")
    parser.add_argument(
        "--model",
        required=True,
        metavar="FOLDER",
        help="a folder or a Hub id; with --engine ctranslate2 a folder of its own format",
    )
    parser.add_argument(
        "--revision", metavar="REVISION", help="branch, tag or commit of a Hub id; else main"
    )
    parser.add_argument(
        "--engine",
        choices=("transformers", "ctranslate2"),
        default="transformers",
        help="what computes: transformers, the default, or CTranslate2, which is faster and reads "
        "what `vaswani-hf convert --to ctranslate2` writes",
    )
    parser.add_argument("--num_beams", type=int, metavar="N", help="beam width; else the model's")
    parser.add_argument("--length_penalty", type=float, metavar="ALPHA", help="else the model's")
    parser.add_argument(
        "--length_penalty_type",
        choices=("wu", "power"),
        help="of n tokens: wu is ((5 + n) / 6)^ALPHA, power is n^ALPHA; else the model's. "
        "CTranslate2 searches by power alone; what it finds is ranked again by wu, and a few "
        "translations in a hundred differ from those of transformers",
    )
    parser.add_argument(
        "--batch_tokens", type=int, default=4096, metavar="N", help="padded source tokens a batch"
    )
    parser.add_argument(
        "--chunk_sentences",
        type=int,
        default=10_000,
        metavar="N",
        help="sentences that are read, sorted by length and translated before the next are read; "
        "what is typed in a terminal is translated line by line",
    )
    parser.add_argument("--device", help="such as cpu or cuda; else a GPU where there is one")
    parser.add_argument(
        "--compute_type",
        metavar="TYPE",
        help="ctranslate2: what it computes in, such as int8 or float32; else as the folder is "
        "quantized",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="ctranslate2: CPU threads")
    parser.set_defaults(run=_translate)


def _translate(arguments: argparse.Namespace) -> int:
    if arguments.chunk_sentences < 1:
        raise ValueError(f"--chunk_sentences must be at least 1, got {arguments.chunk_sentences}.")
    if arguments.revision is not None and arguments.engine == "ctranslate2":
        raise ValueError("--revision is for --engine transformers only.")
    of_ctranslate2 = {
        name: getattr(arguments, name)
        for name in ("compute_type", "threads")
        if getattr(arguments, name) is not None
    }
    if of_ctranslate2 and arguments.engine != "ctranslate2":
        raise ValueError(f"--{next(iter(of_ctranslate2))} is for --engine ctranslate2 only.")
    if sys.stdout is None:
        raise ValueError("Standard output is closed, so that translations have nowhere to go.")
    with _source(arguments.file) as source:
        # The heavy imports come after the file is open: a wrong name is told at once.
        from transformers.utils import logging

        from ..translation.ctranslate2 import CTranslate2Translator
        from ..translation.translator import LongSourceError, Translator

        if not sys.stderr.isatty():
            logging.disable_progress_bar()
        kind = Translator if arguments.engine == "transformers" else CTranslate2Translator
        of_hub = {} if arguments.revision is None else {"revision": arguments.revision}
        translator = kind.from_pretrained(
            arguments.model,
            device=arguments.device,
            num_beams=arguments.num_beams,
            length_penalty=arguments.length_penalty,
            length_penalty_type=arguments.length_penalty_type,
            batch_tokens=arguments.batch_tokens,
            **of_hub,
            **of_ctranslate2,
        )
        name = arguments.file or "standard input"
        is_typed = source.isatty()  # and then each line is answered before the next
        size = 1 if is_typed else arguments.chunk_sentences
        is_shown, num_done = sys.stderr.isatty() and not is_typed, 0
        with open(
            sys.stdout.fileno(), "w", encoding="utf-8", newline="\n", closefd=False
        ) as output:
            for chunk in _chunks(decode_lines(source, name), size):
                try:
                    translations = translator(chunk, progress=is_shown)
                except LongSourceError as error:
                    where = f"{name}, line {num_done + error.place + 1}"
                    raise ValueError(f"{where}: {error}") from None
                for translation in translations:
                    output.write(" ".join(translation.splitlines()) + "\n")
                output.flush()
                num_done += len(chunk)
    return 0


def _source(file: str | None) -> BinaryIO:
    if file not in (None, "-"):
        return open(str(file), "rb")
    if sys.stdin is None:
        raise ValueError("Standard input is closed: name a FILE, or send the text in by a pipe.")
    return sys.stdin.buffer


def _chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
