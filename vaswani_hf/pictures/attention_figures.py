# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Attention as grids of heads by layers, and as lines between words as in the paper's figures."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..translation.alignment import READS
from .attention import CROSS, DECODER, ENCODER, Attention
from .drawing import columns_on_slide, finish, line_style, new_figure, shades_of, theme_of


if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


GRID, LINES = STYLES = ("grid", "lines")
NAMES = {
    ENCODER: "encoder self-attention",
    DECODER: "decoder self-attention",
    CROSS: "cross-attention",
}
ENTRY_INCHES = 1.2  # of the legend
SCALE_INCHES = 3.0  # the longest bar of colours
SMALLEST = 0.02  # weights below are no lines: they could not be seen


def plot_attention(
    attention: Attention,
    kind: str = CROSS,
    *,
    style: str | None = None,
    layer: int | Sequence[int] | None = None,
    head: int | Sequence[int] | None = None,
    word: str | int | None = None,
    theme: str = "light",
) -> "Figure":
    """Draw where heads look (section 3.2.3), as a grid or as figures 3 to 5 of the paper.

    A grid has a row of pictures for each layer and a column for each head; in each picture a row is
    a query, a column a key, and the colour the weight from 0 to 1, its square root so that small
    ones are seen. Lines lead from the queries above to the keys below, in the colour of their head
    and as opaque as their weight; weights below 0.02 have none.

    Args:
        attention: what `attention_of` has found.
        kind: `"encoder"`, `"decoder"` or `"cross"`.
        style: `"grid"` or `"lines"`; `None` for lines where a layer, head or word is named.
        layer: one or several, counted from 0; `None` for all.
        head: one or several, counted from 0; `None` for all.
        word: of lines, the one query that is shown, by itself or by its place from 0; `None` for
            all.
        theme: `"light"` or `"dark"`.

    Raises:
        ValueError: if there is no such kind, style, layer, head, word or theme.
        ImportError: if matplotlib is not installed.
    """
    if style is None:
        style = GRID if layer is None and head is None and word is None else LINES
    if style not in STYLES:
        raise ValueError(f"style must be {GRID} or {LINES}, got {style=}.")
    if style == GRID and word is not None:
        raise ValueError(f"word={word!r} is for style={LINES!r}; a grid shows every word.")
    weights, layers, heads = attention.of(kind, layer, head)
    queries, keys = attention.queries[kind], attention.keys[kind]
    place = None if word is None else _place_of(word, queries)
    figure = new_figure(theme)
    if style == GRID:
        _draw_grid(figure, weights, layers, heads, queries, keys, theme)
    else:
        _draw_lines(figure, weights, layers, heads, queries, keys, place, theme)
    letters = int(figure.get_size_inches()[0] * 11)  # that fit beside each other, about
    name, explained = NAMES[kind].capitalize(), _explained(kind, attention)
    title = f"{name}: {explained}"
    if len(title) > letters:
        title = f"{name}\n{textwrap.fill(explained, letters)}"
    figure.suptitle(title, fontsize=11)
    return finish(figure, theme)


def _explained(kind: str, attention: Attention) -> str:
    """What looks at what."""
    if kind == ENCODER:
        return "source words look at source words"
    said = "read" if attention.step == READS else "predicted"
    looks = "source" if kind == CROSS else "target"
    return f"target words, when they are {said}, look at {looks} words"


def _place_of(word: str | int, queries: Sequence[str]) -> int:
    """The place of a word among the queries; the first one of several that are alike."""
    if isinstance(word, int) and 0 <= word < len(queries):
        return word
    if word in queries:
        return queries.index(str(word))
    raise ValueError(f"word={word!r} is none of the words that look: {' '.join(queries)}")


# Grids


