# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/training_step.py [--rounds 7] [--threads 2] [--sentences 32] [--tokens 32] ...

How fast is a training step, against `MarianMTModel` of the same shape? Forward pass, smoothed loss,
backward pass and fused Adam, both models in turn, round after round, each round a new batch; given
are median seconds, real target tokens per second and the ratio of speeds. `--profile` shows instead
where the time of one step goes, by torch.profiler.
"""

import argparse
import gc
import itertools
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.contest import (
    MODELS,
    adam,
    contest_rows,
    draw_batch,
    num_target_tokens,
    smoothed_loss,
)
from benchmarks.report import print_table, write_report
from vaswani_hf import VaswaniConfig


PARTS = ("forward", "backward", "adam")


class Contestant:
    """A model and its optimizer; forward passes are in bfloat16 where asked for, by autocast."""

    def __init__(self, name: str, config: VaswaniConfig, *, bf16: bool = False) -> None:
        self.model = MODELS[name](config)
        self.optimizer = adam(self.model)
        self.bf16 = bf16

    def step(self, batch: dict[str, torch.Tensor]) -> list[float]:
        """One update; the seconds of its parts."""
        marks = [time.perf_counter()]
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            loss = smoothed_loss(self.model, batch)
        marks.append(time.perf_counter())
        loss.backward()
        marks.append(time.perf_counter())
        self.optimizer.step()
        self.optimizer.zero_grad()
        marks.append(time.perf_counter())
        return [end - begun for begun, end in itertools.pairwise(marks)]


def main() -> None:
    """Measure, print the table and write it to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sentences", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--padding_share", type=float, default=0.15)
    parser.add_argument("--vocab_size", type=int, default=37000)
    parser.add_argument("--d_model", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--bf16", action="store_true", help="mixed precision, as --bf16 trains")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--results", type=Path, help="folder of the report")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    config = VaswaniConfig(
        vocab_size=options.vocab_size,
        d_model=options.d_model,
        d_ff=4 * options.d_model,
        num_heads=max(options.d_model // 64, 1),
        encoder_layers=options.layers,
        decoder_layers=options.layers,
    )
    contestants = {name: Contestant(name, config, bf16=options.bf16) for name in MODELS}

    def batch(seed: int) -> dict[str, torch.Tensor]:
        shape = (options.sentences, options.tokens, options.padding_share)
        return draw_batch(options.vocab_size, *shape, seed=seed)

    tokens = num_target_tokens(batch(0))
    for contestant in contestants.values():
        contestant.step(batch(0))  # warm
    if options.profile:
        for name, contestant in contestants.items():
            with profile(activities=[ProfilerActivity.CPU]) as profiler:
                contestant.step(batch(1))
            print(name)
            print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=30))
        return
    parts: dict[str, list[list[float]]] = {name: [] for name in MODELS}
    for number in range(options.rounds):
        for name, contestant in contestants.items():
            gc.collect()
            parts[name].append(contestant.step(batch(number + 1)))
        print(number + 1, {name: round(sum(rounds[-1]), 3) for name, rounds in parts.items()})
    seconds = {name: [sum(step) for step in rounds] for name, rounds in parts.items()}
    rows = contest_rows(seconds, tokens)
    for row in rows:
        for place, part in enumerate(PARTS):
            times = sorted(step[place] for step in parts[row["model"]])
            row[f"{part}_seconds"] = round(times[len(times) // 2], 4)
    print_table(rows)
    shape = {name: value for name, value in vars(options).items() if name != "results"}
    figures = {"options": shape, "target_tokens": tokens, "rounds": seconds, "rows": rows}
    write_report("training_step", figures, options.results)


if __name__ == "__main__":
    main()
