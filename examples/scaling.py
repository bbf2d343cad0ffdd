# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python examples/scaling.py [-o scaling.svg] [--theme dark]

Why attention divides by the square root of d_k (section 3.2.1, footnote 4): the dot product of two
random vectors has the variance d_k, and a softmax of large numbers has next to no gradient.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vaswani_hf.pictures import save_picture
from vaswani_hf.pictures.drawing import finish, label_axes, line_style, new_figure


WIDTHS = (1, 4, 16, 64, 256, 1024)  # the base model's d_k is 64
NUM_QUERIES, NUM_KEYS = 2001, 10  # an odd number has a middle


@dataclass(frozen=True)
class Scores:
    """What queries and keys of one width give.

    Attributes:
        variance: of the scores.
        largest: the largest weight of a query, in (0, 1]; the median of all queries.
        gradient: the length of all derivatives of a query's weights by its scores; likewise.
    """

    variance: float
    largest: float
    gradient: float


def softmax_gradient(scores: Tensor) -> Tensor:
    """How much the weights move with the scores, `(queries,)`.

    Args:
        scores: `(queries, keys)`.
    """
    derivative = torch.func.vmap(torch.func.jacrev(lambda row: row.softmax(dim=-1)))
    return derivative(scores).flatten(1).norm(dim=1)  # of (queries, keys, keys)


def measure(scores: Tensor) -> Scores:
    """Look at scores `(queries, keys)`."""
    return Scores(
        variance=scores.var().item(),
        largest=scores.softmax(dim=-1).max(dim=-1).values.median().item(),
        gradient=softmax_gradient(scores).median().item(),
    )


def compare(d_k: int) -> tuple[Scores, Scores]:
    """Scores without and with scaling, of numbers with mean 0 and variance 1."""
    random = torch.Generator().manual_seed(0)
    query = torch.randn(NUM_QUERIES, 1, d_k, generator=random)
    key = torch.randn(NUM_QUERIES, NUM_KEYS, d_k, generator=random)
    products = (query @ key.transpose(1, 2)).squeeze(1)  # (queries, keys)
    return measure(products), measure(products / d_k**0.5)


def draw(rows: Sequence[tuple[Scores, Scores]], theme: str) -> Any:
    """The three columns of the table over d_k."""
    figure = new_figure(theme)
    figure.set_size_inches(11.4, 3.7)
    names = {
        "variance": "variance of the scores",
        "largest": "largest weight of a query",
        "gradient": "gradient of the softmax",
    }
    for axes, (name, label) in zip(figure.subplots(1, 3), names.items(), strict=True):
        for number, way in enumerate(("q·k", r"q·k / $\sqrt{d_k}$")):
            values = [getattr(row[number], name) for row in rows]
            axes.plot(WIDTHS, values, marker="o", label=way, **line_style(number, theme))
        label_axes(axes, "$d_k$", label, theme)
        axes.set_xscale("log", base=2)
        axes.set_xticks(WIDTHS, [str(width) for width in WIDTHS])
        if name == "largest":
            axes.set_ylim(0, 1.04)
        else:
            axes.set_yscale("log")
        if name == "variance":
            axes.legend(frameon=False)
    return finish(figure, theme)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", help="draw a picture: .png, .svg or .pdf")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    arguments = parser.parse_args()
    rows = [compare(d_k) for d_k in WIDTHS]
    print("          variance        largest weight         gradient")
    print(" d_k      q·k   scaled      q·k   scaled       q·k    scaled")
    for d_k, (plain, scaled) in zip(WIDTHS, rows, strict=True):
        print(
            f"{d_k:4}  {plain.variance:7.2f}   {scaled.variance:6.2f}   "
            f"{plain.largest:6.4f}   {scaled.largest:6.4f}   "
            f"{plain.gradient:7.2g}   {scaled.gradient:7.2g}"
        )
    if arguments.output:
        save_picture(draw(rows, arguments.theme), arguments.output)


if __name__ == "__main__":
    main()
