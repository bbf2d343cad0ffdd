# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Checks of the options of a translator."""

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ..search_settings_vaswani import POWER, WU, check_length_penalty, check_num_beams


if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Sampling:
    """How pieces are drawn.

    Attributes:
        topk: out of how many, the most probable ones; 0 for all.
        temperature: what logits are divided by.
        seed: what decides the draws, beside the source, the number of the sample and the step.
        is_seed_given: whether the caller has named it.
    """

    topk: int
    temperature: float
    seed: int
    is_seed_given: bool

    @classmethod
    def make(
        cls, sampling_topk: int | None, temperature: float | None, seed: int | None
    ) -> Self | None:
        """What a caller asks for; `None` for no sampling.

        Raises:
            ValueError: if an option is out of range, or `sampling_topk` is missing.
        """
        if sampling_topk is None:
            for name, value in (("temperature", temperature), ("seed", seed)):
                if value is not None:
                    raise ValueError(
                        f"{name} is for sampling; give sampling_topk too, 0 to draw among all "
                        f"pieces."
                    )
            return None
        check_at_least(0, sampling_topk=sampling_topk)
        if temperature is not None and not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be a number above 0, got {temperature=}.")
        chosen = secrets.randbits(63) if seed is None else seed
        return cls(sampling_topk, first_given(temperature, 1.0), chosen, seed is not None)


DTYPES = ("float32", "bfloat16", "float16")


def check_dtype(dtype: str | None) -> None:
    """Raise a `ValueError` for a type that no model is loaded in."""
    if dtype not in (None, *DTYPES):
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype=}.")


def device_names(device: str | Sequence[str] | None) -> list[str | None]:
    """The names in a list, or in a text such as `"cuda:0,cuda:1"`; `[None]` where none is given.

    Raises:
        ValueError: if the list is empty.
    """
    names = device.split(",") if isinstance(device, str) else device
    if names is None:
        return [None]
    if not names:
        raise ValueError("device is an empty list; name one, such as cpu, or leave it out.")
    return [name.strip() for name in names]


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


def check_num_returned(
    num: int, num_beams: int, name: str = "num_return_sequences", beams_name: str = "num_beams"
) -> None:
    """Raise a `ValueError` for more translations than beams, by the names of the two options."""
    if num > num_beams:
        raise ValueError(
            f"{name} must be at most {beams_name}, got {name}={num} and {beams_name}={num_beams}; "
            f"take as many beams, or samples by sampling_topk."
        )


def check_search_options(
    num_beams: int | None,
    length_penalty: float | None,
    length_penalty_type: str | None,
    max_extra_tokens: int | None = None,
    num_pieces: int | None = None,
) -> None:
    """Raise a `ValueError` for an option that is out of range.

    Args:
        num_beams: beam width; what is `None` is not checked.
        length_penalty: alpha.
        length_penalty_type: `"wu"` or `"power"`.
        max_extra_tokens: those beyond the source's.
        num_pieces: of the target vocabulary, which bounds the beams.
    """
    check_at_least(1, num_beams=num_beams)
    if num_beams is not None and num_pieces is not None:
        check_num_beams(num_beams, num_pieces)
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
