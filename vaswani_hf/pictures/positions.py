# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Section 3.5: the sinusoids of positions."""

from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from matplotlib.figure import Figure
from .drawing import new_figure


def plot_positions(d_model: int = 512, num_positions: int = 128) -> "Figure":
    """Plot the sinusoids of positions, one row for each position (section 3.5).

    Sines (even dimensions) and cosines (odd ones) are separate pictures, since neighbouring columns
    of both could not be seen.

    Raises:
        ValueError: if `d_model` is odd.
        ImportError: if matplotlib is not installed.
    """
    from ..modeling_vaswani import sinusoidal_positions

    if d_model < 2 or d_model % 2:
        raise ValueError(f"d_model must be even for sinusoidal positions, got d_model={d_model}.")
    figure = new_figure()
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
