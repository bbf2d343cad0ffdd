# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The picture of a sweep: the score of each setting, of its seeds, and its distance to the best."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vaswani_hf.pictures.drawing import all_handles, finish, new_figure, theme_of

from ..outcome.scores import SHOWN
from .report import Report, Row, in_words


if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 40  # of a picture; more are too many to read


def draw(report: Report, order: Sequence[str], theme: str = "light") -> "Figure":
    """Draw settings from top to bottom, each with its mean score and that of each seed.

    A bar is the 95 % interval of the difference from the best setting: one that does not reach the
    line of the best is worse beyond chance. With one seed a setting has no bar; it is hollow where
    the paired tests tell it from the best.

    Args:
        report: of the sweep. Of more than `MOST_ROWS` settings the best ones are drawn.
        order: names of all settings.
        theme: `"light"` or `"dark"`.

    Raises:
        ImportError: naming the extra to install.
    """
    rows = sorted(report.rows[:MOST_ROWS], key=lambda row: order.index(row.name))
    colours, figure = theme_of(theme), new_figure(theme)
    figure.set_size_inches(8.4, 1.5 + 0.32 * len(rows))
    axes = figure.subplots()
    axes.axvline(
        report.best.score, color=colours.ink, linewidth=0.8, label="the best mean", zorder=1
    )
    for place, row in enumerate(rows):
        is_best, has_bar = row is report.best, row.ci is not None
        colour = colours.colours[1 if is_best else 0]
        axes.errorbar(
            *(row.score, place),
            xerr=row.ci,
            fmt="D" if is_best else "o",
            color=colour,
            markerfacecolor=colours.paper if row.is_apart else colour,
            capsize=2.5,
            markersize=6,
            label=_label(row, is_best, has_bar),
            zorder=3,
        )
        if len(row.seeds) > 1:
            alone = [figures["score"] for figures in row.seeds.values()]
            axes.plot(
                *(alone, [place] * len(alone)),
                "|",
                color=colours.ink,
                markersize=10,
                label="a seed",
                zorder=4,
            )
    axes.set_yticks(range(len(rows)), map(in_words, rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(f"validation {SHOWN[report.metric]}")
    axes.grid(True, axis="x", color=colours.faint, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    handles, names = all_handles([axes])
    figure.legend(handles, names, loc="outside upper center", ncols=2, frameon=False)
    return finish(figure, theme)


def _label(row: Row, is_best: bool, has_bar: bool) -> str:
    if is_best:
        return "the best"
    interval = ", with the 95 % interval of its difference" if has_bar else ""
    return f"worse beyond chance{interval}" if row.is_apart else f"not told apart{interval}"
