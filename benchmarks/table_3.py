# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m benchmarks.table_3 DATA [--rows base c_2_layers] [--seeds 1 2] [--field value ...]

Which parts of the model matter? The rows of Table 3 in small: recipe `multi30k_table3`, on the raw
files of Multi30k in the folder DATA (`train.en.gz`, `train.de.gz`, `val.*`), varied as the recipes
`table3/...` vary the base model, with equal updates. Each row is trained with each seed, one
training after the other, in an order in which any number of first ones tells something. The same
command goes on where it was stopped, and reports on what has finished; `--only_report` does that
alone. BLEU and perplexity of each row stand beside those of base, with their 95 % confidence over
sentences and seeds, and beside the paper's.
"""

import argparse
import dataclasses
import json
import logging
import math
import re
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.report import seed_score, write_lines, write_report
from training.outcome.results import training_seconds
from training.settings.fields import ModelArguments
from training.settings.reading import field_names, read_options
from training.settings.recipes import comment_of, read_recipe
from training.sweep import Run, train_all
from vaswani_hf import Translator
from vaswani_hf.evaluation import Metric, SeedScore, difference, resamples, seed_deviation
from vaswani_hf.pictures.drawing import (
    THEMES,
    all_handles,
    check_suffix,
    finish,
    new_figure,
    save_picture,
    theme_of,
)
from vaswani_hf.text.lines import read_lines


if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECIPE = "multi30k_table3"
# What the recipe has less of than the paper's base model, and by what factor.
SMALLER = {"d_model": 4, "d_ff": 4, "d_k": 4, "d_v": 4, "encoder_layers": 2, "decoder_layers": 2}
BASE, BIG = "base", "big"
# In the order of their training: a row of each letter, then others; those that cost most are last.
GROUPS = (
    (BASE,),
    ("a_1_head", "b_d_k_16", "c_2_layers", "d_dropout_0_0", "e_learned_positions"),
    ("a_32_heads", "b_d_k_32", "c_d_model_256", "c_d_ff_1024", "d_label_smoothing_0_0"),
    ("a_4_heads", "c_4_layers", "d_dropout_0_2", "d_label_smoothing_0_2", "c_d_ff_4096"),
    ("a_16_heads", "c_8_layers"),
    ("c_d_model_1024",),
    (BIG,),
)
SENTENCES = "validation.jsonl"  # of a run: what it says of each sentence
# The head of a recipe of Table 3, which has the published figures.
PUBLISHED = re.compile(
    r"Table 3, (?:row (?P<letter>\w): )?(?P<label>.+?)\. "
    r"The paper: dev BLEU (?P<bleu>[\d.]+), perplexity (?P<perplexity>\d+\.\d+)"
)
# How they are shown: the title and the digits after the point.
FIGURES = {"bleu": ("BLEU", 2), "nats_per_token": ("ln perplexity", 3)}
BETTER = {"bleu": "more", "nats_per_token": "less"}
TWINS = ("d_v", "decoder_layers")  # as d_k and encoder_layers
DIRECTIONS = SAME, OTHER, OPEN = "as the paper's", "not as the paper's", "open"


class Judged(NamedTuple):
    """A finished run: its results, and what it says of each validation sentence."""

    results: dict[str, Any]
    translations: list[str]
    nats: list[float]
    tokens: list[int]


def main(argv: list[str]) -> None:
    """Train what is missing, and report on what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    every = [row for group in GROUPS for row in group]
    parser.add_argument("--rows", nargs="+", choices=every, default=every, metavar="ROW")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--output_dir", type=Path, default=Path("runs/table_3"))
    parser.add_argument("--only_report", action="store_true", help="train nothing")
    parser.add_argument("--results", type=Path, help="folder of the report")
    parser.add_argument("--picture", type=Path, help="draw the report: .png, .svg or .pdf")
    parser.add_argument("--theme", choices=list(THEMES), default="light", help="of the picture")
    options, others = parser.parse_known_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if options.picture:
        check_suffix(options.picture)
    data, common = options.data.resolve(), read_options(others)
    runs = {
        (row, seed): run_of(row, seed, data, common)
        for group in GROUPS
        for seed in options.seeds
        for row in group
        if row in options.rows
    }
    if not options.only_report:
        for run in train_all(runs.values(), options.output_dir):
            judge(options.output_dir / run.name, data)
    finished: dict[str, dict[int, Judged]] = {}
    for (row, seed), run in runs.items():
        if (results := run.results(options.output_dir)) is not None:
            judge(options.output_dir / run.name, data)
            finished.setdefault(row, {})[seed] = read(options.output_dir / run.name, results)
    report = report_of(finished, list(read_lines(data / "val.de.gz")))
    report["runs_planned"] = len(runs)
    print(markdown(report))
    write_report("table_3", report, options.results)
    if options.picture:
        save_picture(draw(report, options.theme), options.picture)


def run_of(row: str, seed: int, data: Path, common: Mapping[str, Any]) -> Run:
    """The training of a row with a seed."""
    files = {
        f"{split}_{side}": data / f"{name}.{language}.gz"
        for split, name in (("train", "train"), ("validation", "val"))
        for side, language in (("source", "en"), ("target", "de"))
    }
    return Run(f"{row}-seed_{seed}", RECIPE, {**files, **common, **changes_of(row), "seed": seed})


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
    write_lines(path, lines)


