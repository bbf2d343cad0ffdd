# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf translate"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ..markup import HTML, MARKUP, PLACEHOLDERS, XLIFF
from ..text.lines import decode_lines, read_lines
from ..text.output import PROGRESS, Output, OutputFile
from ..text.shards import Shard
from ..translation.options import Sampling, check_num_returned
from .engines import (
    CTRANSLATE2,
    CUT,
    REFUSED,
    TRANSFORMERS,
    add_chunks,
    add_engine,
    add_length_limit,
    add_length_penalty,
    add_machine,
    add_num_beams,
    check_counts,
    check_engine,
    load_translators,
    search_options,
)
from .formats import FORMATS, line_of, n_best_of
from .models import add_model_options, add_weights, check_models
from .pair_files import STANDARD_INPUT, unequal_lengths
from .runs import describe_run, folders_of


if TYPE_CHECKING:
    from ..translation import TextTranslator


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
    add_model_options(parser)
    add_weights(parser)
    add_engine(parser)
    add_num_beams(parser)
    add_length_penalty(
        parser,
        ". CTranslate2 always searches by power; with wu its hypotheses are ranked again, and a "
        "few translations in a hundred differ from those of transformers",
    )
    parser.add_argument(
        "--n_best",
        type=int,
        metavar="N",
        help="write N translations of each sentence, the best first, or N samples; of a search at "
        "most as many as there are beams",
    )
    parser.add_argument(
        "--mbr",
        choices=("chrf", "bleu"),
        help="minimum Bayes risk: of the hypotheses of a beam, or of samples, write the one that "
        "is most like the others by this score of sacrebleu (needs the extra `evaluate`)",
    )
    parser.add_argument(
        "--num_candidates",
        type=int,
        metavar="N",
        help="--mbr: of so many (default: as many as there are beams; samples need a number)",
    )
    parser.add_argument(
        "--format",
        choices=(*FORMATS, *MARKUP),
        default="text",
        help="text (the default): a translation a line, with --n_best N lines for each sentence; "
        "tsv: number of the line, rank, score and text of each; jsonl: an object for each "
        "sentence, with its source and its translations, their scores, log-probabilities and "
        "pieces; html and xliff: the input is one document, and so is the output; placeholders: "
        "lines with {name}, %%s, URLs and tags, which stay",
    )
    parser.add_argument(
        "--alignments",
        action="store_true",
        help="jsonl: also which source words the words of each translation come from, such as "
        "`0-0 1-2`",
    )
    parser.add_argument(
        "--prefix",
        metavar="FILE",
        help="what each translation starts with, a line for each line of text, plain or .gz; an "
        "empty line is none",
    )
    parser.add_argument(
        "--sampling_topk",
        type=int,
        metavar="K",
        help="draw each piece among the K most probable ones, 0 for all, in place of a search",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        metavar="T",
        help="--sampling_topk: what logits are divided by (default: 1)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="S",
        help="--sampling_topk: the same seed draws the same translations of a sentence, in any "
        "batch (default: another one each time)",
    )
    add_machine(parser, threads="; with ctranslate2, each translates batches of its own")
    add_chunks(
        parser,
        "sentences that are read, sorted by length and translated",
        "; input typed in a terminal is translated line by line",
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
        help="--split, html, xliff: language of the text, such as en (default: the one that the "
        "model's card translates from)",
    )
    add_length_limit(parser, f"{REFUSED}; --split: {CUT}")
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
    with _source(arguments.file) as source:
        if arguments.prefix is not None:
            _check_prefixes(arguments, source)
        with _open_output(arguments, source) as output:
            name, lines = arguments.file or "standard input", iter(source)
            shard = None if arguments.shard is None else Shard.parse(arguments.shard)
            if shard is not None:
                name, lines = f"{name}, shard {shard}", shard.lines(source)
            if output.is_finished:
                _check_finished(arguments, output, lines)
                return 0
            first, end = output.num_lines, None  # places of lines in the file
            if shard is not None and (arguments.prefix is not None or arguments.format == "tsv"):
                before = shard.num_lines_before(source)
                first, end = first + before, before + sum(1 for _ in shard.lines(source))
            (translator,) = load_translators(
                arguments, arguments.model, is_typed=source.isatty(), **search_options(arguments)
            )
            keep_ends = arguments.split is not None or arguments.format in MARKUP
            texts = decode_lines(lines, name, keep_ends=keep_ends)
            texts = islice(texts, output.num_lines, None)
            options = {
                "sampling_topk": arguments.sampling_topk,
                "temperature": arguments.temperature,
                "seed": arguments.seed,
                # What is typed is answered line by line.
                "chunk_sentences": 1 if source.isatty() else arguments.chunk_sentences,
                "progress": sys.stderr.isatty() and not source.isatty(),
            }
            if arguments.prefix is not None:
                options["prefixes"] = islice(read_lines(Path(arguments.prefix)), first, end)
            _write_translations(arguments, translator, texts, name, first + 1, output, options)
    return 0


