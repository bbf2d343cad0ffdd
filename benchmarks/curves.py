# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m benchmarks.curves DATA [--rows ours marian] [--seeds 1] [--updates 1200] [--minutes 40]

What are the parts of the paper's training worth? The base recipe at a tenth of its size, on the raw
files of Tatoeba, English to German, in the folder DATA (`train.en.gz`, `train.de.gz`, `valid.*`):
as it is, with one thing changed at a time, and beside the library's `MarianMTModel` of the same
shape in its `Seq2SeqTrainer`, with our settings and with its own. Each training ends after the
updates, or after so many minutes of the clock if these are over before. Loss and BLEU of the
validation set are taken along the way, by updates and by minutes of the processor.

One training comes after the other, those with the first seed before the next. The same command goes
on where it was stopped, and reports on what has finished; `--only_report` does that alone, also
while it trains elsewhere.
"""

import argparse
import dataclasses
import json
import logging
import shutil
import statistics
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from transformers import AutoModelForSeq2SeqLM, MarianConfig, Seq2SeqTrainingArguments

from benchmarks.library_training import MARIAN, VASWANI
from benchmarks.report import first_sentences, seed_score, write_lines, write_report
from benchmarks.table_3 import Judged, nats_of
from training.loop.checkpoints import checkpoints, read_state
from training.loop.model import load_tokenizer
from training.loop.schedule import peak_learning_rate
from training.outcome.averaging import average_checkpoints
from training.settings.reading import cast_values, read_options
from training.sweep import Run, train_all
from vaswani_hf import (
    Translator,
    VaswaniConfig,
    VaswaniForConditionalGeneration,
    train_tokenizer,
)
from vaswani_hf.evaluation import Metric, SeedScore, difference, resamples, seed_deviation
from vaswani_hf.pictures.drawing import (
    THEMES,
    all_handles,
    check_suffix,
    finish,
    label_axes,
    line_style,
    new_figure,
    save_picture,
)


if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECIPE = "base"
SIDES = {"source": "en", "target": "de"}
# What the recipe has less of than the paper's: half the widths, layers and heads, and a tenth of
# the pieces make a tenth of its parameters; batches and warm-up are a tenth of the paper's.
TENTH = {
    **{"vocab_size": 3700, "d_model": 256, "d_ff": 1024, "num_heads": 4},
    **{"encoder_layers": 3, "decoder_layers": 3},
    **{"source_tokens": 2500, "target_tokens": 2500, "warmup_steps": 400},
}
# Of the library, what recipes set too: the optimizer and its schedule.
OPTIMIZATION = (
    *("learning_rate", "lr_scheduler_type", "warmup_steps", "optim", "adam_beta1", "adam_beta2"),
    *("adam_epsilon", "weight_decay", "max_grad_norm", "max_steps", "num_train_epochs"),
)
LIBRARY = {spec.name: spec.default for spec in dataclasses.fields(Seq2SeqTrainingArguments)}
CHECKPOINTS = 40  # of a training that takes all minutes
POINTS = 10  # of its curve; the last update is one more
AVERAGED = 5  # section 6.1
MODULE = "benchmarks.library_training"
CURVE = "curve.jsonl"  # of a run: what its checkpoints make of each validation sentence
LAST, MEAN = "last", "mean"  # a checkpoint by itself, and the mean of the last ones
FIGURES = {"bleu": "BLEU", "nats_per_token": "nats per token"}
AXES = {"updates": "updates", "minutes": "minutes of one core"}


@dataclasses.dataclass(frozen=True)
class LibraryRun(Run):
    """A training in the library's own trainer.

    Attributes:
        words: of the command line of `benchmarks.library_training`, before the recipe.
    """

    words: Sequence[str] = ()

    def command(self, folder: Path) -> list[str]:
        """What trains it, or goes on with it."""
        python, _, *options = super().command(folder)
        return [python, "-m", MODULE, *self.words, *options]


class Row(NamedTuple):
    """What a row of the table is.

    Attributes:
        label: what it changes.
        fields: that differ from ours.
        words: how the library's trainer is called; none for our own.
        weights: which are judged: `MEAN` or `LAST`.
        run: the row whose training it is, where it has none of its own.
    """

    label: str
    fields: Mapping[str, Any] = {}
    words: Sequence[str] = ()
    weights: str = MEAN
    run: str = ""


OURS, INITIAL_VALUES = "ours", "initial_values"
ROWS = {
    OURS: Row("ours, as the paper's"),
    "no_averaging": Row("no averaging of checkpoints", weights=LAST, run=OURS),
    "sentence_batches": Row("batches of sentences", words=[VASWANI]),
    "constant_rate": Row(
        "a constant rate after the warm-up", {"lr_scheduler_type": "constant_with_warmup"}
    ),
    "linear_rate": Row(
        "linear decay, no warm-up", {"lr_scheduler_type": "linear", "warmup_steps": 0}
    ),
    "no_smoothing": Row("no label smoothing", {"label_smoothing": 0.0}),
    INITIAL_VALUES: Row("Marian's initial values"),
    "marian": Row("Marian, our settings", words=[MARIAN, "--by_length"], weights=LAST),
    "marian_defaults": Row(
        "Marian, the library's settings",
        {name: LIBRARY[name] for name in OPTIMIZATION}
        | {"label_smoothing": LIBRARY["label_smoothing_factor"]},
        [MARIAN, "--sentences", str(LIBRARY["per_device_train_batch_size"])],
        LAST,
    ),
}


class Point(NamedTuple):
    """Where a training was, and what it scored.

    Attributes:
        updates: made so far.
        minutes: taken so far.
        scores: by figure.
    """

    updates: float
    minutes: float
    scores: Mapping[str, SeedScore]


def main(argv: list[str]) -> None:
    """Train what is missing, and report on what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--updates", type=int, default=1200, help="of a training, at most")
    parser.add_argument("--minutes", type=float, default=40.0, help="of a training, at most")
    parser.add_argument("--sentences", type=int, default=1000, help="of the validation set")
    parser.add_argument("--output_dir", type=Path, default=Path("runs/curves"))
    parser.add_argument("--only_report", action="store_true", help="train nothing")
    parser.add_argument("--results", type=Path, help="folder of the report")
    parser.add_argument("--picture", type=Path, help="draw the report: .png, .svg or .pdf")
    parser.add_argument("--theme", choices=list(THEMES), default="light", help="of the picture")
    options, others = parser.parse_known_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if options.picture:
        check_suffix(options.picture)
    data, folder = options.data.resolve(), options.output_dir.resolve()
    sources, references = (
        first_sentences(str(data / f"valid.{side}.gz"), options.sentences) for side in ("en", "de")
    )
    common = {
        **{f"train_{side}": data / f"train.{name}.gz" for side, name in SIDES.items()},
        **{**TENTH, "average_last": AVERAGED, "eval_strategy": "no", "threads": 1},
        **{"max_steps": options.updates, "max_minutes": options.minutes, "disable_tqdm": True},
        "save_minutes": options.minutes / CHECKPOINTS,
        **{"tokenizer": folder / "tokenizer", **read_options(others)},
    }
    runs = {
        (name, seed): run_of(name, seed, folder, common)
        for seed in options.seeds
        for name in dict.fromkeys(ROWS[row].run or row for row in options.rows)
    }
    if not options.only_report:
        prepare(options, folder, common)
        names = {run.name: name for (name, _), run in runs.items()}
        for run in train_all(runs.values(), folder):
            judge(folder / run.name, names[run.name], sources, references, options.updates)
    finished: dict[str, dict[int, dict[str, Any]]] = {}
    for (name, seed), run in runs.items():
        if (folder / run.name / CURVE).exists() and (results := run.results(folder)) is not None:
            finished.setdefault(name, {})[seed] = results
    curves = {
        row: {
            seed: read(folder / runs[name, seed].name, ROWS[row].weights, references)
            for seed in finished[name]
        }
        for row in options.rows
        if (name := ROWS[row].run or row) in finished
    }
    report = report_of(curves, finished)
    report |= {name: getattr(options, name) for name in ("updates", "minutes", "sentences")}
    metric = Metric("bleu")
    signature = metric.score(metric.statistics(references, [references])).signature
    settings = {**TENTH, **read_options(others)}
    report |= {"bleu_signature": signature, "settings": settings, "runs_planned": len(runs)}
    print(markdown(report))
    write_report("curves", report, options.results)
    if options.picture:
        save_picture(draw(report, options.theme), options.picture)


