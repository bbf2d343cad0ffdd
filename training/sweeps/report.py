# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which setting is best, and which others chance alone may have put behind it?

Settings are judged by the validation set, never by the test set. Where settings have several seeds,
their means are compared, with the errors of both the sentences and the seeds; where all have one,
by sacrebleu's paired tests, which tell of the sentences alone.
"""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaswani_hf.evaluation import (
    Metric,
    SeedScore,
    compare,
    difference,
    resamples,
    seed_deviation,
)
from vaswani_hf.text.lines import read_lines
from vaswani_hf.text.tables import align

from ..outcome.results import HYPOTHESES, REFERENCES, training_seconds
from ..outcome.scores import SHOWN
from ..settings.kinds import written


VALIDATION, TEST = "validation", "test"
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Finished:
    """What a run has come to.

    Attributes:
        results: of `results.json`.
        hypotheses: its translations of the validation set.
        references: of the same sentences.
    """

    results: Mapping[str, Any]
    hypotheses: list[str]
    references: list[str]

    @classmethod
    def of(cls, folder: Path, results: Mapping[str, Any]) -> "Finished":
        """Read a run's folder.

        Raises:
            ValueError: if it has no translations of a validation set.
        """
        paths = [folder / name.format(split=VALIDATION) for name in (HYPOTHESES, REFERENCES)]
        if not all(path.is_file() for path in paths) or VALIDATION not in results["scores"]:
            raise ValueError(
                f"{folder} has no translations of a validation set, by which settings are judged; "
                f"name one, such as by --validation_source and --validation_target."
            )
        return cls(results, *(list(read_lines(path)) for path in paths))


@dataclass(frozen=True)
class Row:
    """A setting, beside the best one.

    Attributes:
        name: of the setting.
        fields: what it sets.
        seeds: figures of each seed: of the validation set `score` by the metric, `bleu`, `chrf++`
            and `loss_nats_per_token`; of training `minutes` and `updates`; `parameters`; `test` has
            BLEU and chrF++ of the test set, where there is one.
        score: the mean over the seeds.
        chrf: likewise, chrF++.
        minutes: likewise.
        behind: how much less than the best one's the mean is; 0 for the best.
        ci: half the width of the 95 % interval of that for sentences and seeds; `None` where every
            setting has one seed.
        p_bootstrap: of the paired tests, where every setting has one seed and the texts differ.
        p_randomization: likewise.
        is_apart: whether the setting is worse than the best beyond chance.
    """

    name: str
    fields: Mapping[str, Any]
    seeds: Mapping[int, Mapping[str, Any]]
    score: float
    chrf: float
    minutes: float
    behind: float = 0.0
    ci: float | None = None
    p_bootstrap: float | None = None
    p_randomization: float | None = None
    is_apart: bool = False


@dataclass(frozen=True)
class Report:
    """Settings, the best one first.

    Attributes:
        recipe: what they are settings of.
        metric: `bleu` or `chrf++`.
        signature: sacrebleu's.
        sentences: of the validation set.
        seed_deviation: standard deviation between the seeds of a setting; `None` where every
            setting has one.
        seed_degrees_of_freedom: that it is from.
        rows: of the settings.
    """

    recipe: str
    metric: str
    signature: str
    sentences: int
    seed_deviation: float | None
    seed_degrees_of_freedom: int
    rows: tuple[Row, ...]

    @property
    def best(self) -> Row:
        """The setting of the highest mean."""
        return self.rows[0]

    @property
    def fields(self) -> list[str]:
        """What the settings set."""
        return list(dict.fromkeys(field for row in self.rows for field in row.fields))

    @property
    def level(self) -> list[Row]:
        """The settings that cannot be told from the best one."""
        return [row for row in self.rows[1:] if not row.is_apart]


def report_of(
    recipe: str,
    settings: Mapping[str, Mapping[str, Any]],
    finished: Mapping[str, Mapping[int, Finished]],
    metric: Metric,
) -> Report:
    """Judge the settings that have a finished run.

    Args:
        recipe: what they are settings of.
        settings: the fields of each, by its name.
        finished: runs by the name of their setting and by their seed.
        metric: BLEU or chrF++.

    Raises:
        ValueError: if nothing has finished, or runs were judged on different validation sets.
    """
    runs = [run for seeds in finished.values() for run in seeds.values()]
    if not runs:
        raise ValueError("No run has finished: there is nothing to report on.")
    references = runs[0].references
    if any(run.references != references for run in runs):
        raise ValueError("Runs compare only where all have the same validation set.")
    counts = {
        name: [metric.statistics(run.hypotheses, [references]) for run in seeds.values()]
        for name, seeds in finished.items()
    }
    scores = {name: [metric.score(rows).score for rows in found] for name, found in counts.items()}
    rows = [_row(name, settings[name], finished[name], scores[name]) for name in finished]
    rows.sort(key=lambda row: -row.score)
    deviation, degrees = seed_deviation(scores.values())
    if degrees:
        samples = list(resamples(len(references)))
        resampled = {
            name: [
                SeedScore(score, metric.rescore(each, samples))
                for score, each in zip(scores[name], found, strict=True)
            ]
            for name, found in counts.items()
        }
        rows = [
            rows[0],
            *(_by_seeds(row, rows[0], resampled, deviation, degrees) for row in rows[1:]),
        ]
    else:
        texts = [run.hypotheses for row in rows for run in finished[row.name].values()]
        rows = _by_paired_tests(rows, texts, references, metric)
    return Report(
        recipe,
        metric.name,
        metric.score(next(iter(counts.values()))[0]).signature,
        len(references),
        deviation if degrees else None,
        degrees,
        tuple(rows),
    )


def _row(
    name: str, fields: Mapping[str, Any], runs: Mapping[int, Finished], scores: Sequence[float]
) -> Row:
    seeds = {
        seed: _figures(run.results, score)
        for (seed, run), score in zip(runs.items(), scores, strict=True)
    }
    score, chrf, minutes = (
        statistics.fmean(figures[what] for figures in seeds.values())
        for what in ("score", "chrf++", "minutes")
    )
    return Row(name, dict(fields), seeds, score, chrf, minutes)


def _figures(results: Mapping[str, Any], score: float) -> dict[str, Any]:
    validation, test = (results["scores"].get(split, {}) for split in (VALIDATION, TEST))
    return {
        "score": score,
        **{name: validation[name] for name in (*SHOWN, "loss_nats_per_token")},
        "minutes": training_seconds(results) / 60,
        "updates": results["training"]["updates"],
        "parameters": results["parameters"],
        "test": {name: test[name] for name in SHOWN if name in test},
    }


def _by_seeds(
    row: Row,
    best: Row,
    scores: Mapping[str, Sequence[SeedScore]],
    deviation: float,
    degrees: int,
) -> Row:
    found = difference(scores[best.name], scores[row.name], deviation, degrees)
    return dataclasses.replace(
        row, behind=found.value, ci=found.ci, is_apart=found.value > found.ci
    )


def _by_paired_tests(
    rows: Sequence[Row],
    texts: Sequence[Sequence[str]],
    references: Sequence[str],
    metric: Metric,
) -> list[Row]:
    """The rows with what the tests say; they say nothing of a text that is the best one's."""
    best, *others = rows
    behind = [dataclasses.replace(row, behind=best.score - row.score) for row in others]
    different = {row.name: text for row, text in zip(rows, texts, strict=True) if text != texts[0]}
    if not different:
        return [best, *behind]
    (found,) = compare({best.name: texts[0], **different}, [references], [metric])
    tested = {system.system: system for system in found.systems[1:]}
    return [best, *(_with_chances(row, tested.get(row.name)) for row in behind)]