def read(folder: Path, results: dict[str, Any]) -> Judged:
    """What a run has come to, and what `judge` has written of it."""
    lines = [json.loads(line) for line in read_lines(folder / SENTENCES)]
    names = ("translation", "nats", "tokens")
    return Judged(results, *([line[name] for line in lines] for name in names))


# The report


def report_of(
    finished: Mapping[str, Mapping[int, Judged]], references: Sequence[str]
) -> dict[str, Any]:
    """Figures of each row beside those of base and of the paper.

    Args:
        finished: runs by row and seed; those of base among them.
        references: the validation set's.

    Raises:
        ValueError: if no run of base is there, or runs differ in updates or in tokens.
    """
    if BASE not in finished:
        raise ValueError(f"Every row is compared with {BASE}, of which no run has finished.")
    runs = [run for seeds in finished.values() for run in seeds.values()]
    for what, found in {
        "updates": {run.results["training"]["updates"] for run in runs},
        "tokens of the references": {tuple(run.tokens) for run in runs},
    }.items():
        if len(found) > 1:
            raise ValueError(f"Runs compare only where all have the same {what}.")
    metric = Metric("bleu")
    samples = list(resamples(len(references)))
    scores = {
        row: {
            "bleu": [
                seed_score(metric, run.translations, references, samples) for run in seeds.values()
            ],
            "nats_per_token": [nats_of(run, samples) for run in seeds.values()],
        }
        for row, seeds in finished.items()
    }
    deviations, degrees = {}, 0
    for name in FIGURES:
        of_seeds = [[each.score for each in of_row[name]] for of_row in scores.values()]
        deviations[name], degrees = seed_deviation(of_seeds)
    rows = [
        row_of(row, finished[row], scores, deviations, degrees)
        for row in sorted(finished, key=in_the_paper)
    ]
    return {
        "recipe": RECIPE,
        "commits": sorted({run.results["commit"] or "unknown" for run in runs}),
        "updates": runs[0].results["training"]["updates"],
        "runs": len(runs),
        "bleu_signature": runs[0].results["scores"]["validation"]["bleu_signature"],
        "sentences": len(references),
        "seed_deviation": deviations,
        "seed_degrees_of_freedom": degrees,
        "rows": rows,
    }


def in_the_paper(row: str) -> tuple[bool, bool, str]:
    """Sorts rows: base, by letter and number, big."""
    return row == BIG, row != BASE, re.sub(r"\d+", lambda number: number[0].zfill(5), row)


def nats_of(run: Judged, samples: Iterable[Any]) -> SeedScore:
    """The logarithm of a run's perplexity, on all sentences and on samples of them."""
    nats, tokens = np.array(run.nats), np.array(run.tokens)
    drawn = [float(nats[some].sum() / tokens[some].sum()) for some in samples]
    return SeedScore(float(nats.sum() / tokens.sum()), drawn)


def row_of(
    row: str,
    seeds: Mapping[int, Judged],
    scores: Mapping[str, Mapping[str, Sequence[SeedScore]]],
    deviations: Mapping[str, float],
    degrees: int,
) -> dict[str, Any]:
    """What is reported of a row.

    Args:
        row: its name.
        seeds: its runs.
        scores: by row and figure, those of each seed.
        deviations: between the seeds of a row, by figure.
        degrees: of freedom that they are from.
    """
    published, base = published_of(row), published_of(BASE)
    one = next(iter(seeds.values())).results
    differences = {}
    for name in FIGURES:
        found = difference(scores[row][name], scores[BASE][name], deviations[name], degrees)
        paper = round(published[name] - base[name], 4)
        differences[name] = {**dataclasses.asdict(found), "paper": paper}
        differences[name]["direction"] = direction(found.value, found.ci, paper, degrees)
    return {
        "row": row,
        "letter": published["letter"],
        "label": published["label"],
        "fields": changes_of(row),
        "parameters": one["parameters"],
        "seeds": {
            seed: {name: round(scores[row][name][place].score, 4) for name in FIGURES}
            | {
                "chrf++": round(run.results["scores"]["validation"]["chrf++"], 4),
                "seconds": round(training_seconds(run.results)),
            }
            for place, (seed, run) in enumerate(seeds.items())
        },
        **{name: statistics.fmean(each.score for each in scores[row][name]) for name in FIGURES},
        "differences": differences if row != BASE else {},
        "paper": published,
    }


def published_of(row: str) -> dict[str, Any]:
    """What the paper says of a row, as the head of its recipe has it."""
    found = PUBLISHED.match(comment_of(f"table3/{row}"))
    assert found, row
    return {
        "letter": found["letter"] or "",
        "label": found["label"],
        "bleu": float(found["bleu"]),
        "nats_per_token": math.log(float(found["perplexity"])),
    }


