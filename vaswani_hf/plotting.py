# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Pictures of a run's curves, of equation 3 and of section 3.5; matplotlib comes with `[plot]`."""

import json
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LOG_HISTORY = "log_history.json"  # written by training/run.py at the end of a run
TRAINER_STATE = "trainer_state.json"  # the library's, in every checkpoint
SUFFIXES = (".png", ".svg", ".pdf")
# Okabe and Ito 2008, "Color Universal Design", without black and the yellow that white swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", "-.", ":")  # each for all colours, then the next
FEW_POINTS = 40  # up to so many are marked one by one
WIDE_RANGE = 20.0  # a perplexity that falls further is drawn on a logarithmic axis


class Curve(NamedTuple):
    """A figure of the log, and the name of its axis with its unit."""

    name: str
    label: str
    is_ratio: bool = False


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
        raise ValueError("plot_training needs at least one folder of a run.")
    figure = _new_figure()
    logs = [read_log(folder) for folder in folders]
    curves = [curve for curve in CURVES if any(_points(log, curve.name)[0] for log in logs)]
    if not curves:
        raise ValueError(
            f"{', '.join(fspath(folder) for folder in folders)}: nothing to draw, as the log has "
            f"none of {', '.join(curve.name for curve in CURVES)}. A run logs its first figures "
            f"after logging_steps updates."
        )
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
        _draw(axes, curves[place], [_points(log, curves[place].name) for log in logs], names)
        axes.set_xlim(0, 1.03 * last_step)  # the same below all curves
    if len(folders) == 1:
        figure.suptitle(names[0])
    else:
        handles, labels = _all_handles(grid.flat)
        entry_inches = 0.75 + 0.085 * max(map(len, labels))
        num_fitting = max(1, min(len(labels), int(width_inches / entry_inches)))
        figure.legend(handles, labels, loc="outside upper center", ncols=num_fitting, frameon=False)
    return figure


