# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How is text translated? By `generate()` or by CTranslate2."""

from .alignment import Alignment, Head
from .ctranslate2 import CTranslate2Translator
from .pairs import PairError, UnequalLengthError
from .scoring import PairScore, perplexity
from .translator import LongSourceError, TextTranslator, Translator
from .words import Segmentation


__all__ = [
    "Alignment",
    "CTranslate2Translator",
    "Head",
    "LongSourceError",
    "PairError",
    "PairScore",
    "Segmentation",
    "TextTranslator",
    "Translator",
    "UnequalLengthError",
    "perplexity",
]
