# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How is text translated? By `generate()` or by CTranslate2."""

from typing import TYPE_CHECKING

from ..imports import imported_at_use


if TYPE_CHECKING:
    from .ctranslate2 import CTranslate2Translator
    from .engine import LongSourceError, TextTranslator
    from .translator import Translator


__all__ = ["CTranslate2Translator", "LongSourceError", "TextTranslator", "Translator"]

__getattr__, __dir__ = imported_at_use(
    __name__,
    {
        "CTranslate2Translator": "ctranslate2",
        "LongSourceError": "engine",
        "TextTranslator": "engine",
        "Translator": "translator",
    },
)
