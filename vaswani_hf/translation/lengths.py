# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How long a source may be: by its model's positions, its training, and what the caller wants."""

from typing import Any

from .options import check_at_least


# What is refused where nobody says more: attention takes memory and time by the square of it.
# fairseq and CTranslate2 have the same number.
LONGEST_SOURCE = 1024
# Where the tokenizer tells no length: the longest sentence of the paper's training (tensor2tensor).
UNKNOWN_LENGTH = 256
_NO_LENGTH = 10**9  # the library writes a number far above it into a tokenizer without one


def trained_length(tokenizer: Any) -> int | None:
    """Tokens of the longest source of the training, where the source's tokenizer tells them."""
    length = getattr(tokenizer, "model_max_length", None)
    return length if length and length < _NO_LENGTH else None


def length_limit(given: int | None, default: int, max_positions: int | None) -> int:
    """How many tokens a source may have: as many as were given, or else the default.

    Args:
        given: what the caller wants, or `None`.
        default: in place of that, or as many as there are positions.
        max_positions: tokens that the model can read at all; `None` for any number.

    Raises:
        ValueError: if `given` is below 2, a piece and `</s>`, or above `max_positions`.
    """
    check_at_least(2, max_source_tokens=given)
    if given is None:
        return min(default, max_positions or default)
    if max_positions is not None and given > max_positions:
        raise ValueError(
            f"max_source_tokens must be at most {max_positions}, the positions that the model has, "
            f"got max_source_tokens={given}."
        )
    return given
