# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What is imported when? Names at their first use, the model once the library may look for it."""

from .names import imported_at_use
from .registration import register


__all__ = ["imported_at_use", "register"]
