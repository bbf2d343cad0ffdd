# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Several runs, one after the other: what has finished is skipped, what was broken off goes on."""

import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .loop.checkpoints import AUTO
from .loop.resumption import NOT_SAVED, TEXT_SOURCES
from .loop.signals import STOP_SIGNALS
from .outcome.results import RESULTS
from .settings.fields import FILES
from .settings.kinds import written
from .settings.reading import cast_values, read_options
from .settings.recipes import override, read_recipe


SCRIPT = Path(__file__).resolve().parent / "run.py"
STOPPED = {128 + number for number in STOP_SIGNALS}  # exit statuses of training/run.py
FREE = {*NOT_SAVED, *TEXT_SOURCES, *FILES, "threads"}  # what a finished run may differ in
logger = logging.getLogger("training")


@dataclass(frozen=True)
class Run:
    """A training by a recipe.

    Attributes:
        name: of its folder.
        recipe: as typed.
        fields: what differs from the recipe: a value, or a list of them, by the field's name.
    """

    name: str
    recipe: str
    fields: Mapping[str, Any]

    def options(self) -> list[str]:
        """The fields as a command line has them."""
        options = []
        for name, value in self.fields.items():
            values = value if isinstance(value, list | tuple) else [value]
            options += [f"--{name}", *map(str, values)]
        return options

    def results(self, folder: Path) -> dict[str, Any] | None:
        """What `results.json` says of the run; `None` before it has finished.

        Args:
            folder: of all runs.

        Raises:
            ValueError: if it has finished with other settings. Text may have moved.
        """
        path = folder / self.name / RESULTS
        if not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        wanted = read_recipe(self.recipe)
        override(wanted, read_options(self.options()), [])
        then, now = cast_values(found["chosen"]), cast_values(wanted)
        for name in sorted((then.keys() | now.keys()) - FREE):
            if then.get(name) != now.get(name):
                raise ValueError(
                    f"{path.parent} has finished with {name}={written(then.get(name))}, and "
                    f"{name}={written(now.get(name))} is asked for; choose another folder."
                )
        return found


def train_all(runs: Iterable[Run], folder: Path) -> Iterator[Run]:
    """Train what has not finished, in order, each in a process and a folder of its own.

    SIGTERM and Ctrl-C let the run that is going write a checkpoint; the same call goes on from it.

    Args:
        runs: each with a name of its own.
        folder: where each gets a folder of its name.

    Yields:
        Each run that has finished, at once or after its training. One that fails is logged and left
        out.

    Raises:
        ValueError: if a run has finished with other settings; see `Run.results`.
        SystemExit: if a signal has stopped a run, with its status.
    """
    for run in runs:
        if run.results(folder) is None:
            logger.info("Training %s.", run.name)
            command = [sys.executable, str(SCRIPT), run.recipe, *run.options()]
            command += ["--output_dir", str(folder.resolve() / run.name)]
            status = _wait_for([*command, "--resume_from_checkpoint", AUTO])
            if status in STOPPED or status < 0:
                raise SystemExit(status)
            if status:
                logger.error("%s has failed: status %d.", run.name, status)
                continue
        yield run


def _wait_for(command: list[str]) -> int:
    """The exit status of a process, to which SIGTERM is passed on."""
    with subprocess.Popen(command) as process:
        before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            return process.wait()
        except KeyboardInterrupt:  # the terminal has sent it to the process too
            return process.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
