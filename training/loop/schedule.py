# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The learning rate of section 5.3, counted from step 1."""

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def peak_learning_rate(d_model: int, warmup_steps: int) -> float:
    """The highest rate, reached at `warmup_steps`: (d_model warmup_steps)^-0.5 (equation 3)."""
    return (d_model * max(warmup_steps, 1)) ** -0.5


def learning_rate_at(step: int, warmup_steps: int, peak: float) -> float:
    """The rate of an update: linear up to `peak`, then falling as 1 / sqrt(step) (equation 3).

    Args:
        step: number of the update, from 1.
        warmup_steps: number of the update with the highest rate.
        peak: that rate; with `peak_learning_rate` this is the paper's formula, and other peaks
            scale it.

    Raises:
        ValueError: if `step` is below 1.
    """
    if step < 1:
        raise ValueError(f"step counts from 1, got step={step}.")
    warmup_steps = max(warmup_steps, 1)
    return peak * min(step / warmup_steps, (warmup_steps / step) ** 0.5)


def inverse_sqrt_schedule(optimizer: Optimizer, warmup_steps: int) -> LambdaLR:
    """A scheduler that gives update n the rate `learning_rate_at(n)`; the optimizer's is the peak.

    The library's `inverse_sqrt` counts from 0, so that its first update does nothing.
    """
    return LambdaLR(optimizer, lambda done: learning_rate_at(done + 1, warmup_steps, 1.0))