def _with_chances(row: Row, system: Any) -> Row:
    if system is None:
        return row
    chances = (system.p_bootstrap, system.p_randomization)
    return dataclasses.replace(
        row,
        p_bootstrap=chances[0],
        p_randomization=chances[1],
        is_apart=all(chance <= SIGNIFICANT for chance in chances),
    )


# The table


FIGURES = ("score", "chrf", "minutes", "behind", "ci", "p_bootstrap", "p_randomization", "is_apart")


def tsv_of(report: Report) -> str:
    """A line of headings, and one for each setting, with its fields and its figures in full."""
    fields = report.fields
    rows = [[*fields, "seeds", *FIGURES]]
    for row in report.rows:
        values = [*(row.fields.get(field) for field in fields), len(row.seeds)]
        values += [getattr(row, name) for name in FIGURES]
        rows.append(["" if value is None else written(value) for value in values])
    return "".join("\t".join(cells) + "\n" for cells in rows)


def cells_of(report: Report) -> list[list[str]]:
    """The same in short, for a reader."""
    fields = report.fields
    has_seeds = report.seed_deviation is not None
    metric, chances = SHOWN[report.metric], ["p (bootstrap)", "p (randomization)"]
    titles = [*fields, "seeds", metric, *([] if metric == "chrF++" else ["chrF++"])]
    titles += ["minutes", "behind the best", *([] if has_seeds else chances)]
    return [titles, *(_cells(row, fields, report) for row in report.rows)]


