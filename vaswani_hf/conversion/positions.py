# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Sinusoids in other orders of the model dimension (section 3.5)."""

import torch
from torch import Tensor, nn

from ..modeling_vaswani import LearnedPositions, sinusoidal_positions


def has_paper_positions(table: Tensor) -> bool:
    """Whether a table `(positions, d_model)` is the sinusoids of section 3.5, rounding aside.

    5e-4 lets a table through that was computed in float32, which is 3e-4 off by position 5,000.
    """
    paper = sinusoidal_positions(*table.shape)
    return bool((table.float() - paper).abs().max() < 5e-4)


def halves_to_pairs(d_model: int) -> Tensor:
    """The permutation from sinusoids in two halves to the paper's pairs, `(d_model,)`.

    `x_of_pairs = x_of_halves[..., halves_to_pairs(d_model)]`: other implementations put all sines
    first and all cosines after them; the paper interleaves (section 3.5).
    """
    half = (d_model + 1) // 2
    return torch.stack((torch.arange(half), torch.arange(half) + half), dim=1).flatten()[:d_model]


def pairs_to_halves(d_model: int) -> Tensor:
    """The inverse of `halves_to_pairs`."""
    return halves_to_pairs(d_model).argsort()


def permute_model_dimension(model: nn.Module, order: Tensor) -> None:
    """Renumber the model dimension through all weights: the function computed stays the same.

    Args:
        model: a `VaswaniForConditionalGeneration`; changed in place. Sinusoidal tables stay as they
            are, learned ones are renumbered.
        order: `(d_model,)`: dimension i of the new model is dimension `order[i]` of the old.
    """
    seen: set[int] = set()

    def renumber(parameter: Tensor | None, dim: int) -> None:
        if parameter is not None and id(parameter) not in seen:
            seen.add(id(parameter))
            parameter.copy_(parameter.index_select(dim, order.to(parameter.device)))

    with torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, nn.Embedding | LearnedPositions):
                renumber(module.weight, 1)
            elif isinstance(module, nn.LayerNorm):
                renumber(module.weight, 0)
                renumber(module.bias, 0)
            elif isinstance(module, nn.Linear):
                writes = name.endswith((".output_proj", ".outer"))
                renumber(module.weight, 0 if writes else 1)
                if writes:
                    renumber(module.bias, 0)
