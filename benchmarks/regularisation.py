# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m benchmarks.regularisation DATA [--minutes 20] [--seeds 1 2] [--field value ...]

What do BPE-dropout, R-Drop, stages and filters give in equal time? Recipe `multi30k_small` on the
raw files of Multi30k in the folder DATA (`train.en.gz`, `train.de.gz`, `val.*`, `test_2016.*`),
each on or off, with each seed, one training after the other on one core. The same command goes on
where it was stopped, and reports on what has finished; `--only_report` does that alone. Minutes are
those of the clock: a busy core makes fewer updates of them, which the table tells too.
"""

import argparse
import dataclasses
import gzip
import json
import logging
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import write_report
from benchmarks.table_3 import Judged, bleu_of, judge, read
from training.settings.reading import read_options
from training.settings.recipes import read_recipe
from training.sweep import Run, train_all
from vaswani_hf.evaluation import Metric, difference, resamples, seed_deviation
from vaswani_hf.text.lines import read_lines


RECIPE = "multi30k_small"
BASE, STAGES = "base", "stages"
SHORT_SHARE = 0.01  # of max_steps, with short pairs alone: 300 updates
# What each row sets beside the recipe.
ROWS: Mapping[str, Mapping[str, Any]] = {
    BASE: {},
    "bpe_dropout": {"bpe_dropout": 0.1},  # as Provilkov et al. 2020
    "r_drop": {"r_drop": 5},  # as Liang et al. 2021
    STAGES: {},  # see `stages_of`
    "filters": {"max_length_ratio": 1.5, "drop_copies": True, "drop_duplicates": True},
}
SPLITS = {"train": "train", "validation": "val", "test": "test_2016"}
SIDES = {"source": "en", "target": "de"}


def main(argv: list[str]) -> None:
    """Train what is missing, and report on what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--minutes", type=float, default=20.0, help="of each training")
    parser.add_argument("--output_dir", type=Path, default=Path("runs/regularisation"))
    parser.add_argument("--only_report", action="store_true", help="train nothing")
    parser.add_argument("--results", type=Path, help="folder of the report")
    options, others = parser.parse_known_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    data, folder = options.data.resolve(), options.output_dir
    common = {"max_minutes": options.minutes, **read_options(others)}
    runs = {
        (row, seed): run_of(row, seed, data, folder, common)
        for seed in options.seeds
        for row in options.rows
    }
    if not options.only_report:
        if STAGES in options.rows:
            split_by_length(data, folder)
        for run in train_all(runs.values(), folder):
            judge(folder / run.name, data)
    finished: dict[str, list[Judged]] = {}
    for (row, _), run in runs.items():
        if (results := run.results(folder)) is not None:
            judge(folder / run.name, data)
            finished.setdefault(row, []).append(read(folder / run.name, results))
    report = report_of(finished, list(read_lines(data / "val.de.gz")))
    report |= {"minutes": options.minutes, "runs_planned": len(runs)}
    print(markdown(report))
    write_report("regularisation", report, options.results)


def run_of(row: str, seed: int, data: Path, folder: Path, common: Mapping[str, Any]) -> Run:
    """The training of a row with a seed."""
    files = {
        f"{split}_{side}": data / f"{name}.{language}.gz"
        for split, name in SPLITS.items()
        for side, language in SIDES.items()
    }
    fields = {"threads": 1, "eval_strategy": "no", **common, **ROWS[row]}
    if row == STAGES:
        for side in SIDES:
            del files[f"train_{side}"]
        steps = int(fields.get("max_steps", read_recipe(RECIPE)["max_steps"]))
        fields |= stages_of(folder, steps)
    return Run(f"{row}-seed_{seed}", RECIPE, {**files, **fields, "seed": seed})


def stages_of(folder: Path, max_steps: int) -> dict[str, Any]:
    """The fields of the row with stages: short pairs alone at first, then all."""
    corpora = [
        {"name": name}
        | {f"train_{side}": str(path) for side, path in text_of(folder, name).items()}
        for name in ("short", "long")
    ]
    first = max(1, round(SHORT_SHARE * max_steps))
    stages = [
        {"updates": first, "weights": {"short": 1}},
        {"updates": max_steps - first, "weights": {"short": 1, "long": 1}},
    ]
    lists = {"corpora": corpora, "stages": stages}
    return {
        "dataset": "none",
        **{name: [json.dumps(item) for item in items] for name, items in lists.items()},
    }


