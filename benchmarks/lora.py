# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m benchmarks.lora [--tokens 1024] [--vocab_size 37000] [--rounds 3]

How much memory does fine-tuning with an adapter (LoRA) take beside fine-tuning the whole model, and
how fast is it? Needs PEFT; with bitsandbytes, the base is held in 8 bits too.

Memory is the most that a process has in use during its second update, less what it had before the
model was made: parameters, gradients, optimizer state and what the backward pass keeps. Each figure
comes from a process of its own, as in `training_memory.py`. Speeds are ratios of processor time in
one process, whose ways take turns.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.contest import draw_batch, num_target_tokens, smoothed_loss
from benchmarks.memory import EXACT_MEMORY, peak_bytes, start_peak
from benchmarks.report import print_table, write_report
from training.loop.adapters import add_adapter, quantization
from training.settings.adapters import TARGETS
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


FULL = "whole model"
WAYS: dict[str, dict[str, Any]] = {
    FULL: {},
    "LoRA 16": {"targets": list(TARGETS)},
    "LoRA 16, query and value": {"targets": ["query_proj", "value_proj"]},
    "LoRA 16, base in 8 bits": {"targets": list(TARGETS), "load_in_8bit": True},
}
SENTENCE = 32  # tokens of the longest one


def main() -> None:
    """Measure each way; figures go to `results/` and to the screen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=1024, help="target tokens of an update")
    parser.add_argument("--vocab_size", type=int, default=37000)
    parser.add_argument("--d_model", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, help="folder of the report")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # in the process of its own
    parser.add_argument("--base", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options)))
        return
    ways = [name for name, way in WAYS.items() if can_be_tried(way)]
    with tempfile.TemporaryDirectory() as folder:
        options.base = folder
        config = VaswaniConfig(
            vocab_size=options.vocab_size,
            d_model=options.d_model,
            d_ff=4 * options.d_model,
            num_heads=max(options.d_model // 64, 1),
            encoder_layers=options.layers,
            decoder_layers=options.layers,
        )
        VaswaniForConditionalGeneration(config).save_pretrained(folder)
        memory = {name: in_own_process(name, options) for name in ways}
        seconds = seconds_of(ways, options)
    rows = [
        {
            "way": name,
            "trained_parameters": memory[name]["trained"],
            "peak_bytes": memory[name]["bytes"],
            "share_of_memory": round(memory[name]["bytes"] / memory[FULL]["bytes"], 3),
            "speed": round(
                statistics.median(
                    full / own for full, own in zip(seconds[FULL], seconds[name], strict=True)
                ),
                3,
            ),
            "processor_seconds": round(statistics.median(seconds[name]), 3),
        }
        for name in ways
    ]
    print_table(rows)
    shown = ("tokens", "vocab_size", "d_model", "layers", "rounds")
    packages = ["torch", "transformers", "peft"]
    packages += ["bitsandbytes"] * ("LoRA 16, base in 8 bits" in ways)
    figures = {"options": {name: getattr(options, name) for name in shown}, "rows": rows}
    write_report("lora", figures, options.results, packages)


def can_be_tried(way: dict[str, Any]) -> bool:
    """Whether what a way needs is installed."""
    return not way.get("load_in_8bit") or importlib.util.find_spec("bitsandbytes") is not None


def in_own_process(name: str, options: argparse.Namespace) -> dict[str, int]:
    """What `measure` finds for a way."""
    command = [sys.executable, "-m", "benchmarks.lora", "--measure", name, "--base", options.base]
    for field in ("tokens", "vocab_size"):
        command += [f"--{field}", str(getattr(options, field))]
    done = subprocess.run(
        command, env=os.environ | EXACT_MEMORY, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def measure(options: argparse.Namespace) -> dict[str, int]:
    """Bytes of the second update of one way, and how many parameters it trains."""
    before = start_peak()
    tuner = Tuner(options.measure, options)
    tuner.update()  # makes the optimizer's state
    start_peak()
    tuner.update()
    trained = tuner.model.num_parameters(only_trainable=True)
    return {"bytes": peak_bytes() - before, "trained": trained}


def seconds_of(ways: list[str], options: argparse.Namespace) -> dict[str, list[float]]:
    """Processor time of updates, by turns."""
    tuners = {name: Tuner(name, options) for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(options.rounds + 1):
        for name, tuner in tuners.items():
            begun = time.process_time()
            tuner.update()
            if number:  # the first warms up
                seconds[name].append(time.process_time() - begun)
    return seconds


class Tuner:
    """A model that is fine-tuned one way, on the same batch again and again."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        way = WAYS[name]
        settings: Any = SimpleNamespace(
            load_in_8bit=way.get("load_in_8bit", False),
            lora_rank=16,
            lora_alpha=32.0,
            lora_dropout=0.0,
            lora_targets=way.get("targets"),
        )
        load = VaswaniForConditionalGeneration.from_pretrained
        self.model = load(options.base, **quantization(settings)).train()
        if "targets" in way:
            add_adapter(self.model, settings, options.base)
        trained = [each for each in self.model.parameters() if each.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=True)
        sentences = options.tokens // SENTENCE
        self.batch = draw_batch(options.vocab_size, sentences, SENTENCE, 0.0)
        assert num_target_tokens(self.batch) == sentences * SENTENCE

    def update(self) -> None:
        """Forward, backward and the optimizer's step."""
        smoothed_loss(self.model, self.batch).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


if __name__ == "__main__":
    main()
