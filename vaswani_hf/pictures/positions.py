# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Section 3.5: the sinusoids of positions."""

import math
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor
from .drawing import finish, label_axes, line_style, new_figure, theme_of


MESH, WAVES, PRODUCTS = STYLES = ("mesh", "waves", "products")
NUM_WAVES = 6  # of different lengths, spread over the dimensions
MOST_LENGTHS = 8  # a longer wave than so many pictures is nearly a straight line


def plot_positions(
    d_model: int = 512,
    num_positions: int = 128,
    *,
    style: str | None = MESH,
    theme: str = "light",
) -> "Figure":
    """Plot the sinusoids of positions (section 3.5).

    The mesh has a row for each position. Sines (even dimensions) and cosines (odd ones) are
    separate pictures, since neighbouring columns of both could not be seen. The waves are some of
    its columns. The dot products are those of the vectors of two positions, which depend on nothing
    but the distance between the two; they are divided by d_model / 2, the product of a vector with
    itself.

    Args:
        d_model: width of the model.
        num_positions: how many positions are shown, from 0 on.
        style: `"mesh"`, `"waves"` or `"products"`; `None` for all three below each other.
        theme: `"light"` or `"dark"`.

    Raises:
        ValueError: if `d_model` is odd, `num_positions` below 2, or there is no such style or
            theme.
        ImportError: if matplotlib is not installed.
    """
    from ..modeling_vaswani import sinusoidal_positions

    if d_model < 2 or d_model % 2:
        raise ValueError(f"d_model must be even for sinusoidal positions, got d_model={d_model}.")
    if num_positions < 2:
        raise ValueError(f"num_positions must be at least 2, got num_positions={num_positions}.")
    if style not in (None, *STYLES):
        raise ValueError(f"style must be one of {', '.join(STYLES)}, got {style=}.")
    figure = new_figure(theme)
    table = sinusoidal_positions(num_positions, d_model)
    drawers = {MESH: _draw_mesh, WAVES: _draw_waves, PRODUCTS: _draw_products}
    chosen = [drawers[style]] if style else list(drawers.values())
    figure.set_size_inches(9.0, 4.2 if len(chosen) == 1 else 10.5)
    parts = figure.subfigures(len(chosen), 1, squeeze=False).flat if len(chosen) > 1 else [figure]
    for draw, part in zip(chosen, parts, strict=True):
        draw(part, table, theme)
    return finish(figure, theme)


def _draw_mesh(figure: Any, table: "Tensor", theme: str) -> None:
    num_positions, d_model = table.shape
    both = figure.subplots(1, 2, sharey=True)
    edges = (-0.5, d_model - 0.5, num_positions - 0.5, -0.5)  # the first position at the top
    image = None
    for parity, (axes, name) in enumerate(zip(both, ["even: sine", "odd: cosine"], strict=True)):
        image = axes.imshow(
            table.numpy()[:, parity::2],
            extent=edges,
            aspect="auto",
            cmap=theme_of(theme).diverging,
            vmin=-1,
            vmax=1,
        )
        axes.set_xlabel(f"dimension ({name})")
    both[0].set_ylabel("position")
    figure.colorbar(image, ax=both, label="added to the embedding")


def _draw_waves(figure: Any, table: "Tensor", theme: str) -> None:
    """Some sines, from the shortest wave to the longest that still moves."""
    num_positions, d_model = table.shape
    axes = figure.subplots()
    # The sine of dimension 2i has a wave of 2 pi 10000^(2i / d_model) positions.
    lengths = [2 * math.pi * 10000 ** (even / d_model) for even in range(0, d_model, 2)]
    last = sum(length < MOST_LENGTHS * num_positions for length in lengths)
    count = min(NUM_WAVES, max(last, 1))
    places = [round(place * (last - 1) / max(count - 1, 1)) for place in range(count)]
    for number, place in enumerate(dict.fromkeys(places)):
        values = table[:, 2 * place].tolist()
        axes.plot(range(num_positions), values, label=str(2 * place), **line_style(number, theme))
    label_axes(axes, "position", "sine", theme)
    axes.set_xlim(0, num_positions - 1)
    _legend(axes, "dimension")


def _draw_products(figure: Any, table: "Tensor", theme: str) -> None:
    """Dot products of all pairs, and by distance."""
    num_positions, d_model = table.shape
    products = (table @ table.T / (d_model / 2)).numpy()
    pairs, by_distance = figure.subplots(1, 2, width_ratios=[1, 1.25])
    image = pairs.imshow(products, cmap=theme_of(theme).diverging, vmin=-1, vmax=1)
    pairs.set_xlabel("position")
    pairs.set_ylabel("position")
    beside = pairs.inset_axes((1.04, 0, 0.05, 1))  # as high as the square
    figure.colorbar(image, cax=beside, label="dot product / (d_model / 2)")
    for number, first in enumerate(sorted({0, num_positions // 2, num_positions - 1})):
        distances = [place - first for place in range(num_positions)]
        style = line_style(number, theme) | {"linewidth": 3.2 - number, "linestyle": "-"}
        by_distance.plot(distances, products[first], label=str(first), **style)
    label_axes(by_distance, "distance", "dot product / (d_model / 2)", theme)
    _legend(by_distance, "from position")


def _legend(axes: "Axes", title: str) -> None:
    axes.legend(title=title, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
