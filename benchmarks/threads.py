# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/threads.py [--shapes demo,multi30k_small,base] [--threads 1,2,4] [--rounds 10]

How many CPU threads pay, for a training step and for beam search over 1, 8 and 64 sentences, by the
shape of a recipe? The numbers of threads take turns, call by call. Given are the multiplications of
a layer's product `(rows, d_model)` by `(d_model, d_model)`, by which `paying_threads` chooses, and
the speed of each number of threads, times that of the first: by the best and by the median call.
Where other work runs beside it the two differ widely, as threads wait for each other.
"""

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from benchmarks.all import SHAPES, Call, search, shape_of, time_by_turns, training_step
from benchmarks.contest import vaswani
from benchmarks.generation import BEAM
from benchmarks.report import print_table, write_report


SENTENCES = (1, 8, 64)  # of a search


def main() -> None:
    """Measure, print the table and write it to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default=",".join(SHAPES), help="recipes")
    parser.add_argument("--threads", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--results", type=Path, help="folder of the report")
    options = parser.parse_args()
    logging.set_verbosity_error()
    counts = [int(count) for count in options.threads.split(",")]
    rows: list[dict[str, Any]] = []
    for name in options.shapes.split(","):
        shape = shape_of(name)
        works = {"train": (shape.sentences * shape.tokens, training_step(shape, vaswani))}
        for sentences in SENTENCES:
            call = search(replace(shape, sentences=sentences), "beam", vaswani)
            works[f"beam, {sentences}"] = (sentences * BEAM["num_beams"], call)
        for work, (num_rows, call) in works.items():
            calls = {str(count): partial(with_threads, count, call) for count in counts}
            for warm in calls.values():
                warm(0)
            seconds = time_by_turns(calls, options.rounds, 1)
            rows.append(
                {
                    **{"shape": name, "work": work},
                    "multiplications": num_rows * shape.config.d_model**2,
                    **speeds(seconds),
                    "seconds": seconds,
                }
            )
            print(rows[-1]["shape"], work, speeds(seconds), flush=True)
    print_table([{name: value for name, value in row.items() if name != "seconds"} for row in rows])
    write_report("threads", {"rounds": options.rounds, "rows": rows}, options.results)


def with_threads(count: int, call: Call, number: int) -> None:
    """A call by so many threads."""
    torch.set_num_threads(count)
    call(number)


def speeds(seconds: dict[str, list[float]]) -> dict[str, float]:
    """By number of threads, the speed of the best and of the median call, times the first's."""
    first = next(iter(seconds.values()))

    def times_first(typical: Any, of_one: Sequence[float]) -> float:
        return round(typical(first) / typical(of_one), 2)

    return {f"best, {count}": times_first(min, of_one) for count, of_one in seconds.items()} | {
        f"median, {count}": times_first(statistics.median, of_one)
        for count, of_one in seconds.items()
    }


if __name__ == "__main__":
    main()