def run_of(name: str, seed: int, folder: Path, common: Mapping[str, Any]) -> Run:
    """The training of a row with a seed."""
    row = ROWS[name]
    peak = peak_learning_rate(int(common["d_model"]), int(common["warmup_steps"]))
    fields = {"learning_rate": peak, **common, **row.fields, "seed": seed}
    if name == INITIAL_VALUES:
        fields["model_name_or_path"] = folder / f"{INITIAL_VALUES}_{seed}"
    run = f"{name}-seed_{seed}"
    return LibraryRun(run, RECIPE, fields, row.words) if row.words else Run(run, RECIPE, fields)


def prepare(options: argparse.Namespace, folder: Path, common: Mapping[str, Any]) -> None:
    """Learn the vocabulary of all rows, once, and draw Marian's initial values for each seed."""
    tokenizer_folder = folder / "tokenizer"
    if not tokenizer_folder.exists():
        texts = [common[f"train_{side}"] for side in SIDES]
        tokenizer = train_tokenizer(texts, int(common["vocab_size"]), show_progress=False)
        part = tokenizer_folder.with_suffix(".part")  # of which a killed process may leave half
        tokenizer.save_pretrained(part)
        part.replace(tokenizer_folder)
    for seed in options.seeds if INITIAL_VALUES in options.rows else ():
        start = folder / f"{INITIAL_VALUES}_{seed}"
        if not start.exists():
            tokenizer = load_tokenizer(tokenizer_folder)
            shape = {name: common[name] for name in VaswaniConfig.__annotations__ if name in common}
            config = VaswaniConfig(**{**cast_values(shape), "vocab_size": len(tokenizer)})
            model = VaswaniForConditionalGeneration(config)
            draw_as_marian(model, seed)
            part = start.with_suffix(".part")
            tokenizer.save_pretrained(part)
            model.save_pretrained(part)
            part.replace(start)


