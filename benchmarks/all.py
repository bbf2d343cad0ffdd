# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m benchmarks.all [--quick] [--shapes demo,base] [--threads 1,2] [--works train,beam] ...

How fast is this processor's training step, greedy search and beam search, by shape and threads?

The peers are `MarianMTModel` of the same shape, and for beam search CTranslate2 in float32 where it
is installed. Weights are random, every translation has as many tokens as its source, and a training
batch has 15 % padding. All contestants run in turn in one process, round after round; a ratio is a
round's own, and given are their median, lowest and highest. Beside it stands the share of our time
that the matrix products take alone (`benchmarks/products.py`): the rest is all there is to win.
`--quick` ends within ten minutes on four cores. `--markdown` prints the table as docs/speed.md has
it; with files of `results/`, it prints theirs and measures nothing.
"""

import argparse
import gc
import importlib.util
import json
import math
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from benchmarks.contest import (
    MODELS,
    OURS,
    PEER,
    adam,
    draw_batch,
    marian,
    num_target_tokens,
    smoothed_loss,
    vaswani,
)
from benchmarks.generation import BEAM, GREEDY, draw_sources, generator
from benchmarks.products import (
    Products,
    flops,
    generation_products,
    seconds_alone,
    training_products,
)
from benchmarks.report import print_table, processor_facts, write_report
from training.settings.reading import parse_arguments
from vaswani_hf import VaswaniConfig, train_tokenizer
from vaswani_hf.conversion import to_ctranslate2
from vaswani_hf.hub.folder import export


PADDING_SHARE = 0.15
WORKS = {"train": "Training step", "greedy": "Greedy", "beam": "Beam 4"}
# By recipe, whose model has the shape: sentences and tokens of a side, and how many steps or
# searches are timed together, in a thorough and in a quick run.
SHAPES = {
    "demo": (80, 20, 6, 2),
    "multi30k_small": (80, 20, 3, 1),
    "base": (32, 32, 1, 1),
}
ROUNDS, QUICK_ROUNDS = 5, 3
CTRANSLATE2 = "CTranslate2"
Call = Callable[[int], object]  # takes the number of the round


def main() -> None:
    """Measure, print the table and write it to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds and repetitions")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="recipes")
    parser.add_argument("--threads", default="1,2,4")
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS}, or {QUICK_ROUNDS} by --quick")
    parser.add_argument("--results", type=Path, help="folder of the report")
    parser.add_argument("--markdown", nargs="*", type=Path, metavar="JSON")
    options = parser.parse_args()
    if options.markdown:
        for path in options.markdown:
            print(markdown(json.loads(path.read_text(encoding="utf-8"))))
        return
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    begun, rows = time.monotonic(), []
    for name in options.shapes.split(","):
        shape = shape_of(name, quick=options.quick)
        for work in options.works.split(","):
            for row in measure(shape, work, [int(n) for n in options.threads.split(",")], rounds):
                print(f"{time.monotonic() - begun:4.0f} s", *shown(row).values(), flush=True)
                rows.append(row)
    print_table([shown(row) for row in rows])
    figures = {
        "rounds": rounds,
        "quick": options.quick,
        "seconds": round(time.monotonic() - begun, 1),
        "rows": rows,
    }
    facts = processor_facts()
    name = "_".join(str(facts[part]) for part in ("name", "family", "model") if part in facts)
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower())
    packages = ["torch", "transformers"] + ["ctranslate2"] * has_ctranslate2()
    path = write_report(f"all-{slug}", figures, options.results, packages)
    if options.markdown is not None:
        print(markdown(json.loads(path.read_text(encoding="utf-8"))))


@dataclass(frozen=True)
class Shape:
    """A model's shape, and the batch that it is measured with.

    Attributes:
        name: of the recipe.
        config: of the models.
        sentences: B.
        tokens: S and T.
        repetitions: of a call that are timed together.
    """

    name: str
    config: VaswaniConfig
    sentences: int
    tokens: int
    repetitions: int

    @cached_property
    def source(self) -> torch.Tensor:
        """The ids of a search, `(B, S)`."""
        return draw_sources(self.config, self.sentences, self.tokens)


