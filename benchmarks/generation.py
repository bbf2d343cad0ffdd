# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/generation.py [--rounds 5] [--threads 2] [--sentences 32] [--tokens 32]

How many tokens a second does `generate()` give, beside the library's Marian of the same shape?

Both have random weights, and every translation has exactly `--tokens` pieces, so that nothing
leaves the batch and both do the same work: `--sentences` sources of `--tokens` pieces without
padding, float32, beam 4 by each formula of the length penalty that a model knows, and greedily.
The contestants run in turn, round after round. Given are the median seconds of a round, generated
tokens a second (one translation a sentence counts), and the ratio of speeds to Marian's.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import logging

from benchmarks.contest import FIRST_PIECE, marian, vaswani
from benchmarks.report import medians, print_table, time_in_turn, write_report
from vaswani_hf import VaswaniConfig


BEAM = {"num_beams": 4, "length_penalty": 0.6, "early_stopping": "never"}
GREEDY = {"num_beams": 1}
MARIAN_BEAM, MARIAN_GREEDY = "Marian, beam 4", "Marian, greedy"
TINY = {"vocab_size": 200, "d_model": 32, "d_ff": 64, "num_heads": 2}


def peers(config: VaswaniConfig) -> tuple[PreTrainedModel, PreTrainedModel]:
    """A model of ours and a Marian of the same shape, each with random weights of its own."""
    return vaswani(config).eval(), marian(config, use_cache=True).eval()


def draw_sources(config: VaswaniConfig, sentences: int, tokens: int) -> Tensor:
    """Source ids `(sentences, tokens)`, none of them special."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(FIRST_PIECE, config.vocab_size, (sentences, tokens), generator=generator)


def generator(model: PreTrainedModel, source: Tensor, tokens: int, **plan: Any) -> Callable:
    """A call that gives every sentence of a source exactly so many tokens."""
    length = {"min_new_tokens": tokens, "max_new_tokens": tokens}
    mask = torch.ones_like(source)

    def call() -> Tensor:
        ids = model.generate(input_ids=source, attention_mask=mask, **length, **plan)
        assert ids.shape == (len(source), 1 + tokens), ids.shape
        return ids

    return call


def table(seconds: dict[str, list[float]], num_tokens: int) -> list[dict[str, Any]]:
    """A row for each call: median, speed and ratio to the Marian that searches as it does."""
    times = medians(seconds)
    rows = []
    for name, median in times.items():
        peer = times[MARIAN_GREEDY if "greedy" in name else MARIAN_BEAM]
        rows.append(
            {
                "call": name,
                "median_seconds": round(median, 3),
                "tokens_per_second": round(num_tokens / median),
                "times_marian": round(peer / median, 2),
            }
        )
    print_table(rows)
    return rows


def main() -> None:
    """Measure, print the table and write it to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sentences", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--tiny", action="store_true", help="a small model, to try the script")
    parser.add_argument("--only", default="", help="calls whose names hold this")
    parser.add_argument("--results", type=Path, help="folder of the report")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    torch.set_num_threads(arguments.threads)
    config = VaswaniConfig(**TINY if arguments.tiny else {})
    ours, peer = peers(config)
    source = draw_sources(config, arguments.sentences, arguments.tokens)

    def call(model: PreTrainedModel, plan: dict[str, Any], **more: Any) -> Callable:
        return generator(model, source, arguments.tokens, **plan, **more)

    calls = {
        MARIAN_BEAM: call(peer, BEAM),
        "vaswani_hf, beam 4": call(ours, BEAM, length_penalty_type="wu"),
        "vaswani_hf, beam 4, n^alpha": call(ours, BEAM, length_penalty_type="power"),
        MARIAN_GREEDY: call(peer, GREEDY),
        "vaswani_hf, greedy": call(ours, GREEDY),
    }
    calls = {
        name: call for name, call in calls.items() if "Marian" in name or arguments.only in name
    }
    for generate in calls.values():
        generate()  # warm
    seconds, _ = time_in_turn(calls, arguments.rounds)
    rows = table(seconds, arguments.sentences * arguments.tokens)
    if not arguments.tiny:
        shape = {name: value for name, value in vars(arguments).items() if name != "results"}
        figures = {"arguments": shape, "rounds": seconds, "rows": rows}
        write_report("generation", figures, arguments.results)


if __name__ == "__main__":
    main()
