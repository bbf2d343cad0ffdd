# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which pieces does a model have? Fewer, or more, without training it anew."""

from typing import TYPE_CHECKING

from ..imports import imported_at_use


if TYPE_CHECKING:
    from .surgery import extend_vocabulary, trim_vocabulary


__all__ = ["extend_vocabulary", "trim_vocabulary"]

__getattr__, __dir__ = imported_at_use(
    __name__, {"extend_vocabulary": "surgery", "trim_vocabulary": "surgery"}
)