@torch.no_grad()
def draw_as_marian(model: VaswaniForConditionalGeneration, seed: int) -> None:
    """Give a new model the initial values of `MarianMTModel`.

    All its matrices are N(0, `init_std`^2), but for zeros at `<pad>`. Its layer normalizations and
    biases begin as ours.
    """
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=MarianConfig().init_std, generator=generator)
    model.get_input_embeddings().weight[model.config.pad_token_id] = 0.0


# The points of a curve


def judge(
    folder: Path,
    name: str,
    sources: Sequence[str],
    references: Sequence[str],
    max_updates: int,
) -> None:
    """Write what the checkpoints of a finished run make of the validation set, once.

    Then all checkpoints but the last are removed. Translations are greedy.

    Args:
        folder: of the run.
        name: of its row.
        sources: of the validation set.
        references: likewise.
        max_updates: of a training.
    """
    path, saved = folder / CURVE, checkpoints(folder)
    if path.exists():
        return
    updates = [read_state(checkpoint)["global_step"] for checkpoint in saved]
    seconds = [seconds_of(checkpoint) for checkpoint in saved]
    kinds = {row.weights for key, row in ROWS.items() if (row.run or key) == name}
    lines = []
    for place in places_of_points(updates, seconds, max_updates):
        model = AutoModelForSeq2SeqLM.from_pretrained(saved[place])
        translator = Translator(model, load_tokenizer(saved[place]), num_beams=1)
        for kind in [kind for kind in (LAST, MEAN) if kind in kinds]:
            if kind == MEAN:
                last = saved[max(place + 1 - AVERAGED, 0) : place + 1]
                model.load_state_dict(average_checkpoints(last), strict=False)  # some are tied
            scores = list(translator.score(sources, references))
            lines.append(
                {
                    "updates": updates[place],
                    "seconds": seconds[place],
                    "weights": kind,
                    "translations": list(translator(sources)),
                    "nats": [-score.log_prob for score in scores],
                    "tokens": [len(score.ids) for score in scores],
                }
            )
    write_lines(path, [json.dumps(line, ensure_ascii=False) for line in lines])
    for checkpoint in saved[:-1]:
        shutil.rmtree(checkpoint)


