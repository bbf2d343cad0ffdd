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
import gc
import json
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel, PreTrainedModel
from transformers.utils import logging

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


BEAM = {"num_beams": 4, "length_penalty": 0.6, "early_stopping": "never"}
GREEDY = {"num_beams": 1}
MARIAN_BEAM, MARIAN_GREEDY = "Marian, beam 4", "Marian, greedy"
TINY = {"vocab_size": 200, "d_model": 32, "d_ff": 64, "num_heads": 2}


def peers(config: VaswaniConfig) -> tuple[VaswaniForConditionalGeneration, MarianMTModel]:
    """A model of ours and a Marian of the same shape, each with random weights of its own."""
    torch.manual_seed(0)
    same = {
        name: getattr(config, name)
        for name in ("vocab_size", "d_model", "encoder_layers", "decoder_layers", "pad_token_id")
    }
    marian = MarianConfig(
        **same,
        encoder_ffn_dim=config.d_ff,
        decoder_ffn_dim=config.d_ff,
        encoder_attention_heads=config.num_heads,
        decoder_attention_heads=config.num_heads,
        activation_function="relu",
        scale_embedding=True,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
        forced_eos_token_id=None,
    )
    return VaswaniForConditionalGeneration(config).eval(), MarianMTModel(marian).eval()


def draw_sources(config: VaswaniConfig, sentences: int, tokens: int) -> Tensor:
    """Source ids `(sentences, tokens)`, none of them special."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(3, config.vocab_size, (sentences, tokens), generator=generator)


def generator(model: PreTrainedModel, source: Tensor, tokens: int, **plan: Any) -> Callable:
    """A call that gives every sentence of a source exactly so many tokens."""
    length = {"min_new_tokens": tokens, "max_new_tokens": tokens}
    mask = torch.ones_like(source)

    def call() -> Tensor:
        ids = model.generate(input_ids=source, attention_mask=mask, **length, **plan)
        assert ids.shape == (len(source), 1 + tokens), ids.shape
        return ids

    return call


def measure(calls: dict[str, Callable], rounds: int, wait: Callable) -> dict[str, list[float]]:
    """Seconds of each call, in turn, round after round; `wait` returns when the device is idle."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()  # warm
    for number in range(rounds):
        for name, call in calls.items():
            gc.collect()
            wait()
            begun = time.perf_counter()
            call()
            wait()
            seconds[name].append(time.perf_counter() - begun)
        last = {name: round(times[-1], 3) for name, times in seconds.items()}
        print(f"round {number + 1}: {last}", flush=True)
    return seconds


def table(seconds: dict[str, list[float]], num_tokens: int) -> list[dict[str, Any]]:
    """A row for each call: median, speed and ratio to the Marian that searches as it does."""
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    rows = []
    for name, median in medians.items():
        peer = medians[MARIAN_GREEDY if "greedy" in name else MARIAN_BEAM]
        rows.append(
            {
                "call": name,
                "median_seconds": round(median, 3),
                "tokens_per_second": round(num_tokens / median),
                "times_marian": round(peer / median, 2),
            }
        )
        print(rows[-1])
    return rows


def write(name: str, report: dict[str, Any], *packages: str) -> None:
    """Put a report into `results/`, with the date, the machine and the versions of packages."""
    date = datetime.now(UTC).date().isoformat()
    about = {
        "date": date,
        "machine": platform.machine(),
        "versions": {package: version(package) for package in ("torch", "transformers", *packages)},
    }
    path = Path(__file__).parent / "results" / f"{date}-{name}.json"
    path.write_text(json.dumps(about | report, indent=1) + "\n", encoding="utf-8")
    print(f"Wrote {path}.")


def main() -> None:
    """Measure, print the table and write it to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sentences", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--tiny", action="store_true", help="a small model, to try the script")
    parser.add_argument("--only", default="", help="calls whose names hold this")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    torch.set_num_threads(arguments.threads)
    config = VaswaniConfig(**TINY if arguments.tiny else {})
    ours, marian = peers(config)
    source = draw_sources(config, arguments.sentences, arguments.tokens)

    def call(model: PreTrainedModel, plan: dict[str, Any], **more: Any) -> Callable:
        return generator(model, source, arguments.tokens, **plan, **more)

    calls = {
        MARIAN_BEAM: call(marian, BEAM),
        "vaswani_hf, beam 4": call(ours, BEAM, length_penalty_type="wu"),
        "vaswani_hf, beam 4, n^alpha": call(ours, BEAM, length_penalty_type="power"),
        MARIAN_GREEDY: call(marian, GREEDY),
        "vaswani_hf, greedy": call(ours, GREEDY),
    }
    calls = {
        name: call for name, call in calls.items() if "Marian" in name or arguments.only in name
    }
    seconds = measure(calls, arguments.rounds, lambda: None)
    rows = table(seconds, arguments.sentences * arguments.tokens)
    if not arguments.tiny:
        write("generation", {"arguments": vars(arguments), "rounds": seconds, "rows": rows})


if __name__ == "__main__":
    main()
