# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/gpu_training.py [--models base big] [--tokens 25600] [--rounds 5] [--tiny]

How fast does a GPU train the paper's two models in bfloat16? Ours and `MarianMTModel` of the same
shape, each as it is and compiled, in turn, round after round: real target tokens per second, the
ratio to Marian as it is, memory, and model FLOPs utilisation: the
arithmetic of `training.outcome.cost.training_flops` by the time that the chip's peak would take
(`--peak_tflops`, where the chip is not in the table). A step is forward pass,
smoothed loss, backward pass and fused Adam,
under autocast. No padding, so that all sentences have `--length` tokens. Beside big stands the
published figure of one A100 and by how much this chip's arithmetic exceeds that one's. `--tiny`
tries the script on a CPU with small models and writes no result.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
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
from benchmarks.report import print_table, write_report
from training.outcome.cost import Shapes, training_flops
from vaswani_hf import VaswaniConfig


# Dense bfloat16, of the makers' data sheets, in TFLOPS.
PEAK_TFLOPS = {"A100": 312.0, "H100": 989.4, "H200": 989.4}
# Target tokens a second of big in mixed precision on one A100 (40 GB), batches of 10,240: README of
# PyTorch/Translation/Transformer in NVIDIA's DeepLearningExamples, fairseq's code, container 22.06.
PUBLISHED_BIG = 82_059
TINY = {"d_model": 64, "d_ff": 128, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
WAYS = ("eager", "compiled")
WARM_STEPS = 3  # compilation, the optimizer's state, the allocator


def main() -> None:
    """Measure, print the table and write it to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=("base", "big"), default=["base", "big"])
    parser.add_argument("--tokens", type=int, default=25600, help="a side, of an update")
    parser.add_argument("--length", type=int, default=32, help="tokens of a sentence")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="of a round")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--peak_tflops", type=float)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--results", type=Path, help="folder of the report")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = [row for size in options.models for row in contest(size, device, options)]
    print_table(rows)
    if options.tiny:
        return
    shape = {name: value for name, value in vars(options).items() if name != "results"}
    figures = {"options": shape, "device": device, "rows": rows}
    figures["peak_tflops"] = options.peak_tflops or peak_tflops(device)
    figures["peak_tflops_of_published"] = PEAK_TFLOPS["A100"]
    write_report("gpu_training", figures, options.results)


def contest(size: str, device: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of one size: every model in every way."""
    config = getattr(VaswaniConfig, size)(**(TINY | {"vocab_size": 500} if options.tiny else {}))
    tokens = 256 if options.tiny else options.tokens
    sentences = tokens // options.length
    drawn = draw_batch(config.vocab_size, sentences, options.length, 0.0)
    batch = {name: tensor.to(device) for name, tensor in drawn.items()}
    # All models first: a class that the library gets to know later makes it compile again.
    steps = {
        (name, way): make_step(name, way, config, batch)
        for name in (OURS, PEER)
        for way in options.ways
    }
    peaks: dict[tuple[str, str], int] = {}
    for key, step in steps.items():
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        begun = torch.cuda.memory_allocated() if device == "cuda" else 0
        for _ in range(WARM_STEPS):
            step()
        peak = torch.cuda.max_memory_allocated() if device == "cuda" else begun
        peaks[key] = peak - begun
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in steps}
    for _ in range(options.rounds):
        for key, step in steps.items():
            gc.collect()
            wait(device)
            begun_seconds = time.perf_counter()
            for _ in range(options.steps):
                step()
            wait(device)
            seconds[key].append((time.perf_counter() - begun_seconds) / options.steps)
        print(size, {key: round(times[-1], 4) for key, times in seconds.items()}, flush=True)
    real = num_target_tokens(batch)
    sizes = (sentences, options.length, options.length, real)
    flops = float(training_flops(config, Shapes(*(np.array([float(n)]) for n in sizes)))[0])
    peak_flops = 1e12 * (options.peak_tflops or peak_tflops(device))
    marian = statistics.median(seconds[PEER, options.ways[0]])
    return [
        {
            "size": size,
            "model": name,
            "way": way,
            "median_seconds": round(median, 5),
            "target_tokens_per_second": round(real / median),
            f"times_marian_{options.ways[0]}": round(marian / median, 3),
            "times_published_a100": round(real / median / PUBLISHED_BIG, 2)
            if size == "big" and not options.tiny
            else None,
            "tflops": round(flops / median / 1e12, 2),
            "utilisation": round(flops / median / peak_flops, 3) if peak_flops else None,
            "bytes_beyond_parameters": peaks[name, way],
        }
        for (name, way), median in ((key, statistics.median(t)) for key, t in seconds.items())
    ]


def make_step(
    name: str, way: str, config: VaswaniConfig, batch: dict[str, torch.Tensor]
) -> Callable[[], None]:
    """An update of a new model, on the device of the batch."""
    device = batch["labels"].device
    model = MODELS[name](config).to(device)
    optimizer = adam(model)

    def loss() -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return smoothed_loss(model, batch)

    measured = torch.compile(loss) if way == "compiled" else loss

    def step() -> None:
        measured().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def wait(device: str) -> None:
    """Let a GPU finish."""
    if device == "cuda":
        torch.cuda.synchronize()


def peak_tflops(device: str) -> float:
    """What the chip does at best; 0 where that is unknown."""
    chip = torch.cuda.get_device_name() if device == "cuda" else ""
    return next((peak for name, peak in PEAK_TFLOPS.items() if name in chip), 0.0)


if __name__ == "__main__":
    main()
