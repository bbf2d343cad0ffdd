# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf score"""

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .engines import add_length_penalty
from .models import add_weights
from .pair_files import (
    add_pair_options,
    check_files,
    check_pair_options,
    lines_named,
    lines_of,
    load_engine,
    unequal_lengths,
    write_lines,
)


if TYPE_CHECKING:
    from ..translation import TextTranslator


def add_score(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "score",
        help="say how probable given translations are",
        description="Say how probable a model finds target sentences, given their sources: for "
        "each pair a line with the log-probability, the score (the log-probability divided by the "
        "length penalty, as in beam search) and the number of tokens, </s> included. Logarithms "
        "are natural. Standard error tells the perplexity of all.",
    )
    add_pair_options(parser, "tsv")
    add_weights(parser)
    add_length_penalty(parser)
    parser.add_argument(
        "--contrastive",
        metavar="FILE",
        help="wrong targets, one for each source: each line has the scores of the target and of "
        "the wrong one, and standard error tells how often the first is larger",
    )
    parser.set_defaults(run=_score)


def _score(arguments: argparse.Namespace) -> int:
    targets = [arguments.target]
    if arguments.contrastive is not None:
        targets.append(arguments.contrastive)
    check_pair_options(arguments)
    check_files(arguments.source, *targets, output=arguments.output)
    translator = load_engine(arguments)
    summary = Summary()
    with lines_named(arguments.source, *targets):
        write_lines(_lines(arguments, translator, summary), arguments.output)
    print(summary, file=sys.stderr)
    return 0


@dataclass
class Summary:
    """What standard error tells at the end."""

    num_pairs: int = 0
    num_tokens: int = 0
    log_prob: float = 0.0
    num_right: int | None = None

    def add(self, score: Any) -> None:
        self.num_pairs += 1
        self.num_tokens += len(score.ids)
        self.log_prob += score.log_prob

    def __str__(self) -> str:
        if not self.num_pairs:
            return "0 pairs"
        from ..translation.scoring import token_perplexity

        told = (
            f"{self.num_pairs} pairs, {self.num_tokens} target tokens, perplexity "
            f"{token_perplexity(self.log_prob, self.num_tokens):.4f} per token"
        )
        if self.num_right is None:
            return told
        share = 100 * self.num_right / self.num_pairs
        return f"{told}\nscore(right) > score(wrong): {self.num_right} pairs, {share:.2f} %"


def _lines(
    arguments: argparse.Namespace, translator: "TextTranslator", summary: Summary
) -> Iterator[str]:
    options = {
        "length_penalty": arguments.length_penalty,
        "length_penalty_type": arguments.length_penalty_type,
        "chunk_sentences": arguments.chunk_sentences,
    }
    is_tsv = arguments.format == "tsv"
    sources = lines_of(arguments.source)
    if arguments.contrastive is None:
        for score in translator.score(sources, lines_of(arguments.target), **options):
            summary.add(score)
            yield _tsv(score) if is_tsv else _json(_record(score))
        return
    summary.num_right = 0
    targets = _in_turn(arguments.target, arguments.contrastive)
    twice = (source for source in sources for _ in range(2))
    scores = translator.score(twice, targets, **options)
    for right, wrong in zip(scores, scores, strict=True):
        summary.add(right)
        summary.num_right += right.score > wrong.score
        if is_tsv:
            yield f"{right.score:.6f}\t{wrong.score:.6f}"
        else:
            yield _json({"right": _record(right), "wrong": _record(wrong)})


def _in_turn(right: str, wrong: str) -> Iterator[str]:
    """A line of one file, and a line of the other."""
    for count, lines in enumerate(itertools.zip_longest(lines_of(right), lines_of(wrong))):
        if None in lines:
            files = (right, wrong) if lines[0] is None else (wrong, right)
            raise unequal_lengths(*files, count)
        yield from lines


def _tsv(score: Any) -> str:
    return f"{score.log_prob:.6f}\t{score.score:.6f}\t{len(score.ids)}"


def _record(score: Any) -> dict[str, Any]:
    return {
        "log_prob": round(score.log_prob, 6),
        "score": round(score.score, 6),
        "perplexity": round(score.perplexity, 6),
        "tokens": score.tokens,
        "log_probs": [round(log_prob, 6) for log_prob in score.log_probs],
    }


def _json(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False)
