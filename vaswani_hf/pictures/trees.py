# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""A constituency tree as an SVG picture (section 6.3)."""

from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape

from ..parsing.trees import Tree, walk
from .drawing import finish, new_figure, theme_of


if TYPE_CHECKING:
    from matplotlib.figure import Figure


# In pixels.
FONT_SIZE = 15
LETTER = 8.4  # what a letter of this size takes, on average
GAP = 14  # between two words
LEVEL = 46  # from a constituent to its children
WORD = 22  # from a tag to its word
MARGIN = 16

PIXELS_PER_INCH = 96  # as browsers have it
CONSTITUENT, TAG, WORD_ITSELF, LINE = "constituent", "tag", "word", "line"
COLOURS = {
    "light": {CONSTITUENT: "#1F5A8A", TAG: "#6B6B6B", WORD_ITSELF: "#111111", LINE: "#9AA5B1"},
    "dark": {CONSTITUENT: "#56B4E9", TAG: "#A2A9B3", WORD_ITSELF: "#E8E8E8", LINE: "#6B727B"},
}


class _Text(NamedTuple):
    """A label or a word: its middle and the line it stands on, in pixels from the upper left."""

    kind: str
    x: float
    y: float
    text: str


class _Line(NamedTuple):
    """From a constituent to what it holds: down to `turn`, across, and down again, in pixels."""

    x: float
    y: float
    turn: float
    to_x: float
    to_y: float


def tree_svg(tree: Tree, *, theme: str = "light") -> str:
    """The picture: words in a line with their tags above, each constituent above what it holds.

    Args:
        tree: such as `read_trees` gives.
        theme: `"light"` or `"dark"`.

    Returns:
        An SVG document.

    Raises:
        ValueError: if there is no such theme.
    """
    paper, colours = theme_of(theme).paper, COLOURS[theme]
    texts, lines, width, height = _drawing(tree)
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    words = (
        f'<text class="{one.kind}" x="{one.x:.1f}" y="{one.y:.1f}">{escape(one.text)}</text>'
        for one in texts
    )
    path = "".join(
        f"M{one.x:.1f} {one.y:.1f}V{one.turn:.1f}H{one.to_x:.1f}V{one.to_y:.1f}" for one in lines
    )
    style = (
        f"text{{font:{FONT_SIZE}px sans-serif;text-anchor:middle}}"
        f".constituent{{font-weight:bold;fill:{colours[CONSTITUENT]}}}"
        f".tag{{fill:{colours[TAG]}}}.word{{fill:{colours[WORD_ITSELF]}}}"
        f"path{{fill:none;stroke:{colours[LINE]};stroke-width:1.2}}"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(' '.join(tree.words()))}</title>",
            f"<style>{style}</style>",
            f'<rect width="100%" height="100%" fill="{paper}"/>',
            *([f'<path d="{path}"/>'] if path else []),
            *words,
            "</svg>\n",
        ]
    )


def plot_tree(tree: Tree, *, theme: str = "light") -> "Figure":
    """Draw the picture of `tree_svg` as a figure (section 6.3).

    Args:
        tree: such as `read_trees` gives.
        theme: `"light"` or `"dark"`.

    Raises:
        ValueError: if there is no such theme.
        ImportError: if matplotlib is not installed.
    """
    figure = new_figure(theme)
    figure.set_layout_engine("none")
    colours = COLOURS[theme]
    texts, lines, width, height = _drawing(tree)
    figure.set_size_inches(width / PIXELS_PER_INCH, height / PIXELS_PER_INCH)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    for line in lines:
        axes.plot(
            [line.x, line.x, line.to_x, line.to_x],
            [line.y, line.turn, line.turn, line.to_y],
            color=colours[LINE],
            linewidth=0.9,
        )
    for one in texts:
        axes.text(
            one.x,
            one.y,
            one.text,
            color=colours[one.kind],
            fontsize=FONT_SIZE * 72 / PIXELS_PER_INCH,
            fontweight="bold" if one.kind == CONSTITUENT else "normal",
            ha="center",
            parse_math=False,
        )
    return finish(figure, theme)


def _drawing(tree: Tree) -> tuple[list[_Text], list[_Line], float, float]:
    """What is written where, the lines between, and width and height of the picture."""
    places, width, height = _layout(tree)
    bottom = height - MARGIN - WORD
    texts, lines = list[_Text](), list[_Line]()
    open_nodes: list[int] = []
    number = -1
    for node, is_end in walk(tree):
        if is_end:
            open_nodes.pop()
            continue
        number += 1
        x, y = places[number]
        if open_nodes:
            from_x, from_y = places[open_nodes[-1]]
            # Right angles: a line straight down to a word crosses none of another constituent.
            lines.append(_Line(from_x, from_y + 6, from_y + LEVEL / 2 - 5, x, y - FONT_SIZE))
        texts.append(_Text(CONSTITUENT if node.word is None else TAG, x, y, node.label))
        if node.word is not None:
            texts.append(_Text(WORD_ITSELF, x, bottom + WORD, node.word))
        else:
            open_nodes.append(number)
    return texts, lines, width, height


def _layout(tree: Tree) -> tuple[list[tuple[float, float]], float, float]:
    """The place of each node in the order of `walk`, and width and height of the picture."""
    xs: list[float] = []
    depths: list[int] = []
    is_word: list[bool] = []
    open_nodes: list[tuple[int, list[int]]] = []  # a constituent, and its children
    right = float(MARGIN)
    for node, is_end in walk(tree):
        if is_end:
            number, children = open_nodes.pop()
            xs[number] = (xs[children[0]] + xs[children[-1]]) / 2
            continue
        number = len(xs)
        if open_nodes:
            open_nodes[-1][1].append(number)
        depths.append(len(open_nodes))
        is_word.append(node.word is not None)
        if node.word is None:
            xs.append(0.0)
            open_nodes.append((number, []))
        else:
            room = LETTER * max(len(node.word), len(node.label))
            xs.append(right + room / 2)
            right += room + GAP
    bottom = MARGIN + FONT_SIZE + LEVEL * max(depths)
    ys = [
        bottom if word else MARGIN + FONT_SIZE + LEVEL * depth
        for word, depth in zip(is_word, depths, strict=True)
    ]
    return list(zip(xs, ys, strict=True)), right - GAP + MARGIN, bottom + WORD + MARGIN


__all__ = ["plot_tree", "tree_svg"]
