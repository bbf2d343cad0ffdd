# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What all pictures share: colours, axes, files."""

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..extras import require


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SUFFIXES = (".png", ".svg", ".pdf")
# Okabe and Ito 2008, "Color Universal Design", without black and the yellow that white swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", "-.", ":")  # the next one once the colours are used up
FEW_POINTS = 40  # up to this many, each point is marked
WIDE_RANGE = 20.0  # a larger ratio of values is drawn on a logarithmic axis


class Curve(NamedTuple):
    """A logged quantity, and the label of its axis with the unit."""

    name: str
    label: str
    is_ratio: bool = False


def save_picture(figure: "Figure", path: str | PathLike[str]) -> None:
    """Write a figure in the format of its suffix: PNG, SVG or PDF.

    Raises:
        ValueError: if the suffix is another one.
    """
    check_suffix(path)
    figure.savefig(fspath(path), dpi=150)


def check_suffix(path: str | PathLike[str]) -> None:
    """Refuse a name without the suffix of a supported format.

    Raises:
        ValueError: if the suffix is not .png, .svg or .pdf.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"{fspath(path)}: the name of a picture must end in {', '.join(SUFFIXES)}."
        )


def draw_curve(
    axes: "Axes",
    curve: Curve,
    points: Sequence[tuple[list[int], list[float]]],
    names: Sequence[str],
) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    for number, ((steps, values), name) in enumerate(zip(points, names, strict=True)):
        if steps:
            marker = "o" if len(steps) <= FEW_POINTS else None
            axes.plot(
                steps, values, label=name, marker=marker, markersize=3.5, **line_style(number)
            )
    label_axes(axes, "updates", curve.label)
    drawn = [value for _, values in points for value in values if value > 0]
    if curve.is_ratio and drawn and max(drawn) > WIDE_RANGE * min(drawn):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif curve.name == "learning_rate":
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
        axes.set_ylim(bottom=0)


def label_axes(axes: "Axes", x: str, y: str) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def line_style(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
        "linewidth": 1.6,
    }


def all_handles(every_axes: Any) -> tuple[list[Any], list[str]]:
    """Handles and labels of a legend: each run once, in the order of the colours."""
    found: dict[str, Any] = {}
    for axes in every_axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def new_figure() -> "Figure":
    """A figure without pyplot, which may need a screen and keeps every figure in memory.

    Raises:
        ImportError: naming the extra to install.
    """
    figure, layouts = require("matplotlib.figure"), require("matplotlib.layout_engine")
    # Padding in inches, the space between axes as a share of the width.
    return figure.Figure(layout=layouts.ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, wspace=0.03))
