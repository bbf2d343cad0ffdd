# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/parsing_craft.py DATA [--output_dir DIR] [--field value ...]

Train recipes `parsing_craft_short` and `parsing_craft` on the trees of CRAFT in the folder DATA
(`craft.train.trees.gz`, `craft.dev.trees.gz`), and score the second on all of the second file: F1
and tags by the number of words, the share of sequences that were trees, and what was mended in the
others, with and without the constraint. The curve is of the first 300 of these trees, by which
nothing is chosen. A finished training is scored without a new one.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.report import print_table, write_report
from training.outcome.parses import Parse, details_of, figures_of
from vaswani_hf.parsing import Tree, TreeParser, read_trees, score_parse, without_traces
from vaswani_hf.pictures.runs import LOG_HISTORY


ROOT = Path(__file__).resolve().parent.parent
TRAIN, TEST = "craft.train.trees.gz", "craft.dev.trees.gz"
CURVE_TREES = 300
CURVE = ("step", "elapsed_seconds", "eval_tagging_accuracy", "eval_well_formed", "eval_f1")
SEARCHES = {
    f"{name}{', constrained' * constrained}": {"num_beams": num_beams, "constrained": constrained}
    for name, num_beams in (("greedy", 1), ("beam 4", 4))
    for constrained in (False, True)
}


def main(argv: list[str]) -> None:
    """Train where that is not done yet, then score each search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--output_dir", type=Path, default=Path("runs/parsing_craft"))
    parser.add_argument("--searches", nargs="+", choices=SEARCHES, default=list(SEARCHES))
    parser.add_argument("--sentences", type=int, help="to score, the first ones; all by default")
    parser.add_argument("--name", default="parsing_craft", help="of the report")
    parser.add_argument("--results", type=Path, help="folder of the report")
    options, fields = parser.parse_known_args(argv)
    output = options.output_dir.resolve()
    if not (output / "results.json").exists():
        train(options.data.resolve(), output, fields)
    trees = (without_traces(tree) for tree in read_trees(options.data / TEST))
    gold = [tree for tree in trees if tree is not None][: options.sentences]
    rows, figures = [], {}
    for name in options.searches:
        figures[name] = found = score(output, gold, **SEARCHES[name])
        counts = {"search": name, "words": "all", "sentences": found["sentences"]}
        rows.append({**counts, **_shown(found)})
        for each in found["by_words"]:
            words = f"{each['min_words']}-{each['max_words'] or ''}"
            counts = {"search": name, "words": words, "sentences": each["sentences"]}
            rows.append({**counts, **_shown(each)})
    print_table(rows)
    results = json.loads((output / "results.json").read_text(encoding="utf-8"))
    report = {
        "searches": figures,
        "curve": curve(output),
        "training": results["training"],
        "recipe": results["recipe"],
    }
    write_report(options.name, report, options.results)


def train(data: Path, output: Path, fields: list[str]) -> None:
    """Train on short sentences, then on all."""
    output.parent.mkdir(parents=True, exist_ok=True)
    few, short = (output.with_name(f"{output.name}_{name}") for name in ("curve.trees", "short"))
    trees = [str(tree) for tree in read_trees(data / TEST)][:CURVE_TREES]
    few.write_text("".join(f"{tree}\n" for tree in trees), encoding="utf-8")
    files = ["--train_trees", str(data / TRAIN), "--validation_trees", str(few)]
    for recipe, options in {
        "parsing_craft_short": ["--output_dir", str(short)],
        "parsing_craft": ["--model_name_or_path", str(short), "--output_dir", str(output), *fields],
    }.items():
        command = [sys.executable, "training/run.py", recipe, *files, *options]
        subprocess.run(command, cwd=ROOT, check=True)


def score(model: Path, gold: list[Tree], *, num_beams: int, constrained: bool) -> dict[str, Any]:
    """The figures of a search over the words of right trees, and its seconds."""
    parser = TreeParser.from_pretrained(model, num_beams=num_beams, constrained=constrained)
    words = [tree.words() for tree in gold]
    begun = time.monotonic()
    found = parser.sequences(words)
    seconds = time.monotonic() - begun
    parses = []
    for right, sequence in zip(gold, found, strict=True):
        tree, repairs = parser.pieces.tree_of(str(sequence), right.words())
        parses.append(Parse(tree, repairs, right, score_parse(right, tree)))
    figures = {"sentences": len(parses), "seconds": seconds}
    return figures | figures_of(parses) | details_of(parses)


def curve(output: Path) -> list[dict[str, float]]:
    """What the evaluations in training found, by update and second."""
    history = json.loads((output / LOG_HISTORY).read_text(encoding="utf-8"))
    return [{name: entry[name] for name in CURVE} for entry in history if CURVE[-1] in entry]


def _shown(figures: dict[str, Any]) -> dict[str, str]:
    names = ("f1", "recall", "precision", "complete_match", "tagging_accuracy")
    shown = {name: f"{figures[name]:.2f}" for name in names}
    return shown | {"well_formed": f"{figures['well_formed']:.1%}"}


if __name__ == "__main__":
    main(sys.argv[1:])
