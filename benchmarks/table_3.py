# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m benchmarks.table_3 DATA [--rows base c_2_layers] [--seeds 1 2] [--field value ...]

Which parts of the model matter? The rows of Table 3 in small: recipe `multi30k_table3`, on the raw
files of Multi30k in the folder DATA (`train.en.gz`, `train.de.gz`, `val.*`), varied as the recipes
`table3/...` vary the base model, with equal updates. Each row is trained with each seed, one
training after the other, the most telling rows first. The same command goes on where it was
stopped.
"""

import argparse
import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training.settings.fields import ModelArguments
from training.settings.reading import field_names, read_options
from training.settings.recipes import read_recipe
from training.sweep import Run, train_all
from vaswani_hf import Translator
from vaswani_hf.text.lines import read_lines


RECIPE = "multi30k_table3"
# What the recipe has less of than the paper's base model, and by what factor.
SMALLER = {"d_model": 4, "d_ff": 4, "d_k": 4, "d_v": 4, "encoder_layers": 2, "decoder_layers": 2}
BASE = "base"
# In the order of their training: a row of each letter, then others; those that cost most are last.
GROUPS = (
    (BASE,),
    ("a_1_head", "b_d_k_16", "c_2_layers", "d_dropout_0_0", "e_learned_positions"),
    ("a_32_heads", "b_d_k_32", "c_d_model_256", "c_d_ff_1024", "d_label_smoothing_0_0"),
    ("a_4_heads", "c_4_layers", "d_dropout_0_2", "d_label_smoothing_0_2", "c_d_ff_4096"),
    ("a_16_heads", "c_8_layers"),
    ("c_d_model_1024",),
    ("big",),
)
SENTENCES = "validation.jsonl"  # of a run: what it says of each sentence


def main(argv: list[str]) -> None:
    """Train what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    every = [row for group in GROUPS for row in group]
    parser.add_argument("--rows", nargs="+", choices=every, default=every, metavar="ROW")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--output_dir", type=Path, default=Path("runs/table_3"))
    options, others = parser.parse_known_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    data, common = options.data.resolve(), read_options(others)
    runs = [
        run_of(row, seed, data, common)
        for group in GROUPS
        for seed in options.seeds
        for row in group
        if row in options.rows
    ]
    for run in train_all(runs, options.output_dir):
        judge(options.output_dir / run.name, data)


def run_of(row: str, seed: int, data: Path, common: Mapping[str, Any]) -> Run:
    """The training of a row with a seed."""
    files = {
        f"{split}_{side}": data / f"{name}.{language}.gz"
        for split, name in (("train", "train"), ("validation", "val"))
        for side, language in (("source", "en"), ("target", "de"))
    }
    return Run(f"{row}-seed_{seed}", RECIPE, {**files, **changes_of(row), "seed": seed, **common})


def changes_of(row: str) -> dict[str, Any]:
    """The fields of the model that a row of Table 3 varies, at the size of the recipe."""
    base = read_recipe(f"table3/{BASE}")
    return {
        name: value // SMALLER[name] if name in SMALLER else value
        for name, value in read_recipe(f"table3/{row}").items()
        if name in field_names(ModelArguments) and value != base.get(name)
    }


def judge(folder: Path, data: Path) -> None:
    """Write what a trained model makes of each validation sentence into its folder, once.

    Each line has the `translation`, by beam search, and of the reference the `nats`, its negative
    log-probability, and the `tokens`.
    """
    path = folder / SENTENCES
    if path.exists():
        return
    sources, references = (list(read_lines(data / f"val.{side}.gz")) for side in ("en", "de"))
    translator = Translator.from_pretrained(folder)
    translations = translator(sources)
    scores = translator.score(sources, references)
    lines = [
        json.dumps(
            {"translation": translation, "nats": -score.log_prob, "tokens": len(score.ids)},
            ensure_ascii=False,
        )
        for translation, score in zip(translations, scores, strict=True)
    ]
    part = path.with_suffix(".part")  # of which a killed process may leave half
    part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    main(sys.argv[1:])