def shape_of(recipe: str, *, quick: bool = False) -> Shape:
    """The shape of a recipe's model, with the batch that it is measured with."""
    sentences, tokens, thorough, fewer = SHAPES[recipe]
    config = VaswaniConfig(**parse_arguments([recipe]).model)
    return Shape(recipe, config, sentences, tokens, fewer if quick else thorough)


def measure(
    shape: Shape, work: str, threads: Sequence[int], rounds: int
) -> Iterable[dict[str, Any]]:
    """A row for each number of threads, the largest first, whose calls warm all up."""
    with tempfile.TemporaryDirectory() as folder:
        calls, products = contest(shape, work)
        if work == "beam" and has_ctranslate2():
            save_for_ctranslate2(shape, Path(folder))
        for place, count in enumerate(sorted(threads, reverse=True)):
            if work == "beam" and has_ctranslate2():
                calls[CTRANSLATE2] = ctranslate2_search(shape, Path(folder), count)
            torch.set_num_threads(count)  # after CTranslate2 has set the number of OpenMP
            if place == 0:
                for call in calls.values():
                    call(0)
            seconds = time_by_turns(calls, rounds, shape.repetitions)
            alone = seconds_alone(products)
            yield {
                **{"shape": shape.name, "work": work, "threads": count},
                **figures_of(seconds, alone, flops(products)),
            }


def contest(shape: Shape, work: str) -> tuple[dict[str, Call], Products]:
    """What ours and Marian do, and the products in it."""
    sizes = (shape.sentences, shape.tokens)
    if work != "train":
        num_beams = (BEAM if work == "beam" else GREEDY)["num_beams"]
        calls = {OURS: search(shape, work, vaswani), PEER: search(shape, work, marian)}
        return calls, generation_products(shape.config, *sizes, shape.tokens, num_beams)
    calls = {name: training_step(shape, make) for name, make in MODELS.items()}
    real = num_target_tokens(draw_batch(shape.config.vocab_size, *sizes, PADDING_SHARE))
    return calls, training_products(shape.config, *sizes, shape.tokens, real)


