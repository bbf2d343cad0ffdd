# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""A constituency tree as an SVG picture (section 6.3)."""

from xml.sax.saxutils import escape

from ..parsing.trees import Tree, walk


# In pixels.
FONT_SIZE = 15
LETTER = 8.4  # what a letter of this size takes, on average
GAP = 14  # between two words
LEVEL = 46  # from a constituent to its children
WORD = 22  # from a tag to its word
MARGIN = 16

_STYLE = (
    f"text{{font:{FONT_SIZE}px sans-serif;text-anchor:middle}}"
    ".constituent{font-weight:bold;fill:#1f5a8a}.tag{fill:#6b6b6b}.word{fill:#111}"
    "path{fill:none;stroke:#9aa5b1;stroke-width:1.2}"
)


def tree_svg(tree: Tree) -> str:
    """The picture: words in a line with their tags above, each constituent above what it holds.

    Args:
        tree: such as `read_trees` gives.

    Returns:
        An SVG document.
    """
    places, width, height = _layout(tree)
    bottom = height - MARGIN - WORD
    lines, texts = [], []
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
            begin, turn, end = from_y + 6, from_y + LEVEL / 2 - 5, y - FONT_SIZE
            lines.append(f"M{from_x:.1f} {begin:.1f}V{turn:.1f}H{x:.1f}V{end:.1f}")
        kind = "constituent" if node.word is None else "tag"
        texts.append(_text(kind, x, y, node.label))
        if node.word is not None:
            texts.append(_text("word", x, bottom + WORD, node.word))
        else:
            open_nodes.append(number)
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(' '.join(tree.words()))}</title>",
            f"<style>{_STYLE}</style>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            *([f'<path d="{"".join(lines)}"/>'] if lines else []),
            *texts,
            "</svg>\n",
        ]
    )


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


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


__all__ = ["tree_svg"]
