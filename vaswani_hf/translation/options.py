# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Checks of the options of a translator."""

from typing import TYPE_CHECKING, Any

from ..search_settings_vaswani import POWER, WU, check_length_penalty


if TYPE_CHECKING:
    import torch


def usable_device(name: str | None) -> "torch.device":
    """The device of this name; `None` for a GPU where there is one.

    Raises:
        ValueError: if torch cannot compute on it.
    """
    import torch

    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.empty(0, device=name).device
    # torch raises an assertion for a kind of device that it is built without.
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = (str(error).splitlines() or ["torch gives no reason"])[0]
        raise ValueError(f"device={name!r} cannot be used here ({reason}).") from None
    if device.type == "meta":
        raise ValueError("device='meta' cannot compute; choose another, such as cpu.")
    return device


def check_at_least(minimum: int, **options: int | None) -> None:
    """Raise a `ValueError` for an option below the minimum; `None` is allowed."""
    for name, value in options.items():
        if value is not None and value < minimum:
            raise ValueError(f"{name} must be at least {minimum}, got {name}={value}.")


def check_search_options(
    num_beams: int | None,
    length_penalty: float | None,
    length_penalty_type: str | None,
    max_extra_tokens: int | None = None,
) -> None:
    check_at_least(1, num_beams=num_beams)
    check_at_least(0, max_extra_tokens=max_extra_tokens)
    if length_penalty is not None:
        check_length_penalty(length_penalty)
    if length_penalty_type not in (None, WU, POWER):
        raise ValueError(
            f'length_penalty_type must be "{WU}" or "{POWER}", got {length_penalty_type=}.'
        )


def first_given(*values: Any) -> Any:
    """The first that is not `None`."""
    return next(value for value in values if value is not None)
