# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Equation 3: the learning rate over updates."""

from collections.abc import Sequence
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from matplotlib.figure import Figure
from .drawing import finish, label_axes, line_style, new_figure, theme_of


PAPER = (512, 4000)  # d_model of the base model, warmup_steps


def plot_learning_rate(
    *d_models: int,
    warmup_steps: Sequence[int] = (4000,),
    num_updates: int = 20_000,
    theme: str = "light",
) -> "Figure":
    """Draw the learning rate over updates (section 5.3, equation 3).

    The curve of the paper's base model is thicker, and in front of the others.

    Args:
        d_models: widths of models; 512 unless given.
        warmup_steps: lengths of the warm-up; there is a curve for each with each width.
        num_updates: where the curves end.
        theme: `"light"` or `"dark"`.

    Raises:
        ValueError: if a number is below 1, or there is no such theme.
        ImportError: if matplotlib is not installed.
    """
    widths = d_models or (512,)
    for name, values in [
        ("d_model", widths),
        ("warmup_steps", warmup_steps),
        ("num_updates", [num_updates]),
    ]:
        if min(values, default=0) < 1:
            raise ValueError(f"{name} must be at least 1, got {name}={list(values)}.")
    figure = new_figure(theme)
    curves = [(d_model, warmup) for d_model in widths for warmup in warmup_steps]
    is_crowded = len(curves) > 2
    figure.set_size_inches(9.4 if is_crowded else 6.4, 4.0)
    axes = figure.subplots()
    every = max(num_updates // 1000, 1)
    for number, (d_model, warmup) in enumerate(curves):
        steps = sorted({*range(1, num_updates + 1, every), num_updates, min(warmup, num_updates)})
        rates = [d_model**-0.5 * min(step**-0.5, step * warmup**-1.5) for step in steps]
        label = f"d_model {d_model}, warm-up {warmup:,}"
        style = line_style(number, theme)
        if (d_model, warmup) == PAPER and len(curves) > 1:
            label += " (the paper's base)"
            style |= {"linewidth": 3.2, "zorder": 3}
        axes.plot(steps, rates, label=label, **style)
    label_axes(axes, "updates", "learning rate", theme)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    axes.set_xlim(0, num_updates)
    axes.set_ylim(bottom=0)
    if is_crowded:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    else:
        axes.legend(framealpha=1.0, edgecolor="none", facecolor=theme_of(theme).paper)
    return finish(figure, theme)
