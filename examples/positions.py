# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python examples/positions.py [-o positions.svg] [--theme dark]

Why sinusoids (section 3.5): "for any fixed offset k, PE(pos+k) can be represented as a linear
function of PE(pos)". Which one? It is found by least squares, and is a rotation.
"""

import argparse
from typing import Any

import torch
from torch import Tensor

from vaswani_hf.modeling_vaswani import sinusoidal_positions
from vaswani_hf.pictures import save_picture
from vaswani_hf.pictures.drawing import finish, label_axes, new_figure, theme_of


D_MODEL, NUM_POSITIONS, OFFSET = 8, 200, 3


def fitted_shift(table: Tensor, offset: int) -> Tensor:
    """The matrix, `(d_model, d_model)`, that makes each row of the table the one `offset` later.

    Args:
        table: sinusoids, `(num_positions, d_model)`.
        offset: k, a number of positions.
    """
    # Rows are positions, so that least squares finds the transpose.
    return torch.linalg.lstsq(table[:-offset], table[offset:]).solution.T


def rotations(d_model: int, offset: int) -> Tensor:
    """The same in closed form: a rotation of each sine and its cosine by `offset / 10000^(2i/d)`.

    sin(a + b) = cos(b) sin(a) + sin(b) cos(a), and cos(a + b) = -sin(b) sin(a) + cos(b) cos(a).
    """
    angles = offset / 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    blocks = [
        torch.stack((torch.stack((b.cos(), b.sin())), torch.stack((-b.sin(), b.cos()))))
        for b in angles
    ]
    return torch.block_diag(*blocks)


def draw(table: Tensor, matrix: Tensor, theme: str) -> Any:
    """The matrix on the left; on the right two pairs of dimensions, which go round."""
    colours = theme_of(theme)
    figure = new_figure(theme)
    figure.set_size_inches(9.6, 5.6)
    parts: Any = figure.subfigures(1, 2, width_ratios=[2, 1])
    left, right = parts
    axes = left.subplots()
    image = axes.imshow(matrix.numpy(), cmap=colours.diverging, vmin=-1, vmax=1)
    for row, values in enumerate(matrix.tolist()):
        for column, value in enumerate(values):
            if abs(value) > 5e-4:
                ink = colours.paper if abs(value) > 0.6 else colours.ink
                text = f"{value:.3f}".replace("-", "\N{MINUS SIGN}")
                axes.text(column, row, text, ha="center", va="center", fontsize=8, color=ink)
    axes.set_xlabel("dimension of PE(pos)")
    axes.set_ylabel(f"dimension of PE(pos + {OFFSET})")
    left.colorbar(image, ax=axes, label="found by least squares")
    for i, axes in enumerate(right.subplots(2, 1)):
        frequency = 10000 ** (-2 * i / D_MODEL)
        sines, cosines = table[:8, 2 * i], table[:8, 2 * i + 1]
        axes.plot(cosines.tolist(), sines.tolist(), "o", color=colours.colours[0], markersize=4)
        for position in (1, 1 + OFFSET):
            x, y = cosines[position].item(), sines[position].item()
            axes.plot([0, x], [0, y], color=colours.colours[0], linewidth=1.0)
            axes.text(1.16 * x, 1.16 * y, str(position), ha="center", va="center")
        angles = torch.linspace(1, 1 + OFFSET, 50) * frequency
        arc = {"color": colours.colours[1], "linewidth": 2.4}
        axes.plot((0.6 * angles.cos()).tolist(), (0.6 * angles.sin()).tolist(), **arc)
        label_axes(axes, f"dimension {2 * i + 1}", f"dimension {2 * i}", theme)
        axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
        axes.set_xticks([-1, 0, 1])
        axes.set_yticks([-1, 0, 1])
        axes.set_title(f"position 1 to {1 + OFFSET}: {OFFSET * frequency:g} rad", fontsize=10)
    return finish(figure, theme)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", help="draw a picture: .png, .svg or .pdf")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    arguments = parser.parse_args()
    table = sinusoidal_positions(NUM_POSITIONS, D_MODEL).double()
    found, exact = fitted_shift(table, OFFSET), rotations(D_MODEL, OFFSET)
    print(f"PE(pos + {OFFSET}) = M PE(pos), d_model {D_MODEL}. M, found by least squares:\n")
    for row in (found + 0.0).round(decimals=3).tolist():
        print(" ".join("     ." if value == 0 else f"{value:6.3f}" for value in row))
    print(f"\nangles {OFFSET} / 10000^(2i/{D_MODEL}), and what the blocks of M say:")
    for i in range(D_MODEL // 2):
        angle = torch.atan2(found[2 * i, 2 * i + 1], found[2 * i, 2 * i])
        print(f"i = {i}: {OFFSET / 10000 ** (2 * i / D_MODEL):.6f}  {angle.item():.6f}")
    error = (found - exact).abs().max().item()
    print(f"\nM differs from the rotation by less than 1e-5: {error < 1e-5}")
    identity = torch.eye(D_MODEL, dtype=torch.float64)
    error = (found @ found.T - identity).abs().max().item()
    print(f"M Mᵀ differs from 1 by less than 1e-5: {error < 1e-5}")
    if arguments.output:
        save_picture(draw(table, found, arguments.theme), arguments.output)


if __name__ == "__main__":
    main()
