# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/training_memory.py [--tokens 1024 2048 4096] [--vocab_sizes 8000 37000] ...

How much memory does a training step take beyond parameters, gradients and optimizer state, against
`MarianMTModel` of the same shape, and how does it grow with target tokens and vocabulary?

Each figure comes from a process of its own, whose second step is measured: the most memory in use
during the step, less what is in use before it, when parameters, optimizer state and the gradients
of the first step are there (set to zero; the second step adds to them). On a GPU that is
`torch.cuda.max_memory_allocated`. On a CPU it is the most resident memory that Linux counts, by
`VmHWM`, in a process that maps every larger tensor by itself (`MALLOC_MMAP_THRESHOLD_`), so that
what is freed is resident no longer.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.contest import (
    MODELS,
    OURS,
    PEER,
    adam,
    draw_batch,
    num_target_tokens,
    smoothed_loss,
)
from benchmarks.memory import EXACT_MEMORY, peak_bytes, start_peak
from benchmarks.report import print_table, write_report
from vaswani_hf import VaswaniConfig


SENTENCE = 32  # tokens of the longest one


def main() -> None:
    """Measure each size in a process of its own; figures go to `results/` and to the screen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument("--vocab_sizes", type=int, nargs="+", default=[8000, 37000])
    parser.add_argument("--d_model", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--padding_share", type=float, default=0.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--results", type=Path, help="folder of the report")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # in the process of its own
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options)))
        return
    rows: list[dict[str, Any]] = []
    for vocab_size, tokens in itertools.product(options.vocab_sizes, options.tokens):
        row: dict[str, Any] = {"vocab_size": vocab_size, "target_tokens": tokens}
        for name in (OURS, PEER):
            row[f"{name}_bytes"] = in_own_process(name, vocab_size, tokens, options)
        row["share_of_marian"] = round(row[f"{OURS}_bytes"] / row[f"{PEER}_bytes"], 3)
        rows.append(row)
        print(row, flush=True)
    print_table(rows)
    shape = ("d_model", "layers", "padding_share", "device")
    figures = {"options": {name: getattr(options, name) for name in shape}, "rows": rows}
    write_report("training_memory", figures, options.results)


def in_own_process(name: str, vocab_size: int, tokens: int, options: argparse.Namespace) -> int:
    """The bytes that `measure` finds for a model."""
    command = [sys.executable, __file__, "--measure", name]
    command += ["--tokens", str(tokens), "--vocab_sizes", str(vocab_size)]
    for field in ("d_model", "layers", "padding_share", "device"):
        command += [f"--{field}", str(getattr(options, field))]
    done = subprocess.run(
        command, env=os.environ | EXACT_MEMORY, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])["bytes"]


def measure(options: argparse.Namespace) -> dict[str, int]:
    """Bytes of a step of the one model, at the one size that the options name."""
    (tokens,), (vocab_size,) = options.tokens, options.vocab_sizes
    config = VaswaniConfig(
        vocab_size=vocab_size,
        d_model=options.d_model,
        d_ff=4 * options.d_model,
        num_heads=max(options.d_model // 64, 1),
        encoder_layers=options.layers,
        decoder_layers=options.layers,
    )
    model = MODELS[options.measure](config).to(options.device)
    optimizer = adam(model)
    sentences = round(tokens / SENTENCE / (1 - options.padding_share))
    drawn = draw_batch(vocab_size, sentences, SENTENCE, options.padding_share)
    batch = {name: tensor.to(options.device) for name, tensor in drawn.items()}
    step(model, optimizer, batch)  # makes the optimizer's state
    before = start_peak()
    step(model, optimizer, batch)
    return {"bytes": peak_bytes() - before, "target_tokens": num_target_tokens(batch)}


def step(model: Any, optimizer: torch.optim.Optimizer, batch: dict[str, torch.Tensor]) -> None:
    """One update; the gradients stay, at zero."""
    smoothed_loss(model, batch).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)


if __name__ == "__main__":
    main()
