# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/cost_by_size.py [--tokens 64 ... 4096] [--widths 256 ... 1024] [--device cuda]

What do length and width cost? Time and memory of each stack's forward pass over one sentence of n
tokens, base model, with fused attention (`sdpa`) and with the paper's formula (`eager`); and of a
training step by d_model, at 1,024 target tokens. Beside each the arithmetic by the formulas of
section 4 (Table 1), in its parts: n^2 d of attention, n d^2 of everything else. Median of several
runs; memory is the most in use during a run, less what is in use before it. On a CPU another
process measures that, whose allocator returns what is freed, which takes time. Writes figures and a
picture to `results/`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.contest import adam, draw_batch, smoothed_loss, vaswani
from benchmarks.memory import EXACT_MEMORY, peak_bytes, start_peak
from benchmarks.report import print_table, write_report
from vaswani_hf import VaswaniConfig
from vaswani_hf.pictures.drawing import COLOURS, save_picture


SIDES = ("encoder", "decoder")
SENTENCES, SENTENCE = 32, 32  # a batch of the training step
VOCAB_SIZE = 37000
PARTS = ("attention_flops", "other_flops")


def main() -> None:
    """Measure, print the tables, write figures and picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = [64, 128, 256, 512, 1024, 2048, 4096]
    parser.add_argument("--tokens", type=int, nargs="+", default=sizes)
    parser.add_argument("--widths", type=int, nargs="+", default=[256, 512, 768, 1024])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab_size", type=int, default=VOCAB_SIZE)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--only_memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    stacks = [row for kind in ("sdpa", "eager") for row in stack_rows(kind, options)]
    steps = [step_row(width, options) for width in options.widths]
    if options.only_memory:
        print(json.dumps([row["bytes"] for row in stacks + steps]))
        return
    if options.device == "cpu":
        command = [sys.executable, *sys.argv, "--only_memory", "--rounds", "1"]
        done = subprocess.run(
            command, env=os.environ | EXACT_MEMORY, stdout=subprocess.PIPE, text=True, check=True
        )
        for row, num_bytes in zip(stacks + steps, json.loads(done.stdout), strict=True):
            row["bytes"] = num_bytes
    print_table(stacks)
    print_table(steps)
    hidden = ("results", "only_memory")
    shape = {name: value for name, value in vars(options).items() if name not in hidden}
    figures = {"options": shape, "stacks": stacks, "steps": steps}
    path = write_report("cost_by_size", figures, options.results)
    draw(stacks, steps, path.with_suffix(".svg"))
    print(f"Wrote {path.with_suffix('.svg')}.")


def config_of(width: int, options: argparse.Namespace) -> VaswaniConfig:
    """A model of this d_model, in the base model's proportions."""
    return VaswaniConfig(
        vocab_size=options.vocab_size,
        d_model=width,
        d_ff=4 * width,
        num_heads=max(width // 64, 1),
        encoder_layers=options.layers,
        decoder_layers=options.layers,
    )


def stack_flops(config: VaswaniConfig, side: str, n: int, attention: str) -> dict[str, int]:
    """Operations of a stack over n tokens, section 4: of attention, n^2 d, and of the rest, n d^2.

    A multiplication and an addition an operation each. A decoder layer has a second attention; its
    memory is n tokens too. The masked half of its own is computed by `eager`, left out by `sdpa`.
    """
    d, num_attentions = config.d_model, 1 if side == "encoder" else 2
    layers = config.encoder_layers if side == "encoder" else config.decoder_layers
    computed = num_attentions
    if side == "decoder" and attention == "sdpa":
        computed -= 0.5
    return {
        "attention_flops": int(layers * computed * 4 * n**2 * d),
        "other_flops": layers * (num_attentions * 8 * n * d**2 + 4 * n * d * config.d_ff),
    }


def stack_rows(attention: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Time, memory and arithmetic of both stacks by length."""
    config = config_of(512, options)
    model = vaswani(config).eval().to(options.device)
    model.set_attn_implementation(attention)
    rows = []
    for side in SIDES:
        stack = getattr(model.model, side)
        for n in options.tokens:
            tokens = draw_batch(options.vocab_size, 1, n, 0.0)["input_ids"].to(options.device)
            extra = {}
            if side == "decoder":
                memory = torch.randn(1, n, config.d_model, device=options.device)
                extra = {"encoder_hidden_states": memory, "use_cache": False}

            @torch.no_grad()
            def run(
                stack: Any = stack, tokens: torch.Tensor = tokens, extra: dict[str, Any] = extra
            ) -> None:
                stack(tokens, **extra)

            seconds, num_bytes = measure(run, options)
            flops = stack_flops(config, side, n, attention)
            rows.append(
                {"stack": side, "attention": attention, "n": n}
                | {"seconds": round(seconds, 5), "bytes": num_bytes, **flops}
                | {"gflops_per_second": round(sum(flops.values()) / seconds / 1e9, 1)}
            )
    return rows


def step_row(width: int, options: argparse.Namespace) -> dict[str, Any]:
    """Time, memory and arithmetic of a training step of a model of this width."""
    config = config_of(width, options)
    model = vaswani(config).to(options.device)
    optimizer = adam(model)
    drawn = draw_batch(options.vocab_size, SENTENCES, SENTENCE, 0.0)
    batch = {name: tensor.to(options.device) for name, tensor in drawn.items()}

    def run() -> None:
        smoothed_loss(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    seconds, num_bytes = measure(run, options)
    n = SENTENCES * SENTENCE
    stacks = sum(sum(stack_flops(config, side, SENTENCE, "sdpa").values()) for side in SIDES)
    flops = 3 * (SENTENCES * stacks + 2 * n * width * options.vocab_size)
    return {
        **{"d_model": width, "parameters": model.num_parameters(), "target_tokens": n},
        **{"seconds": round(seconds, 4), "bytes": num_bytes, "flops": flops},
        "gflops_per_second": round(flops / seconds / 1e9, 1),
    }


def measure(run: Callable[[], None], options: argparse.Namespace) -> tuple[float, int]:
    """Median seconds of a run, and the most bytes that it takes."""
    run()  # warm
    seconds = []
    for _ in range(options.rounds):
        before = start_peak()
        begun = time.perf_counter()
        run()
        num_bytes = peak_bytes() - before  # waits for a GPU
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds), num_bytes


def draw(stacks: list[dict[str, Any]], steps: list[dict[str, Any]], path: Path) -> None:
    """Time and memory of the stacks by length, and of a step by width, beside the orders."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.8), layout="constrained")
    by_time, by_memory, by_width = figure.subplots(1, 3)
    lines = [(side, kind) for side in SIDES for kind in ("sdpa", "eager")]
    for (side, kind), colour in zip(lines, COLOURS, strict=False):
        rows = [row for row in stacks if (row["stack"], row["attention"]) == (side, kind)]
        n = [row["n"] for row in rows]
        for axes, name in ((by_time, "seconds"), (by_memory, "bytes")):
            values = [max(row[name], 1e-9) for row in rows]
            axes.plot(n, values, "o-", color=colour, markersize=3, label=f"{side}, {kind}")
    rows = [row for row in stacks if (row["stack"], row["attention"]) == ("encoder", "sdpa")]
    n = [row["n"] for row in rows]
    rate = rows[-1]["seconds"] / sum(rows[-1][part] for part in PARTS)
    expected = [rate * sum(row[part] for part in PARTS) for row in rows]
    by_time.plot(n, expected, "k:", linewidth=1, label="encoder, by its arithmetic")
    for kind, order, style in (("sdpa", 1, "k:"), ("eager", 2, "k--")):
        last = [r["bytes"] for r in stacks if (r["stack"], r["attention"]) == ("encoder", kind)][-1]
        expected = [last * (length / n[-1]) ** order for length in n]
        by_memory.plot(n, expected, style, linewidth=1, label=f"order n^{order}")
    by_time.set_ylabel("seconds, forward pass")
    by_memory.set_ylabel("bytes, forward pass")
    for axes in (by_time, by_memory):
        axes.set_xlabel("n (tokens)")
    widths = [row["d_model"] for row in steps]
    by_width.plot(
        widths, [row["seconds"] for row in steps], "o-", color=COLOURS[0], label="measured"
    )
    rate = steps[-1]["seconds"] / steps[-1]["flops"]
    by_width.plot(
        widths, [rate * row["flops"] for row in steps], "k:", linewidth=1, label="by its arithmetic"
    )
    by_width.set_xlabel("d_model")
    by_width.set_ylabel("seconds, training step")
    for axes in (by_time, by_memory, by_width):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="x-small")
    save_picture(figure, path)


if __name__ == "__main__":
    main()