def _draw_grid(
    figure: "Figure",
    weights: "torch.Tensor",
    layers: Sequence[int],
    heads: Sequence[int],
    queries: Sequence[str],
    keys: Sequence[str],
    theme: str,
) -> None:
    from matplotlib.colors import PowerNorm

    count = len(layers) * len(heads)
    cell, size = 0.115, 7.0  # inches of a word, points
    if count == 1:
        cell, size = min(max(4.0 / max(len(queries), len(keys)), 0.155), 0.27), 9.0
    width, height = max(1.1, cell * len(keys)), max(0.9, cell * len(queries))
    letters = 0.0092 * size  # inches of a letter, about
    left, below = (letters * max(map(len, words)) for words in (queries, keys))
    # Of one layer, or of one head, the pictures have no rows of their own.
    is_table = len(layers) > 1 and len(heads) > 1
    title = 0.05 if is_table else 0.2
    panel, margins = (width + 0.12, height + 0.1 + title), (left + 1.2, below + 0.8)
    columns = len(heads) if is_table else columns_on_slide(count, panel, margins)
    rows = -(-count // columns)
    inches = max(4.6, panel[0] * columns + margins[0])
    tall = panel[1] * rows + margins[1]
    figure.set_size_inches(inches, tall)
    grid = list(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat)
    names = [(layer, head) for layer in layers for head in heads]
    for place, (axes, (layer, head)) in enumerate(zip(grid, names, strict=False)):
        image = axes.imshow(
            weights.flatten(0, 1)[place].numpy(),
            cmap=shades_of(theme),
            norm=PowerNorm(0.5, 0, 1),
            interpolation="nearest",
            aspect="auto",
        )
        axes.set_xticks(range(len(keys)), keys, rotation=90)
        axes.set_yticks(range(len(queries)), queries)
        is_last, is_first = place + columns >= count, place % columns == 0
        axes.tick_params(length=0, labelsize=size, labelbottom=is_last, labelleft=is_first)
        if not is_table:
            axes.set_title(f"layer {layer}, head {head}", fontsize=9)
        elif layer == layers[0]:
            axes.set_title(f"head {head}", fontsize=9)
        if is_table and is_first:
            axes.set_ylabel(f"layer {layer}", fontsize=9)
    for axes in grid[count:]:
        axes.set_axis_off()
    _draw_scale(figure, image, (inches, tall - margins[1]), theme)


def _draw_scale(figure: "Figure", image: Any, size: tuple[float, float], theme: str) -> None:
    """The bar that says which colour is which weight, beside axes of so many inches in all."""
    width, height = size
    shrink = min(1.0, SCALE_INCHES / height)
    bar = figure.colorbar(
        image,
        ax=figure.axes,
        ticks=[0, 0.05, 0.2, 0.5, 1],
        fraction=0.2 / width,
        pad=0.1 / width,
        shrink=shrink,
        anchor=(0.0, 1.0),
        aspect=shrink * height / 0.16,
    )
    bar.set_label("weight; a row sums to 1", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_edgecolor(theme_of(theme).ink)


# Lines


def _draw_lines(
    figure: "Figure",
    weights: "torch.Tensor",
    layers: Sequence[int],
    heads: Sequence[int],
    queries: Sequence[str],
    keys: Sequence[str],
    place: int | None,
    theme: str,
) -> None:
    most = max(len(queries), len(keys))
    letters = 0.075 * (max(map(len, queries)) + max(map(len, keys)))
    panel, margins = (max(3.5, 0.25 * most) + 0.4, 2.6 + letters), (0.6, 1.0)
    columns = columns_on_slide(len(layers), panel, margins)
    rows = -(-len(layers) // columns)
    width = max(5.0, columns * panel[0] + margins[0])
    figure.set_size_inches(width, rows * panel[1] + margins[1])
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in grid:
        axes.set_axis_off()
    for axes, layer, by_head in zip(grid, layers, weights, strict=False):
        _draw_layer(axes, by_head, queries, keys, place, theme)
        axes.text(-1.0, 0.5, f"layer {layer}", rotation=90, ha="right", va="center", fontsize=9)
    _draw_legend(figure, heads, theme)


def _draw_legend(figure: "Figure", heads: Sequence[int], theme: str) -> None:
    from matplotlib.lines import Line2D

    columns = int(figure.get_size_inches()[0] / ENTRY_INCHES)
    columns = -(-len(heads) // -(-len(heads) // columns))  # as many in each row
    # A legend goes down its columns; heads are read along its rows.
    order = [place for first in range(columns) for place in range(first, len(heads), columns)]
    handles: list[Any] = [
        Line2D([], [], **line_style(number, theme) | {"linewidth": 3.0}) for number in order
    ]
    figure.legend(
        handles,
        [f"head {heads[place]}" for place in order],
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
    )


def _draw_layer(
    axes: "Axes",
    weights: "torch.Tensor",
    queries: Sequence[str],
    keys: Sequence[str],
    place: int | None,
    theme: str,
) -> None:
    """Words above, words below, and the lines of all heads, `(H, queries, keys)`, between them."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    most = max(len(queries), len(keys))
    above, below = (_places(len(words), most) for words in (queries, keys))
    shown = range(len(queries)) if place is None else [place]
    num_heads = len(weights)
    for number, head in enumerate(weights):
        style = line_style(number, theme)
        shift = 0.5 * ((number + 0.5) / num_heads - 0.5)  # so that no head hides another
        lines, colours = [], []
        for query in shown:
            for key, weight in enumerate(head[query].tolist()):
                if weight >= SMALLEST:
                    ends = (above[query] + shift, 1.0), (below[key] + shift, 0.0)
                    lines.append(ends)
                    colours.append(to_rgba(style["color"], min(1.0, weight)))
        wide = 2.2 if place is not None or num_heads == 1 else 1.4
        axes.add_collection(
            LineCollection(lines, colors=colours, linewidths=wide, linestyles=style["linestyle"])
        )
        if place is not None:  # what each head gives to each key, under the lines
            _draw_strip(axes, head[place].tolist(), below, number, style["color"])
    ink, faint = theme_of(theme).ink, theme_of(theme).faint
    bottom = -0.03 if place is None else -0.03 - STRIP * num_heads
    for words, places, height, side in (
        (queries, above, 1.03, "bottom"),
        (keys, below, bottom, "top"),
    ):
        for number, word in enumerate(words):
            is_shown = side == "top" or place in (None, number)
            is_bold = place == number and side == "bottom"
            axes.text(
                places[number],
                height,
                word,
                rotation=90,
                ha="center",
                va=side,
                fontsize=9,
                color=ink if is_shown else _between(ink, faint),
                fontweight="bold" if is_bold else "normal",
            )
    axes.set_xlim(-0.8, most - 0.2)
    axes.set_ylim(bottom, 1.03)


STRIP = 0.035  # height of a head's strip, as a share of that of the lines


def _places(count: int, most: int) -> list[float]:
    """Where so many words stand, spread over the width of the longer row."""
    if count == 1:
        return [(most - 1) / 2]
    return [number * (most - 1) / (count - 1) for number in range(count)]


def _draw_strip(
    axes: "Axes", weights: Sequence[float], places: Sequence[float], number: int, colour: str
) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    low = -0.015 - STRIP * (number + 1)
    boxes = [Rectangle((place - 0.42, low), 0.84, STRIP) for place in places]
    colours = [to_rgba(colour, min(1.0, weight)) for weight in weights]
    axes.add_collection(PatchCollection(boxes, facecolors=colours, edgecolors="none"))


def _between(one: str, other: str) -> str:
    from matplotlib.colors import to_hex, to_rgb

    (red, green, blue), (red2, green2, blue2) = to_rgb(one), to_rgb(other)
    return to_hex(((red + red2) / 2, (green + green2) / 2, (blue + blue2) / 2))


__all__ = ["GRID", "LINES", "STYLES", "plot_attention"]
