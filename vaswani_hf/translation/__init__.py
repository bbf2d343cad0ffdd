# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Text in, translated text out, by this library's `generate()` or by CTranslate2."""

from .ctranslate2 import CTranslate2Translator
from .translator import TextTranslator, Translator


__all__ = ["CTranslate2Translator", "TextTranslator", "Translator"]
