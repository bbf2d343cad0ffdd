# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python examples/attention.py [-o attention.svg] [--theme dark]

Equation 1 by numbers: three keys at 0, 45 and 90 degrees, and a query at 60 (section 3.2.1). The
value of each key is its angle, so that what comes out is an angle too.
"""

import argparse
import math
from typing import Any

import torch
from torch import Tensor, nn

from vaswani_hf.modeling_vaswani import scaled_dot_product_attention
from vaswani_hf.pictures import save_picture
from vaswani_hf.pictures.drawing import finish, label_axes, new_figure, theme_of


KEYS, QUERY = (0, 45, 90), 60  # degrees
D_K = 2


def arrow(*degrees: float) -> Tensor:
    """Vectors of length 1, `(1, 1, count, d_k)`: a batch of one sentence, one head."""
    angle = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack((angle.cos(), angle.sin()), dim=-1)[None, None]


def attend() -> dict[str, Tensor]:
    """Every number of the example, by name; those of the keys are `(3,)`."""
    query, key = arrow(QUERY), arrow(*KEYS)
    value = torch.tensor(KEYS, dtype=torch.float64).view(1, 1, 3, 1)  # d_v is 1
    mixed, weights = scaled_dot_product_attention(nn.Identity(), query, key, value, None, D_K**-0.5)
    products = (query @ key.transpose(-2, -1)).flatten()
    scaled = products / math.sqrt(D_K)
    return {
        "query": query.flatten(),
        "keys": key[0, 0],
        "products": products,
        "scaled": scaled,
        "exponentials": scaled.exp(),
        "weights": weights.flatten(),
        "mixed": mixed.flatten(),
    }


def show(found: dict[str, Tensor]) -> None:
    """Print the example as a table."""
    x, y = found["query"].tolist()
    print(f"query at {QUERY}°: ({x:.4f}, {y:.4f})\n")
    print("key   vector             q·k    q·k/√2   exp     softmax   value")
    columns = zip(
        *(found[name].tolist() for name in ("products", "scaled", "exponentials", "weights")),
        strict=True,
    )
    for angle, (x, y), row in zip(KEYS, found["keys"].tolist(), columns, strict=True):
        product, scaled, exponential, weight = row
        print(
            f"{angle:3}°  ({x:.4f}, {y:.4f})   {product:.4f}  {scaled:.4f}   "
            f"{exponential:.4f}  {weight:.4f}    {angle:2}"
        )
    total, weight = found["exponentials"].sum().item(), found["weights"].sum().item()
    print(f"sum{total:45.4f}  {weight:.4f}\n")
    pairs = zip(found["weights"].tolist(), KEYS, strict=True)
    terms = " + ".join(f"{weight:.4f}·{angle}" for weight, angle in pairs)
    print(f"mixed value: {terms} = {found['mixed'].item():.4f}")


def draw(found: dict[str, Tensor], theme: str) -> Any:
    """The arrows on the left, the weights of the values on the right."""
    colours = theme_of(theme).colours
    figure = new_figure(theme)
    figure.set_size_inches(8.4, 3.9)
    arrows, bars = figure.subplots(1, 2, width_ratios=[1, 1.15])
    vectors = [*found["keys"].tolist(), found["query"].tolist()]
    names = [*(f"key at {angle}°" for angle in KEYS), f"query at {QUERY}°"]
    for number, ((x, y), name) in enumerate(zip(vectors, names, strict=True)):
        style = {"color": colours[number], "linewidth": 2.0}
        arrows.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", **style})
        arrows.annotate(name, (x, y), (6, 4), textcoords="offset points", color=colours[number])
    label_axes(arrows, "first dimension", "second dimension", theme)
    arrows.set(xlim=(0, 1.45), ylim=(0, 1.15), aspect="equal")
    arrows.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    arrows.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    weights = found["weights"].tolist()
    bars.bar(range(len(KEYS)), weights, color=colours[: len(KEYS)], width=0.62)
    for place, weight in enumerate(weights):
        bars.annotate(
            f"{weight:.4f}", (place, weight), (0, 4), textcoords="offset points", ha="center"
        )
    label_axes(bars, "value", "weight", theme)
    bars.set_xticks(range(len(KEYS)), [f"{angle}" for angle in KEYS])
    bars.set_ylim(0, 0.5)
    bars.grid(False, axis="x")
    bars.set_title(f"mixed value {found['mixed'].item():.2f}", fontsize=11)
    return finish(figure, theme)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", help="draw a picture: .png, .svg or .pdf")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    arguments = parser.parse_args()
    found = attend()
    show(found)
    if arguments.output:
        save_picture(draw(found, arguments.theme), arguments.output)


if __name__ == "__main__":
    main()