def places_of_points(
    updates: Sequence[int], seconds: Sequence[float], max_updates: int
) -> list[int]:
    """Which checkpoints are judged: evenly spread over the time, and the last one.

    A training whose updates are small makes more than the others: there one has as many as they.

    Args:
        updates: of each checkpoint.
        seconds: likewise.
        max_updates: of the others.
    """
    times = [seconds[-1] * number / POINTS for number in range(1, POINTS)]
    places = {_nearest(seconds, time) for time in times}
    if max_updates < updates[-1]:
        places.add(_nearest(updates, max_updates))
    return sorted({*places, len(updates) - 1})


def _nearest(numbers: Sequence[float], wanted: float) -> int:
    return min(range(len(numbers)), key=lambda place: abs(numbers[place] - wanted))


def seconds_of(checkpoint: Path) -> float:
    """The processor time of the training so far, that before a resumption included."""
    clock = read_state(checkpoint)["stateful_callbacks"]["CheckpointClock"]
    return float(clock["attributes"]["processor_seconds_before"])


def read(folder: Path, weights: str, references: Sequence[str]) -> list[Point]:
    """The curve of a run, by one of the two kinds of weights."""
    metric, samples = Metric("bleu"), list(resamples(len(references)))
    points = []
    for text in (folder / CURVE).read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if line["weights"] == weights:
            judged = Judged({}, *(line[name] for name in ("translations", "nats", "tokens")))
            scores = {
                "bleu": seed_score(metric, judged.translations, references, samples),
                "nats_per_token": nats_of(judged, samples),
            }
            points.append(Point(line["updates"], line["seconds"] / 60, scores))
    return points


def at(curve: Sequence[Point], axis: str, place: float) -> dict[str, SeedScore]:
    """The scores at a place of an axis, on the straight line between the points around it.

    Args:
        curve: by growing `axis`.
        axis: one of `AXES`.
        place: not after the last point; before the first one it has the first one's scores.
    """
    if place <= getattr(curve[0], axis):
        return dict(curve[0].scores)
    for before, after in pairwise(curve):
        low, high = getattr(before, axis), getattr(after, axis)
        if place <= high:
            share = (place - low) / (high - low)
            return {
                name: _between(before.scores[name], after.scores[name], share) for name in FIGURES
            }
    raise ValueError(f"The curve ends at {getattr(curve[-1], axis):g} {axis}, before {place:g}.")


def _between(before: SeedScore, after: SeedScore, share: float) -> SeedScore:
    pairs = zip(before.resampled, after.resampled, strict=True)
    return SeedScore(
        before.score + share * (after.score - before.score),
        [one + share * (other - one) for one, other in pairs],
    )


# The report


def report_of(
    curves: Mapping[str, Mapping[int, Sequence[Point]]],
    finished: Mapping[str, Mapping[int, Mapping[str, Any]]],
) -> dict[str, Any]:
    """The curves, and what each row scores after the updates and minutes that all have reached.

    Args:
        curves: by row and seed; those of ours among them.
        finished: results of the trainings, likewise.

    Raises:
        ValueError: if no run of ours is there.
    """
    if OURS not in curves:
        raise ValueError(f"Every row is compared with {OURS}, of which no run has finished.")
    every = [curve for seeds in curves.values() for curve in seeds.values()]
    equal: dict[str, Any] = {}
    for axis in AXES:
        place = min(getattr(curve[-1], axis) for curve in every)
        scores = {
            row: [at(curve, axis, place) for curve in seeds.values()]
            for row, seeds in curves.items()
        }
        equal[axis] = {"place": place, "seed_deviation": {}, "rows": {row: {} for row in curves}}
        for name in FIGURES:
            of_rows = {row: [each[name] for each in seeds] for row, seeds in scores.items()}
            deviation, degrees = seed_deviation(
                [[each.score for each in of_row] for of_row in of_rows.values()]
            )
            equal[axis]["seed_deviation"][name] = deviation
            equal[axis]["seed_degrees_of_freedom"] = degrees
            for row, of_row in of_rows.items():
                found = equal[axis]["rows"][row]
                found[name] = statistics.fmean(each.score for each in of_row)
                if row != OURS:
                    less = difference(of_row, of_rows[OURS], deviation, degrees or None)
                    found[f"{name}_less_ours"] = dataclasses.asdict(less)
    return {
        "recipe": RECIPE,
        "commits": sorted(
            {run["commit"] or "unknown" for seeds in finished.values() for run in seeds.values()}
        ),
        "runs": sum(map(len, finished.values())),
        "equal": equal,
        "rows": [
            row_of(row, seeds, finished[ROWS[row].run or row]) for row, seeds in curves.items()
        ],
    }