def _cells(row: Row, fields: Sequence[str], report: Report) -> list[str]:
    cells = [shown(row.fields[field]) if field in row.fields else "" for field in fields]
    cells += [str(len(row.seeds)), f"{row.score:.2f}"]
    cells += [] if report.metric == "chrf++" else [f"{row.chrf:.2f}"]
    mark = " *" if row.is_apart else ""
    if row is report.best:
        behind = ""
    elif row.ci is None:
        behind = f"{row.behind:.2f}{mark}"
    else:
        behind = f"{row.behind:.2f} ± {row.ci:.2f}{mark}"
    cells += [f"{row.minutes:.1f}", behind]
    if report.seed_deviation is None:
        chances = (row.p_bootstrap, row.p_randomization)
        cells += ["" if chance is None else f"{chance:.4f}" for chance in chances]
    return cells


def shown(value: Any) -> str:
    """The value of a field; of a number four digits say enough."""
    return f"{value:.4g}" if isinstance(value, float) else written(value)


def text_of(report: Report) -> str:
    """The table, and which setting is the best."""
    metric = SHOWN[report.metric]
    lines = [align(cells_of(report)), "", f"{metric} of {report.sentences} validation sentences:"]
    lines.append(report.signature)
    if report.seed_deviation is None:
        lines.append(
            f"* is worse than the best beyond chance: both p, how often chance alone makes so "
            f"large a difference, are {SIGNIFICANT} or less. That is of the sentences alone: with "
            f"one seed each, another seed may turn the order (--seeds 1,2,3)."
        )
    else:
        lines.append(
            f"* is worse than the best beyond chance: by more than its 95 % interval, for "
            f"sentences and seeds. Between seeds the standard deviation is "
            f"{report.seed_deviation:.2f} ({report.seed_degrees_of_freedom} degrees of freedom)."
        )
    return "\n".join([*lines, "", verdict(report)]) + "\n"


def verdict(report: Report) -> str:
    """Which setting is the best, which others may be, and what the test set says of it."""
    best, metric = report.best, SHOWN[report.metric]
    text = f"The best of {len(report.rows)} is {in_words(best)}: {metric} {best.score:.2f}"
    tests = [figures["test"].get(report.metric) for figures in best.seeds.values()]
    if None not in tests:
        text += f", {statistics.fmean(tests):.2f} on the test set"
    if report.level:
        others = "; ".join(map(in_words, report.level[:5]))
        more = f" and {len(report.level) - 5} more" if len(report.level) > 5 else ""
        return f"{text}. Not told apart from it: {others}{more}."
    return f"{text}." + (" It is better than every other beyond chance." * (len(report.rows) > 1))


def in_words(row: Row) -> str:
    """A setting as its fields and values."""
    return ", ".join(f"{field}={shown(value)}" for field, value in row.fields.items())