def _write_translations(
    arguments: argparse.Namespace,
    translator: "TextTranslator",
    texts: Iterator[str],
    name: str,
    first: int,
    output: Output,
    options: dict[str, Any],
) -> None:
    """Translate texts, the first of which is line `first` of the file, counted from 1."""
    from ..translation import LongTextError

    if arguments.format in (HTML, XLIFF):
        texts = iter(["".join(texts)])
    elif arguments.split is not None and arguments.format != PLACEHOLDERS:
        for translation in translator.translate_texts(
            texts, language=arguments.language, **options
        ):
            output.write(translation)
        return
    try:
        if arguments.format in MARKUP:
            options |= {"split": arguments.split, "language": arguments.language}
            for document in translator.translate_markup(texts, arguments.format, **options):
                output.write(document)
            return
        if arguments.mbr is not None:
            options |= {"utility": arguments.mbr, "num_candidates": arguments.num_candidates}
        elif arguments.n_best is None and arguments.format == "text":
            for translation in translator.stream(texts, **options):
                output.write(line_of(translation))
            return
        else:
            options["num_return_sequences"] = arguments.n_best or 1
        for found in n_best_of(translator, texts, alignments=arguments.alignments, **options):
            output.write(FORMATS[arguments.format](found, first))
            first += 1
    except LongTextError as error:
        line = output.num_lines + error.place + 1
        raise ValueError(f"{name}, line {line}: {error}") from None


def _check_prefixes(arguments: argparse.Namespace, source: BinaryIO) -> None:
    """Refuse another number of prefixes than of lines, where these can be counted."""
    prefixes = Path(arguments.prefix)
    if not prefixes.is_file():
        raise FileNotFoundError(f"There is no file {prefixes}.")
    if not source.seekable():
        return
    num_lines, num_prefixes = sum(1 for _ in source), sum(1 for _ in read_lines(prefixes))
    source.seek(0)
    names = [arguments.file or STANDARD_INPUT, arguments.prefix]
    if num_prefixes < num_lines:
        names.reverse()
    if num_prefixes != num_lines:
        raise unequal_lengths(names[0], names[1], min(num_lines, num_prefixes))


def _check_options(arguments: argparse.Namespace) -> None:
    check_models(arguments)
    check_engine(arguments)
    check_counts(arguments, "n_best", "num_candidates")
    _check_search(arguments)
    is_split = arguments.split is not None or arguments.format in (HTML, XLIFF)
    if not is_split and arguments.language is not None:
        raise ValueError("--language is for --split sentences, --format html and xliff only.")
    if arguments.resume and (arguments.output is None or arguments.file in (None, "-")):
        raise ValueError("--resume needs --output OUTPUT and a FILE to translate.")
    if arguments.shard is not None and arguments.file in (None, "-"):
        raise ValueError("--shard needs a FILE to translate.")
    if sys.stdout is None and arguments.output is None:
        raise ValueError("Standard output is closed; open it to receive the translations.")


