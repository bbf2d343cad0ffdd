# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How is text translated? By `generate()` or by CTranslate2."""

from .ctranslate2 import CTranslate2Translator
from .translator import LongSourceError, TextTranslator, Translator


__all__ = ["CTranslate2Translator", "LongSourceError", "TextTranslator", "Translator"]
