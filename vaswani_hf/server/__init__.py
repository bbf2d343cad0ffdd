# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How do other programs ask for translations? Over HTTP, as they would ask LibreTranslate."""

from typing import TYPE_CHECKING

from ..imports import imported_at_use


if TYPE_CHECKING:
    from .app import make_app
    from .limits import Limits
    from .pairs import LanguagePair, Pairs
    from .queue import TranslationQueue


__all__ = ["LanguagePair", "Limits", "Pairs", "TranslationQueue", "make_app"]

__getattr__, __dir__ = imported_at_use(
    __name__,
    {
        "LanguagePair": "pairs",
        "Limits": "limits",
        "Pairs": "pairs",
        "TranslationQueue": "queue",
        "make_app": "app",
    },
)