def _check_search(arguments: argparse.Namespace) -> None:
    """Refuse what does not go together of searches, samples and formats."""
    sampling = Sampling.make(arguments.sampling_topk, arguments.temperature, arguments.seed)
    if sampling is not None:
        if arguments.num_beams is not None:
            raise ValueError("--sampling_topk has no beams; leave out --num_beams or it.")
        if arguments.seed is not None and arguments.engine == CTRANSLATE2:
            raise ValueError(
                "--seed is for --engine transformers only: samples of CTranslate2 depend on its "
                "threads and batches."
            )
        if arguments.resume and arguments.seed is None:
            raise ValueError("--resume needs --seed, to draw the rest as the same run would.")
    elif arguments.num_beams is not None:
        for name in ("n_best", "num_candidates"):
            if getattr(arguments, name) is not None:
                count = getattr(arguments, name)
                check_num_returned(count, arguments.num_beams, f"--{name}", "--num_beams")
    _check_mbr(arguments)
    if arguments.split is not None:
        for name in ("n_best", "prefix", "mbr"):
            if getattr(arguments, name) is not None:
                raise ValueError(f"--{name} is for a sentence a line; leave out --split or it.")
        if arguments.format not in ("text", *MARKUP):
            raise ValueError("--format is for a sentence a line; leave out --split or it.")
    if arguments.format in MARKUP:
        for name in ("n_best", "mbr", "prefix", "shard", "resume"):
            if getattr(arguments, name):
                raise ValueError(
                    f"--format {arguments.format} writes one translation of the whole input; leave "
                    f"out --{name}, or translate text without markup."
                )
    if arguments.alignments:
        if arguments.format != "jsonl":
            raise ValueError("--alignments is for --format jsonl only.")
        if arguments.engine == CTRANSLATE2:
            raise ValueError(
                "--alignments is for --engine transformers only: CTranslate2 does not tell where "
                "the heads of a model look."
            )
        if arguments.resume or arguments.shard is not None:
            raise ValueError(
                "--alignments chooses a head by the first sentences, which a part of them may not "
                "do: leave out --resume and --shard, or align the translations by vaswani-hf align."
            )


def _check_mbr(arguments: argparse.Namespace) -> None:
    if arguments.mbr is None:
        if arguments.num_candidates is not None:
            raise ValueError("--num_candidates is for --mbr only.")
    elif arguments.n_best is not None:
        raise ValueError("--mbr writes one translation of each sentence; leave out --n_best or it.")
    elif arguments.sampling_topk is not None and arguments.num_candidates is None:
        raise ValueError("--mbr needs --num_candidates, how many samples to draw of a sentence.")


def _open_output(arguments: argparse.Namespace, source: BinaryIO) -> Output:
    """Standard output, or a file that says which run has written it."""
    if arguments.output is None:
        return Output(sys.stdout)
    folders = list(map(Path, arguments.model))
    if arguments.engine == TRANSFORMERS:
        from ..hub.download import find

        folders = folders_of(arguments.model, arguments.revision)
        if arguments.adapter is not None:
            folders.append(find(arguments.adapter))
    files = {"input": os.fstat(source.fileno())}
    if arguments.prefix is not None:
        files["prefix"] = os.stat(arguments.prefix)
    output = Path(arguments.output)
    run = describe_run(arguments, folders, output, **files)
    num_each = arguments.n_best or 1 if arguments.format != "jsonl" else 1
    return OutputFile(output, run, resume=arguments.resume, num_each=num_each)


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


def _source(file: str | None) -> BinaryIO:
    if file not in (None, "-"):
        return open(str(file), "rb")
    if sys.stdin is None:
        raise ValueError("Standard input is closed; name a FILE, or pipe the text in.")
    return sys.stdin.buffer