def training_step(shape: Shape, make: Callable[[VaswaniConfig], Any]) -> Call:
    """Forward pass, smoothed loss, backward pass and Adam, on another batch each time."""
    model = make(shape.config)
    optimizer = adam(model)
    sizes = (shape.config.vocab_size, shape.sentences, shape.tokens, PADDING_SHARE)

    def step(seed: int) -> None:
        smoothed_loss(model, draw_batch(*sizes, seed=seed)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def search(shape: Shape, work: str, make: Callable[..., Any]) -> Call:
    """A search over all sentences, by the paper's penalty where a model knows it."""
    options = dict(BEAM if work == "beam" else GREEDY)
    if make is vaswani:
        model = make(shape.config)
        options |= {"length_penalty_type": "wu"} if work == "beam" else {}
    else:
        model = make(shape.config, use_cache=True)
    call = generator(model.eval(), shape.source, shape.tokens, **options)
    return lambda seed: call()


def has_ctranslate2() -> bool:
    """Whether it is installed."""
    return importlib.util.find_spec("ctranslate2") is not None


def save_for_ctranslate2(shape: Shape, folder: Path) -> None:
    """A model of random weights in `folder / "ctranslate2"`."""
    tokenizer = train_tokenizer(["a"], 300, are_files=False, show_progress=False)
    export(vaswani(shape.config), tokenizer, folder / "ours")
    to_ctranslate2(folder / "ours", folder / "ctranslate2")


def ctranslate2_search(shape: Shape, folder: Path, threads: int) -> Call:
    """Beam search as `CTranslate2Translator` does it: a thread for each part of the batch."""
    import ctranslate2

    translator = ctranslate2.Translator(
        str(folder / "ctranslate2"), device="cpu", inter_threads=threads, intra_threads=1
    )
    vocabulary = folder / "ctranslate2" / "shared_vocabulary.json"
    pieces = json.loads(vocabulary.read_text(encoding="utf-8"))
    sources = [[pieces[token] for token in row] for row in shape.source.tolist()]
    num_beams = BEAM["num_beams"]

    def call(seed: int) -> None:
        results = translator.translate_batch(
            sources,
            max_batch_size=math.ceil(shape.sentences / threads),
            beam_size=num_beams,
            patience=2,
            num_hypotheses=2 * num_beams,
            length_penalty=BEAM["length_penalty"],
            max_input_length=0,
            min_decoding_length=shape.tokens,
            max_decoding_length=shape.tokens,
        )
        assert {len(result.hypotheses[0]) for result in results} == {shape.tokens}

    return call


def time_by_turns(
    calls: Mapping[str, Call], rounds: int, repetitions: int
) -> dict[str, list[float]]:
    """Seconds of each call in each round; every other round begins with the last one."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name in list(calls)[:: -1 if number % 2 else 1]:
            gc.collect()
            begun = time.perf_counter()
            for repetition in range(repetitions):
                calls[name](1 + number * repetitions + repetition)
            seconds[name].append((time.perf_counter() - begun) / repetitions)
    return seconds


def figures_of(
    seconds: Mapping[str, Sequence[float]], alone: float, num_flops: int
) -> dict[str, Any]:
    """What is reported of the rounds of a row.

    Args:
        seconds: of each contestant, by round.
        alone: seconds of our products.
        num_flops: of our products.
    """
    ours = statistics.median(seconds[OURS])
    ratios = {
        name: sorted(peer / our for peer, our in zip(of_peer, seconds[OURS], strict=True))
        for name, of_peer in seconds.items()
        if name != OURS
    }
    return {
        "seconds": ours,
        "rounds": {name: list(of_one) for name, of_one in seconds.items()},
        "ratios": {
            name: {"median": statistics.median(of_one), "low": of_one[0], "high": of_one[-1]}
            for name, of_one in ratios.items()
        },
        "products_seconds": alone,
        "products_share": alone / ours,
        "products_gflops_per_second": num_flops / alone / 1e9,
    }


# Tables


def shown(row: Mapping[str, Any]) -> dict[str, str]:
    """A row for the terminal."""
    return {
        "shape": row["shape"],
        "work": row["work"],
        "threads": str(row["threads"]),
        "milliseconds": f"{1000 * row['seconds']:.1f}",
        "times Marian": with_spread(row, PEER),
        "times CTranslate2": with_spread(row, CTRANSLATE2),
        "products / ours": f"{row['products_share']:.2f}",
        "GFLOP/s of products": f"{row['products_gflops_per_second']:.0f}",
    }


def with_spread(row: Mapping[str, Any], peer: str) -> str:
    """A ratio as `1.50 (1.38 to 1.60)`; a dash for a peer that was not there."""
    ratio = row["ratios"].get(peer)
    return "{median:.2f} ({low:.2f} to {high:.2f})".format(**ratio) if ratio else "-"


def markdown(report: Mapping[str, Any]) -> str:
    """The table of a report, a column for each number of threads, under its processor."""
    facts, versions = report["processor"], report["versions"]
    known = [f"{name} {facts[name]}" for name in ("family", "model") if name in facts]
    features = ", ".join(facts["features"])
    counts = sorted({row["threads"] for row in report["rows"]})
    rows = {(row["shape"], row["work"], row["threads"]): row for row in report["rows"]}
    lines = [
        f"### {', '.join([facts['name'], *known])}",
        "",
        f"{report['cores']} cores, {facts['torch_capability']} ({features}); "
        f"{', '.join(f'{name} {number}' for name, number in versions.items())}; "
        f"{report['date']}, {report['rounds']} rounds.",
        "",
        "| Work | " + " | ".join(f"{n} thread{'s' * (n > 1)}" for n in counts) + " |",
        "|---" * (1 + len(counts)) + "|",
    ]
    peers = {PEER: "", CTRANSLATE2: ", beside CTranslate2"}
    for peer, beside in peers.items():
        for work, title in WORKS.items():
            for shape in SHAPES:
                cells = [rows.get((shape, work, n)) for n in counts]
                if not any(row and peer in row["ratios"] for row in cells):
                    continue
                texts = [markdown_cell(row, peer) for row in cells]
                lines.append(f"| {title}, `{shape}`{beside} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def markdown_cell(row: Mapping[str, Any] | None, peer: str) -> str:
    """A ratio with its spread, and beside Marian the share of the products."""
    if row is None:
        return "-"
    share = f"; {100 * row['products_share']:.0f} %" if peer == PEER else ""
    return with_spread(row, peer) + share


if __name__ == "__main__":
    main()