def text_of(folder: Path, name: str) -> dict[str, Path]:
    """Where the text of a half of the pairs is, by side."""
    return {side: folder.resolve() / f"{name}.{language}.gz" for side, language in SIDES.items()}


def split_by_length(data: Path, folder: Path) -> None:
    """Write the half of the pairs with the fewest source words, and the other half."""
    if all(path.exists() for path in text_of(folder, "long").values()):
        return
    sides = [list(read_lines(data / f"train.{language}.gz")) for language in SIDES.values()]
    pairs = sorted(zip(*sides, strict=True), key=lambda pair: len(pair[0].split()))
    middle = len(pairs) // 2
    folder.mkdir(parents=True, exist_ok=True)
    for name, half in (("short", pairs[:middle]), ("long", pairs[middle:])):
        for texts, path in zip(
            zip(*half, strict=True), text_of(folder, name).values(), strict=True
        ):
            part = path.with_suffix(".part")  # of which a killed process may leave half
            part.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))
            part.replace(path)


def report_of(
    finished: Mapping[str, Sequence[Judged]], references: Sequence[str]
) -> dict[str, Any]:
    """Figures of each row, and BLEU of the validation set less that of base.

    Args:
        finished: runs by row; those of base among them.
        references: the validation set's.

    Raises:
        ValueError: if no run of base is there.
    """
    if BASE not in finished:
        raise ValueError(f"Every row is compared with {BASE}, of which no run has finished.")
    metric, samples = Metric("bleu"), list(resamples(len(references)))
    bleu = {
        row: [bleu_of(run, references, metric, samples) for run in runs]
        for row, runs in finished.items()
    }
    deviation, degrees = seed_deviation(
        [[each.score for each in of_row] for of_row in bleu.values()]
    )
    first = finished[BASE][0].results
    rows = []
    for row, runs in finished.items():
        results = [run.results for run in runs]
        less_base = difference(bleu[row], bleu[BASE], deviation)
        rows.append(
            {
                "row": row,
                "fields": dict(ROWS[row]),
                "seeds": len(runs),
                "bleu": statistics.fmean(each.score for each in bleu[row]),
                "less_base": dataclasses.asdict(less_base) if row != BASE else None,
                "test_bleu": [each["scores"]["test"]["bleu"] for each in results],
                "test_chrf++": [each["scores"]["test"]["chrf++"] for each in results],
                "updates": [each["training"]["updates"] for each in results],
                "target_tokens_per_second": [
                    each["training"]["target_tokens_per_second"] for each in results
                ],
                "pairs_kept": results[0]["data"]["pairs_kept"],
            }
        )
    return {
        "recipe": RECIPE,
        "commits": sorted(
            {run.results["commit"] or "unknown" for runs in finished.values() for run in runs}
        ),
        "runs": sum(map(len, finished.values())),
        "bleu_signature": first["scores"]["test"]["bleu_signature"],
        "seed_deviation": deviation,
        "seed_degrees_of_freedom": degrees,
        "rows": rows,
    }


def markdown(report: Mapping[str, Any]) -> str:
    """The table of a report; means over seeds."""
    lines = [
        f"{report['runs']} of {report['runs_planned']} runs, {report['minutes']:g} minutes of one "
        f"core each. Between seeds the standard deviation is {report['seed_deviation']:.2f} BLEU "
        f"({report['seed_degrees_of_freedom']} degrees of freedom).",
        f"BLEU is `{report['bleu_signature']}`.",
        "",
        "| Row | seeds | pairs kept | updates | target tokens a second | BLEU, validation | less "
        "base | BLEU, test_2016 | chrF++, test_2016 |",
        "|---" * 9 + "|",
    ]
    for row in report["rows"]:
        found = row["less_base"]
        updates, speed, test, chrf = (
            statistics.fmean(row[name])
            for name in ("updates", "target_tokens_per_second", "test_bleu", "test_chrf++")
        )
        cells = [
            *(row["row"], str(row["seeds"]), f"{row['pairs_kept']:,}", f"{updates:,.0f}"),
            *(f"{speed:,.0f}", f"{row['bleu']:.2f}"),
            f"{found['value']:+.2f} ± {found['ci']:.2f}" if found else "",
            *(f"{test:.2f}", f"{chrf:.2f}"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