def direction(value: float, ci: float, paper: float, degrees: int) -> str:
    """Whether a difference has the sign of the paper's, as far as the confidence goes.

    Without two seeds of any row nothing is known of what seeds change, and the confidence lacks it.
    """
    if abs(value) <= ci or not degrees:
        return OPEN
    return SAME if value * paper > 0 else OTHER


# The table and the picture


def markdown(report: Mapping[str, Any]) -> str:
    """The table of a report, and how often its directions are the paper's.

    In bold is what is further from 0 than its confidence, once a row has two seeds.
    """
    rows = [shown(row) for row in report["rows"]]
    bleu, nats = (report["seed_deviation"][name] for name in FIGURES)
    lines = [
        f"{report['runs']} of {report['runs_planned']} runs, {report['updates']:,} updates each. "
        f"Between seeds the standard deviation is {bleu:.2f} BLEU and {nats:.3f} nats "
        f"({report['seed_degrees_of_freedom']} degrees of freedom).",
        f"BLEU is `{report['bleu_signature']}`.",
        "",
    ]
    lines += ["| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|"]
    lines += ["| " + " | ".join(row.values()) + " |" for row in rows]
    lines += ["", "| Difference from base | " + " | ".join(DIRECTIONS) + " |", "|---" * 4 + "|"]
    for name, (title, _) in FIGURES.items():
        told = [
            row["differences"][name]["direction"] for row in report["rows"] if row["differences"]
        ]
        counts = " | ".join(str(told.count(direction)) for direction in DIRECTIONS)
        lines.append(f"| {title} | {counts} |")
    return "\n".join(lines) + "\n"


def shown(row: Mapping[str, Any]) -> dict[str, str]:
    """A row as it is printed."""
    cells = {
        "Row": f"{row['letter']} {row['label']}".strip(),
        "here": ", ".join(
            f"{name} {value}" for name, value in row["fields"].items() if name not in TWINS
        ),
        "seeds": str(len(row["seeds"])),
    }
    perplexity = math.exp(row["nats_per_token"])
    means = {
        "bleu": {"BLEU": f"{row['bleu']:.2f}"},
        "nats_per_token": {"perplexity": f"{perplexity:.2f}"},
    }
    for name, (title, digits) in FIGURES.items():
        cells |= means[name]
        found, here, paper = row["differences"].get(name), "", ""
        if found:
            here = f"{found['value']:+.{digits}f} ± {found['ci']:.{digits}f}"
            here = here if found["direction"] == OPEN else f"**{here}**"
            paper = f"{found['paper']:+.{digits}f}"
        cells |= {f"{title}, less base": here, f"the paper's {title}, less base": paper}
    return cells


def label_of(row: Mapping[str, Any]) -> str:
    """The row in the paper's words, with the value here where that is another."""
    name, value = next(iter(row["fields"].items()))
    here = f" (here {value})" if name in SMALLER and row["row"] != BIG else ""
    return f"{row['letter']}  {row['label']}{here}"


def draw(report: Mapping[str, Any], theme: str = "light") -> "Figure":
    """Differences from base: ours with their confidence and each seed, and the paper's.

    Raises:
        ValueError: if there is no row beside base.
    """
    rows = [row for row in report["rows"] if row["differences"]]
    if not rows:
        raise ValueError(f"No row but {BASE} has finished: there is nothing to draw.")
    base = next(row for row in report["rows"] if row["row"] == BASE)
    colours = theme_of(theme)
    figure = new_figure(theme)
    figure.set_size_inches(9.4, 1.6 + 0.34 * len(rows))
    both = figure.subplots(1, 2, sharey=True)
    for axes, (name, (title, _)) in zip(both, FIGURES.items(), strict=True):
        axes.axvline(0, color=colours.ink, linewidth=0.8, zorder=1)
        for place, row in enumerate(rows):
            found = row["differences"][name]
            axes.errorbar(
                *(found["value"], place + 0.12),
                xerr=found["ci"],
                fmt="o",
                color=colours.colours[0],
                capsize=2.5,
                markersize=5,
                label="here, with its 95 % interval",
                zorder=3,
            )
            alone = [seed[name] - base[name] for seed in row["seeds"].values()]
            axes.plot(
                *(alone, [place + 0.12] * len(alone)),
                "|",
                color=colours.ink,
                markersize=9,
                label="here, a seed",
                zorder=4,
            )
            axes.plot(
                *(found["paper"], place - 0.2),
                "D",
                markerfacecolor=colours.paper,
                color=colours.colours[1],
                markersize=5,
                label="the paper",
                zorder=3,
            )
        axes.set_xlabel(f"{title}, less that of base ({BETTER[name]} is better)")
        axes.grid(True, axis="x", color=colours.faint, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        for place in range(1, len(rows)):
            if rows[place]["letter"] != rows[place - 1]["letter"]:
                axes.axhline(place - 0.5, color=colours.faint, linewidth=0.8)
    both[0].set_yticks(range(len(rows)), map(label_of, rows))
    both[0].set_ylim(len(rows) - 0.5, -0.5)
    handles, names = all_handles(both)
    figure.legend(handles[::-1], names[::-1], loc="outside upper center", ncols=3, frameon=False)
    return finish(figure, theme)


if __name__ == "__main__":
    main(sys.argv[1:])
