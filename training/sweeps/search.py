# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Settings that follow from those before: optuna's search by tree-structured Parzen estimators.

What has been tried is kept in the folder of the sweep. A suggestion depends on the finished trials
and on its number alone, so that a search that was killed goes on as it would have.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vaswani_hf.extras import require

from .grid import Axis, described


STORAGE = "optuna.log"
NAME = "sweep"


class Trial(NamedTuple):
    """A setting that was suggested."""

    number: int
    fields: dict[str, Any]

    @property
    def name(self) -> str:
        """Of the folders of its runs, without the seed."""
        return f"trial_{self.number:03d}"


class Search:
    """A search for the setting of the highest score.

    Args:
        axes: what is varied, and within which bounds.
        folder: of the sweep.
        seeds: of each trial; the first one is that of the suggestions too.
        metric: a trial's score is its mean over the seeds.

    Raises:
        ValueError: if something else was searched in this folder.
        ImportError: naming the extra that brings optuna.
    """

    def __init__(
        self, axes: Sequence[Axis], folder: Path, seeds: Sequence[int], metric: str
    ) -> None:
        optuna = require("optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.axes, self.folder, self.seeds, self.metric = axes, folder, seeds, metric
        backend = require("optuna.storages.journal").JournalFileBackend(str(folder / STORAGE))
        self.study = optuna.create_study(
            storage=optuna.storages.JournalStorage(backend),
            study_name=NAME,
            direction="maximize",
            load_if_exists=True,
        )
        self._keep("axes", described(axes))

    def _keep(self, what: str, here: str) -> None:
        """Write down what is searched, unless it is there.

        Raises:
            ValueError: if something else is there.
        """
        there = self.study.user_attrs.get(what, here)
        if there != here:
            raise ValueError(
                f"{self.folder} has a search of {there}, and {here} is asked for; choose another "
                f"folder."
            )
        self.study.set_user_attr(what, here)

    def trials(self) -> list[Trial]:
        """All of them, in order."""
        return [Trial(one.number, self._fields(one.params)) for one in self.study.trials]

    def open_trials(self, most: int, total: int) -> list[Trial]:
        """Trials without a result: those that a killed search has left, then new ones.

        Args:
            most: of them.
            total: of all trials of the search.

        Raises:
            ValueError: if those before had their scores by another metric, or of other seeds.
        """
        seeds = ",".join(map(str, self.seeds))
        self._keep("scores", f"--seeds {seeds} --metric {self.metric}")
        optuna = require("optuna")
        running = self.study.get_trials(states=(optuna.trial.TrialState.RUNNING,))
        # One that was killed before its last field was suggested has no run.
        for one in running:
            if len(one.params) < len(self.axes):
                self.fail(one.number)
        found = [
            Trial(one.number, self._fields(one.params))
            for one in running
            if len(one.params) == len(self.axes)
        ]
        while len(found) < most and (count := len(self.study.trials)) < total:
            # The same state at each number, whatever process has come that far.
            self.study.sampler = optuna.samplers.TPESampler(seed=self.seeds[0] + count)
            trial = self.study.ask()
            found.append(Trial(trial.number, {a.field: _suggest(trial, a) for a in self.axes}))
        return found

    def tell(self, number: int, score: float) -> None:
        """Give a trial its score."""
        self.study.tell(number, score)

    def fail(self, number: int) -> None:
        """End a trial that has no score."""
        self.study.tell(number, state=require("optuna").trial.TrialState.FAIL)

    def _fields(self, params: dict[str, Any]) -> dict[str, Any]:
        """The fields of a trial, of listed values those of the axis."""
        return {
            axis.field: params[axis.field] if axis.bounds else axis.values[params[axis.field]]
            for axis in self.axes
            if axis.field in params
        }


def _suggest(trial: Any, axis: Axis) -> Any:
    if axis.bounds is None:
        # By their places: a value may be of any type.
        return axis.values[trial.suggest_categorical(axis.field, range(len(axis.values)))]
    suggest = trial.suggest_int if isinstance(axis.bounds[0], int) else trial.suggest_float
    return suggest(axis.field, *axis.bounds, log=axis.is_log)