def row_of(
    row: str,
    seeds: Mapping[int, Sequence[Point]],
    finished: Mapping[int, Mapping[str, Any]],
) -> dict[str, Any]:
    """What is reported of a row by itself: its settings, and the curve of each seed."""
    one = next(iter(finished.values()))
    return {
        "row": row,
        "label": ROWS[row].label,
        "fields": dict(ROWS[row].fields),
        "weights": ROWS[row].weights,
        "parameters": one["parameters"],
        "sentences_of_a_batch": one.get("sentences_of_a_batch"),
        "updates_per_minute": statistics.fmean(
            curve[-1].updates / curve[-1].minutes for curve in seeds.values()
        ),
        "curves": {
            seed: {
                **{axis: [getattr(point, axis) for point in curve] for axis in AXES},
                **{name: [point.scores[name].score for point in curve] for name in FIGURES},
            }
            for seed, curve in seeds.items()
        },
    }


def markdown(report: Mapping[str, Any]) -> str:
    """The table of a report: each row at equal updates, and at equal minutes."""
    updates, minutes = (report["equal"][axis] for axis in AXES)
    lines = [
        f"{report['runs']} of {report['runs_planned']} runs. BLEU is `{report['bleu_signature']}`, "
        f"of {report['sentences']:,} sentences of the validation set, by greedy search.",
        "",
    ]
    titles = ["Row", "seeds", "updates a minute"]
    for after in (f"{updates['place']:,.0f} updates", f"{minutes['place']:.1f} minutes"):
        titles += [f"BLEU after {after}", "less ours", "nats per token", "less ours"]
    lines += ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for row in report["rows"]:
        cells = [row["label"], str(len(row["curves"])), f"{row['updates_per_minute']:.1f}"]
        for equal in (updates, minutes):
            scores = equal["rows"][row["row"]]
            for name, digits in (("bleu", 2), ("nats_per_token", 3)):
                less = scores.get(f"{name}_less_ours")
                told = f"{less['value']:+.{digits}f} ± {less['ci']:.{digits}f}" if less else ""
                cells += [f"{scores[name]:.{digits}f}", told]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw(report: Mapping[str, Any], theme: str = "light") -> "Figure":
    """Loss and BLEU over updates and over minutes, a line for each row and seed."""
    figure = new_figure(theme)
    figure.set_size_inches(10.4, 8.2)
    grid = figure.subplots(2, 2, sharex="col", sharey="row")
    for axes_of_figure, (name, title) in zip(grid, FIGURES.items(), strict=True):
        for axes, (axis, unit) in zip(axes_of_figure, AXES.items(), strict=True):
            for number, row in enumerate(report["rows"]):
                for curve in row["curves"].values():
                    style = line_style(number, theme)
                    axes.plot(curve[axis], curve[name], label=row["label"], **style)
            label_axes(axes, unit, f"validation {title}", theme)
    longest = max(max(curve["updates"]) for curve in report["rows"][0]["curves"].values())
    grid[0][0].set_xlim(0, 1.03 * longest)  # the library's own batches make many more
    grid[0][1].set_xlim(left=0)
    handles, names = all_handles(grid.flat)
    figure.legend(handles, names, loc="outside upper center", ncols=3, frameon=False)
    return finish(figure, theme)


if __name__ == "__main__":
    main(sys.argv[1:])
