# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf evaluate"""

import argparse
import dataclasses
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..evaluation import (
    Metric,
    Score,
    count_copied,
    count_empty,
    count_tokens,
    scores_by_length,
)
from ..evaluation.metrics import METRICS
from ..evaluation.resampling import NUM_RESAMPLES
from ..text.lines import decode_lines, read_lines
from ..text.tables import align


logger = logging.getLogger(__name__)
NUM_TOKENISED = 100  # lines that end as tokenised ones do, from which on sacrebleu warns


def add_evaluate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "evaluate",
        help="score translations by BLEU, chrF++ and TER",
        description="Score translations, a sentence a line, by sacrebleu: BLEU, chrF++ and TER, "
        f"with their signatures and 95 %% confidence from {NUM_RESAMPLES} bootstrap resamples.",
    )
    parser.add_argument(
        "--hypotheses",
        required=True,
        metavar="FILE",
        help="the translations, plain or .gz; - for standard input",
    )
    add_judging_options(parser)
    parser.add_argument(
        "--sources",
        metavar="FILE",
        help="what was translated; adds scores by source length, and how many outputs are empty "
        "or copies of their source",
    )
    parser.set_defaults(run=_evaluate)


def add_judging_options(parser: argparse.ArgumentParser) -> None:
    """The options that commands which score text have in common."""
    parser.add_argument(
        "--references",
        required=True,
        nargs="+",
        metavar="FILE",
        help="human translations; several files are several references for each sentence",
    )
    parser.add_argument(
        "--metrics",
        nargs="+",
        choices=METRICS,
        default=METRICS,
        help=f"which of {', '.join(METRICS)} (default: all)",
    )
    parser.add_argument(
        "--tokenize",
        default="13a",
        metavar="NAME",
        help="sacrebleu's tokenizer for BLEU, or moses-LANGUAGE; none for text that is tokenised "
        "(default: 13a)",
    )
    parser.add_argument(
        "--lowercase", action="store_true", help="let case count for nothing in BLEU and chrF++"
    )
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="text for readers (the default), or json with every digit",
    )


def metrics_of(arguments: argparse.Namespace) -> list[Metric]:
    """The metrics that were asked for, each once."""
    return [
        Metric(name, tokenize=arguments.tokenize, lowercase=arguments.lowercase)
        for name in dict.fromkeys(arguments.metrics)
    ]


def read_parallel(names: Sequence[str]) -> list[list[str]]:
    """The lines of files that have a line for each sentence.

    Raises:
        ValueError: if a file is empty, or has not as many lines as the others.
    """
    texts = [list(_lines(name)) for name in names]
    if not any(texts):
        raise ValueError(f"There is nothing to judge: {names[0]} has no lines.")
    if len(set(map(len, texts))) > 1:
        counts = (f"{name} has {len(text)}" for name, text in zip(names, texts, strict=True))
        raise ValueError(
            f"Files must have equally many lines, one for each sentence: {', '.join(counts)}."
        )
    return texts


def _lines(name: str) -> Iterator[str]:
    if name != "-":
        return read_lines(Path(name))
    if sys.stdin is None:
        raise ValueError("Standard input is closed; name a FILE, or pipe the text in.")
    return decode_lines(sys.stdin.buffer, "standard input")


def warn_of_tokens(name: str, text: Sequence[str], tokenize: str) -> None:
    """Warn where a text looks tokenised, which makes its scores better than they are."""
    found = sum(line.endswith(" .") for line in text)
    if found >= NUM_TOKENISED and tokenize != "none":
        logger.warning(
            "%d lines of %s end in a full stop with a space before it. Tokenised text has other "
            "scores than the sentences themselves: detokenise it, or say `--tokenize none`.",
            *(found, name),
        )


def number_of(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _evaluate(arguments: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.WARNING, format="vaswani-hf: %(message)s")
    metrics = metrics_of(arguments)
    names = [arguments.hypotheses, *arguments.references]
    names += [arguments.sources] if arguments.sources else []
    hypotheses, *others = read_parallel(names)
    references = others[: len(arguments.references)]
    warn_of_tokens(arguments.hypotheses, hypotheses, arguments.tokenize)
    statistics = {metric: metric.statistics(hypotheses, references) for metric in metrics}
    scores = {metric.name: metric.score(rows, NUM_RESAMPLES) for metric, rows in statistics.items()}
    found: dict[str, Any] = {"sentences": len(hypotheses), "scores": scores}
    if arguments.sources:
        sources = others[-1]
        lengths = count_tokens(sources, arguments.tokenize)
        found |= {
            "by_source_tokens": scores_by_length(lengths, statistics),
            "empty": count_empty(hypotheses, sources),
            "copied": count_copied(hypotheses, sources),
        }
    if arguments.format == "json":
        print(as_json(found), flush=True)
    else:
        print("\n\n".join(_paragraphs(found, len(references))), flush=True)
    return 0


def as_json(found: dict[str, Any]) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False, default=dataclasses.asdict)


def _paragraphs(found: dict[str, Any], num_references: int) -> list[str]:
    scores: dict[str, Score] = found["scores"]
    sentences = number_of(found["sentences"], "sentence")
    rows = [["Metric", "Score", "95 % confidence", "Signature"]]
    rows += [
        [one.name, f"{one.score:6.2f}", f"{one.mean:6.2f} ± {one.ci:.2f}", one.signature]
        for one in scores.values()
    ]
    paragraphs = [f"{sentences}, {number_of(num_references, 'reference')}", align(rows)]
    if "bleu" in scores:
        details = scores["bleu"].details
        precisions = "/".join(f"{precision:.1f}" for precision in details["precisions"])
        paragraphs.append(
            f"BLEU: precisions {precisions}, brevity penalty {details['bp']:.3f}, "
            f"{details['sys_len']} tokens for {details['ref_len']} of the references"
        )
    if "by_source_tokens" in found:
        rows = [["Source tokens", "Sentences", *(one.name for one in scores.values())]]
        for one in found["by_source_tokens"]:
            limit = f"{one.min_tokens} or more"
            if one.max_tokens is not None:
                limit = f"{one.min_tokens} to {one.max_tokens}"
            figures = [f"{figure:6.2f}" for figure in one.scores.values()]
            rows.append([limit, str(one.sentences), *figures])
        paragraphs.append(align(rows))
        paragraphs.append(
            f"{number_of(found['empty'], 'empty output')}, "
            f"{found['copied']} that {'is its' if found['copied'] == 1 else 'are their'} source"
        )
    return paragraphs