def plot_learning_rate(
    *d_models: int, warmup_steps: Sequence[int] = (4000,), num_updates: int = 20_000
) -> "Figure":
    """Draw the learning rate over updates (section 5.3, equation 3).

    Args:
        d_models: widths of models; 512 unless given.
        warmup_steps: lengths of the warm-up; there is a curve for each with each width.
        num_updates: where the curves end.

    Raises:
        ValueError: if a number is below 1.
        ImportError: if matplotlib is not installed.
    """
    widths = d_models or (512,)
    for name, values in [
        ("d_model", widths),
        ("warmup_steps", warmup_steps),
        ("num_updates", [num_updates]),
    ]:
        if min(values, default=0) < 1:
            raise ValueError(f"{name} must be at least 1, got {name}={list(values)}.")
    figure = _new_figure()
    figure.set_size_inches(6.4, 4.0)
    axes = figure.subplots()
    every = max(num_updates // 1000, 1)
    for number, (d_model, warmup) in enumerate((d, w) for d in widths for w in warmup_steps):
        steps = sorted({*range(1, num_updates + 1, every), num_updates, min(warmup, num_updates)})
        rates = [d_model**-0.5 * min(step**-0.5, step * warmup**-1.5) for step in steps]
        label = f"d_model {d_model}, warm-up {warmup:,}"
        axes.plot(steps, rates, label=label, **_style(number))
    _label(axes, "updates", "learning rate")
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    axes.legend(framealpha=1.0, edgecolor="none")
    return figure


def plot_positions(d_model: int = 512, num_positions: int = 128) -> "Figure":
    """Draw the sinusoids that tell positions apart, a row a position (section 3.5).

    The sines, at even dimensions, and the cosines, at odd ones, are drawn apart: side by side no
    screen shows them.

    Raises:
        ValueError: if `d_model` is odd.
        ImportError: if matplotlib is not installed.
    """
    from .modeling_vaswani import sinusoidal_positions

    if d_model < 2 or d_model % 2:
        raise ValueError(f"d_model must be even for sinusoidal positions, got d_model={d_model}.")
    figure = _new_figure()
    figure.set_size_inches(9.0, 4.2)
    both = figure.subplots(1, 2, sharey=True)
    table = sinusoidal_positions(num_positions, d_model).numpy()
    edges = (-0.5, d_model - 0.5, num_positions - 0.5, -0.5)  # the first position at the top
    for parity, (axes, name) in enumerate(zip(both, ["even: sine", "odd: cosine"], strict=True)):
        image = axes.imshow(
            table[:, parity::2], extent=edges, aspect="auto", cmap="PuOr", vmin=-1, vmax=1
        )
        axes.set_xlabel(f"dimension ({name})")
    both[0].set_ylabel("position")
    figure.colorbar(image, ax=both, label="added to the embedding")
    return figure


def save_picture(figure: "Figure", path: str | PathLike[str]) -> None:
    """Write a figure in the format of its suffix: PNG, SVG or PDF.

    Raises:
        ValueError: if the suffix is another one.
    """
    check_suffix(path)
    figure.savefig(fspath(path), dpi=150)


def check_suffix(path: str | PathLike[str]) -> None:
    """Refuse a picture's name that does not say a format we write.

    Raises:
        ValueError: if the suffix is not .png, .svg or .pdf.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise ValueError(f"{fspath(path)}: a picture's name ends in {', '.join(SUFFIXES)}.")


def read_log(folder: str | PathLike[str]) -> list[dict[str, Any]]:
    """What a run has logged, an entry a time, each with its `step`.

    Args:
        folder: its output folder, or a checkpoint in it. Of several logs, the longest is read; one
            that a kill has torn is passed over where there is another.

    Raises:
        ValueError: if there is no log, or none that is whole.
    """
    folder = Path(folder)
    states = [folder / TRAINER_STATE, *sorted(folder.glob(f"checkpoint-*/{TRAINER_STATE}"))]
    paths = [path for path in [folder / LOG_HISTORY, *states] if path.is_file()]
    logs = [_read_entries(path) for path in paths]
    found = [log for log in logs if log is not None]
    if paths and not found:
        damaged = "is" if len(paths) == 1 else "are"
        raise ValueError(
            f"{', '.join(map(fspath, paths))} {damaged} damaged: no list of JSON objects is in "
            f"{'it' if len(paths) == 1 else 'any of them'}."
        )
    if not found:
        what = "holds no run" if folder.is_dir() else "is no folder"
        raise ValueError(
            f"{fspath(folder)} {what}: there is neither {LOG_HISTORY} nor a checkpoint with "
            f"{TRAINER_STATE}. Give the output_dir of training/run.py."
        )
    return max(found, key=lambda log: (log[-1].get("step", 0) if log else 0, len(log)))


def _read_entries(path: Path) -> list[dict[str, Any]] | None:
    """The entries of a log, or of the one in a trainer's state; `None` where it is damaged."""
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
    """Names of runs for a legend: of the folders, with what is before them where they are alike."""
    paths = [Path(folder).resolve() for folder in folders]
    longest = max(len(path.parts) for path in paths)
    for depth in range(1, longest + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(set(paths)):
            break
    return names


def _draw(
    axes: "Axes",
    curve: Curve,
    points: Sequence[tuple[list[int], list[float]]],
    names: Sequence[str],
) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    for number, ((steps, values), name) in enumerate(zip(points, names, strict=True)):
        if steps:
            marker = "o" if len(steps) <= FEW_POINTS else None
            axes.plot(steps, values, label=name, marker=marker, markersize=3.5, **_style(number))
    _label(axes, "updates", curve.label)
    drawn = [value for _, values in points for value in values if value > 0]
    if curve.is_ratio and drawn and max(drawn) > WIDE_RANGE * min(drawn):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif curve.name == "learning_rate":
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
        axes.set_ylim(bottom=0)


def _label(axes: "Axes", x: str, y: str) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _style(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
        "linewidth": 1.6,
    }


def _all_handles(every_axes: Any) -> tuple[list[Any], list[str]]:
    """What the legend shows: each run once, in the order of the colours."""
    found: dict[str, Any] = {}
    for axes in every_axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def _new_figure() -> "Figure":
    """A figure of its own: pyplot's would need a screen, or be kept for ever.

    Raises:
        ImportError: naming the extra to install.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise ImportError(
            'matplotlib is needed for pictures: pip install "vaswani-hf[plot]"'
        ) from error
    layout = ConstrainedLayoutEngine(
        w_pad=0.1, h_pad=0.1, wspace=0.03
    )  # inches; share of the width
    return Figure(layout=layout)


__all__ = ["plot_learning_rate", "plot_positions", "plot_training", "read_log", "save_picture"]
