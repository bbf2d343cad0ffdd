# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/padding.py DATA [DATA ...]

How much of the token batches is padding, both sides counted, for the training text of the folders
DATA (`train.en.gz`, `train.de.gz`; 8,000 joint pieces), by the order that the pairs are cut in; by
the trainer's cuts; and how many shapes batches have, by `pad_to_multiple_of`.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.report import write_report
from training.data.batching import TokenBatchSampler, by_longer_side, pack
from training.settings.budget import TokenBudget
from training.settings.fields import VaswaniTrainingArguments
from vaswani_hf import train_tokenizer
from vaswani_hf.text.lines import read_lines


PIECES = 8000
MAX_PADDING = VaswaniTrainingArguments.max_padding
BUDGETS = (2000, 3125, 8192, 12500, 25000)  # tokens a side; 25,000 on eight devices, two and one
Order = Callable[[np.ndarray, np.ndarray], np.ndarray]


def by_target_then_source(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Every target length starts over at the longest source."""
    return np.lexsort((source, target))[::-1]


def by_target_in_turns(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The sources of a target length go down and up in turn."""
    turn = np.where(np.unique(target, return_inverse=True)[1] % 2, 1, -1)
    return np.lexsort((turn * source, target))[::-1]


def by_two_targets_in_turns(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """As before, over strips of two target lengths."""
    strip = target // 2
    turn = np.where(np.unique(strip, return_inverse=True)[1] % 2, 1, -1)
    return np.lexsort((target, turn * source, strip))[::-1]


def by_longer_then_target(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """By the longer side, then by target and source, without turns."""
    return np.lexsort((source, target, np.maximum(source, target)))[::-1]


ORDERS: dict[str, Order] = {
    "target, source": by_target_then_source,
    "target, source in turns": by_target_in_turns,
    "two targets, source in turns": by_two_targets_in_turns,
    "longer side, target, source": by_longer_then_target,
    "longer side, difference in turns (the sampler's)": lambda source, target: by_longer_side(
        source, target, seed=0
    ),
}


def main(argv: list[str]) -> None:
    """Measure every folder, order and budget; figures go to `results/` and to the screen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--results", type=Path, help="folder of the report")
    options = parser.parse_args(argv)
    rows: list[dict[str, object]] = []
    for folder in options.data:
        files = [folder / f"train.{language}.gz" for language in ("en", "de")]
        tokenizer = train_tokenizer(files, PIECES, show_progress=False)
        source, target = (
            np.array([len(ids) for ids in tokenizer(list(read_lines(file)))["input_ids"]])
            for file in files
        )
        name = "/".join(folder.resolve().parts[-2:])
        for budget in BUDGETS:
            for order_name, order in ORDERS.items():
                batches = pack(order(source, target), source, target, TokenBudget(budget, budget))
                rows.append(
                    {"data": name, "tokens": budget, "order": order_name}
                    | padding(batches, source, target)
                )
                print(rows[-1], flush=True)
            begun = time.perf_counter()
            sampler = TokenBatchSampler(
                source, target, TokenBudget(budget, budget, max_padding=MAX_PADDING)
            )
            seconds = time.perf_counter() - begun
            rows.append(
                {"data": name, "tokens": budget, "max_padding": MAX_PADDING}
                | {"batches": len(sampler), "padding_share": round(sampler.padding_share, 4)}
                | {"seconds": round(seconds, 1)}
            )
            print(rows[-1], flush=True)
            for multiple in (1, 8, 16):
                rows.append(
                    {"data": name, "tokens": budget, "pad_to_multiple_of": multiple}
                    | shapes(source, target, budget, multiple)
                )
                print(rows[-1], flush=True)
    write_report("padding", {"pieces": PIECES, "rows": rows}, options.results)


def padding(batches: list[list[int]], source: np.ndarray, target: np.ndarray) -> dict[str, object]:
    """Batches an epoch, and the share of padding in them."""
    padded = sum(len(batch) * (source[batch].max() + target[batch].max()) for batch in batches)
    share = 1 - (source.sum() + target.sum()) / padded
    return {"batches": len(batches), "padding_share": round(float(share), 4)}


def shapes(source: np.ndarray, target: np.ndarray, budget: int, multiple: int) -> dict[str, object]:
    """As `padding`, for the sampler with `pad_to_multiple_of`, and how many shapes there are."""
    sampler = TokenBatchSampler(
        source, target, TokenBudget(budget, budget, pad_to_multiple_of=multiple)
    )
    return {
        "batches": len(sampler),
        "padding_share": round(sampler.padding_share, 4),
        "shapes": len(set(sampler.shapes)),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
