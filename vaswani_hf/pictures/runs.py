# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The curves of training runs."""

import json
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from matplotlib.figure import Figure
from .drawing import Curve, all_handles, draw_curve, new_figure


LOG_HISTORY = "log_history.json"  # written by training/run.py at the end of a run
TRAINER_STATE = "trainer_state.json"  # the library's, in every checkpoint


CURVES = (
    Curve("loss_nats_per_token", "training loss (nats per token)"),
    Curve("eval_perplexity_per_token", "validation perplexity (per token)", is_ratio=True),
    Curve("eval_bleu", "validation BLEU"),
    Curve("learning_rate", "learning rate"),
)


def plot_training(*folders: str | PathLike[str]) -> "Figure":
    """Draw training loss, validation perplexity, BLEU and learning rate over updates.

    Args:
        folders: output folders of training/run.py, finished or not, or checkpoints of them. Several
            are drawn in one picture, each in its colour.

    Returns:
        A matplotlib figure with an axes for each curve that some run has logged.

    Raises:
        ValueError: if no folder is given, one holds no run, or nothing was logged.
        ImportError: if matplotlib is not installed.
    """
    if not folders:
        raise ValueError("plot_training needs the folder of at least one run.")
    logs = [read_log(folder) for folder in folders]
    curves = [curve for curve in CURVES if any(_points(log, curve.name)[0] for log in logs)]
    if not curves:
        raise ValueError(
            f"{', '.join(fspath(folder) for folder in folders)}: nothing to plot, since the log "
            f"has none of {', '.join(curve.name for curve in CURVES)}. A run logs its first values "
            f"after logging_steps updates."
        )
    figure = new_figure()  # late, since it loads matplotlib
    names = _names(folders)
    num_columns = min(len(curves), 2)
    num_rows = -(-len(curves) // num_columns)
    width_inches = 5.2 * num_columns
    figure.set_size_inches(width_inches, 3.6 * num_rows + 0.5)
    grid = figure.subplots(num_rows, num_columns, squeeze=False)
    last_step = max(entry.get("step", 0) for log in logs for entry in log)
    for place, axes in enumerate(grid.flat):
        if place >= len(curves):
            axes.set_axis_off()
            continue
        draw_curve(axes, curves[place], [_points(log, curves[place].name) for log in logs], names)
        axes.set_xlim(0, 1.03 * last_step)  # the same below all curves
    if len(folders) == 1:
        figure.suptitle(names[0])
    else:
        handles, labels = all_handles(grid.flat)
        entry_inches = 0.75 + 0.085 * max(map(len, labels))
        num_fitting = max(1, min(len(labels), int(width_inches / entry_inches)))
        figure.legend(handles, labels, loc="outside upper center", ncols=num_fitting, frameon=False)
    return figure


def read_log(folder: str | PathLike[str]) -> list[dict[str, Any]]:
    """The log of a run: entries, each with its `step`.

    Args:
        folder: its output folder, or a checkpoint in it. Of several logs the longest is read;
            damaged ones are skipped if there is another.

    Raises:
        ValueError: if there is no log, or all are damaged.
    """
    folder = Path(folder)
    states = [folder / TRAINER_STATE, *sorted(folder.glob(f"checkpoint-*/{TRAINER_STATE}"))]
    paths = [path for path in [folder / LOG_HISTORY, *states] if path.is_file()]
    logs = [_read_entries(path) for path in paths]
    found = [log for log in logs if log is not None]
    if paths and not found:
        damaged = "is" if len(paths) == 1 else "are"
        raise ValueError(
            f"{', '.join(map(fspath, paths))} {damaged} damaged: a log is a list of JSON objects."
        )
    if not found:
        what = "holds no run" if folder.is_dir() else "is not a folder"
        raise ValueError(
            f"{fspath(folder)} {what}: there is neither {LOG_HISTORY} nor a checkpoint with "
            f"{TRAINER_STATE}. Name the output_dir of training/run.py."
        )
    return max(found, key=lambda log: (log[-1].get("step", 0) if log else 0, len(log)))


def _read_entries(path: Path) -> list[dict[str, Any]] | None:
    """The entries of a log or of a trainer's state; `None` if the file is damaged."""
    try:
        log = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    if isinstance(log, dict):
        log = log.get("log_history")
    is_whole = isinstance(log, list) and all(isinstance(entry, dict) for entry in log)
    return log if is_whole else None


def _points(log: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    entries = [entry for entry in log if name in entry and "step" in entry]
    return [entry["step"] for entry in entries], [entry[name] for entry in entries]


def _names(folders: Sequence[str | PathLike[str]]) -> list[str]:
    """Labels of runs: names of the folders, with parent folders where names are the same."""
    paths = [Path(folder).resolve() for folder in folders]
    longest = max(len(path.parts) for path in paths)
    for depth in range(1, longest + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(set(paths)):
            break
    return names
