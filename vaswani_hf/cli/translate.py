# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf translate"""

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ..hub.names import check_name
from ..processor import available_cores, paying_threads, threads_of_environment
from ..text.lines import decode_lines
from ..text.output import PROGRESS, Output, OutputFile
from ..text.shards import Shard
from ..translation.options import check_at_least, check_search_options
from .runs import describe_run


if TYPE_CHECKING:
    from ..translation import TextTranslator, Translator


CTRANSLATE2_OPTIONS = ("compute_type",)


def add_translate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "translate",
        help="translate text, one sentence per line or split into sentences",
        description="Translate text, one sentence per line, from a file or standard input to "
        "standard output. Empty lines stay empty. With --split sentences a line may hold any "
        "number of sentences, and what stands between them stays as it is.",
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
    parser.add_argument(
        "--split",
        choices=("sentences",),
        help="split the text into sentences; line breaks and all other white space between them "
        "stay (needs the extra `sentences`)",
    )
    parser.add_argument(
        "--language",
        metavar="CODE",
        help="--split: language of the text, such as en (default: the one that the model's card "
        "translates from)",
    )
    parser.add_argument(
        "--max_source_tokens",
        type=int,
        metavar="N",
        help="--split: longer sentences are cut at clauses, </s> included (default: the longest "
        "that the model was trained with, or 256 if its tokenizer does not say)",
    )
    parser.add_argument(
        "--shard",
        metavar="I/N",
        help="translate part I of FILE, cut into N of about the same size between lines",
    )
    parser.add_argument("--output", metavar="OUTPUT", help="write to this file, which must be new")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with an OUTPUT that the same command has left unfinished, at its next line; "
        "begin it if it is missing",
    )
    parser.set_defaults(run=_translate)


def _translate(arguments: argparse.Namespace) -> int:
    _check_options(arguments)
    with _source(arguments.file) as source, _open_output(arguments, source) as output:
        name = arguments.file or "standard input"
        lines: Iterable[bytes] = source
        if arguments.shard is not None:
            shard = Shard.parse(arguments.shard)
            lines, name = shard.lines(source), f"{name}, shard {shard}"
        if output.is_finished:
            _check_finished(arguments, output, lines)
            return 0
        translator = _load_translator(arguments, is_typed=source.isatty())
        texts = decode_lines(lines, name, keep_ends=arguments.split is not None)
        texts = itertools.islice(texts, output.num_lines, None)
        # What is typed is answered line by line.
        size = 1 if source.isatty() else arguments.chunk_sentences
        progress = sys.stderr.isatty() and not source.isatty()
        if arguments.split is None:
            _write_translations(translator, texts, name, size, output, progress=progress)
        else:
            for translation in translator.translate_texts(
                texts,
                language=arguments.language,
                max_source_tokens=arguments.max_source_tokens,
                chunk_sentences=size,
                progress=progress,
            ):
                output.write(translation)
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
    check_at_least(1, batch_tokens=arguments.batch_tokens)
    check_search_options(
        arguments.num_beams, arguments.length_penalty, arguments.length_penalty_type
    )
    if arguments.split is None:
        for name in ("language", "max_source_tokens"):
            if getattr(arguments, name) is not None:
                raise ValueError(f"--{name} is for --split sentences only.")
    if arguments.resume and (arguments.output is None or arguments.file in (None, "-")):
        raise ValueError("--resume needs --output OUTPUT and a FILE to translate.")
    if arguments.shard is not None and arguments.file in (None, "-"):
        raise ValueError("--shard needs a FILE to translate.")
    if sys.stdout is None and arguments.output is None:
        raise ValueError("Standard output is closed; open it to receive the translations.")
    if arguments.engine == "transformers":
        check_name(arguments.model, arguments.revision)


def _load_translator(arguments: argparse.Namespace, *, is_typed: bool) -> "TextTranslator":
    names = ("device", "num_beams", "length_penalty", "length_penalty_type", "batch_tokens")
    options = {name: getattr(arguments, name) for name in names}
    is_fast = arguments.engine == "ctranslate2"
    for name in (*CTRANSLATE2_OPTIONS, "threads") if is_fast else ("revision",):
        if getattr(arguments, name) is not None:
            options[name] = getattr(arguments, name)
    # Each engine loads what it needs, and CTranslate2 neither torch nor transformers.
    if is_fast:
        from ..translation import CTranslate2Translator

        return CTranslate2Translator(arguments.model, **options)
    from transformers.utils import logging

    from ..translation import Translator

    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    translator = Translator.from_pretrained(arguments.model, **options)
    take_threads(translator, arguments.threads, is_typed=is_typed)
    return translator


def _open_output(arguments: argparse.Namespace, source: BinaryIO) -> Output:
    """Standard output, or a file that says which run has written it."""
    if arguments.output is None:
        return Output(sys.stdout)
    folder = Path(arguments.model)
    if arguments.engine == "transformers":
        from ..hub.download import find

        folder = find(arguments.model, revision=arguments.revision)
    run = describe_run(arguments, folder, source)
    return OutputFile(Path(arguments.output), run, resume=arguments.resume)


def _check_finished(arguments: argparse.Namespace, output: Output, lines: Iterable[bytes]) -> None:
    """Refuse a file that is not a whole translation, as far as its lines tell."""
    is_split = arguments.split is not None
    num_lines = sum(1 for line in lines if line.endswith(b"\n") or not is_split)
    if output.num_lines != num_lines:
        raise ValueError(
            f"{arguments.output} is no output that can be resumed: it has no {PROGRESS} beside it, "
            f"and {output.num_lines} lines where the input has {num_lines}; delete it, or name "
            f"another file."
        )
    print(f"vaswani-hf: {arguments.output} is finished; nothing is left to do.", file=sys.stderr)


def take_threads(translator: "Translator", threads: int | None, *, is_typed: bool) -> None:
    """Let torch compute by as many threads as pay for the model, and say so."""
    import torch

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
    translator: "TextTranslator",
    lines: Iterator[str],
    name: str,
    chunk_size: int,
    output: Output,
    *,
    progress: bool,
) -> None:
    from ..translation import LongSourceError

    translations = translator.stream(lines, chunk_sentences=chunk_size, progress=progress)
    try:
        for translation in translations:
            output.write(" ".join(translation.splitlines()) + "\n")
    except LongSourceError as error:
        line = output.num_lines + error.place + 1
        raise ValueError(f"{name}, line {line}: {error}") from None


def _source(file: str | None) -> BinaryIO:
    if file not in (None, "-"):
        return open(str(file), "rb")
    if sys.stdin is None:
        raise ValueError("Standard input is closed; name a FILE, or pipe the text in.")
    return sys.stdin.buffer
