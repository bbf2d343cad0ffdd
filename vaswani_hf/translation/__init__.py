# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How is text translated? By `generate()` or by CTranslate2."""

from typing import TYPE_CHECKING

from ..imports import imported_at_use


if TYPE_CHECKING:
    from .alignment import Alignment, Head
    from .ctranslate2 import CTranslate2Translator
    from .engine import TextTranslator
    from .ensemble import VaswaniEnsemble
    from .filtering import DualScore, dual_scores
    from .found import (
        Hypothesis,
        LongPrefixError,
        LongSourceError,
        LongTextError,
        MBRTranslation,
        Translation,
    )
    from .pairs import PairError, UnequalLengthError
    from .ray_data import RayTranslator, lines_of_shard
    from .scoring import PairScore, perplexity
    from .translator import Translator
    from .words import Segmentation


__all__ = [
    "Alignment",
    "CTranslate2Translator",
    "DualScore",
    "Head",
    "Hypothesis",
    "LongPrefixError",
    "LongSourceError",
    "LongTextError",
    "MBRTranslation",
    "PairError",
    "PairScore",
    "RayTranslator",
    "Segmentation",
    "TextTranslator",
    "Translation",
    "Translator",
    "UnequalLengthError",
    "VaswaniEnsemble",
    "dual_scores",
    "lines_of_shard",
    "perplexity",
]

__getattr__, __dir__ = imported_at_use(
    __name__,
    {
        "Alignment": "alignment",
        "CTranslate2Translator": "ctranslate2",
        "DualScore": "filtering",
        "Head": "alignment",
        "Hypothesis": "found",
        "LongPrefixError": "found",
        "LongSourceError": "found",
        "LongTextError": "found",
        "MBRTranslation": "found",
        "PairError": "pairs",
        "PairScore": "scoring",
        "RayTranslator": "ray_data",
        "Segmentation": "words",
        "TextTranslator": "engine",
        "Translation": "found",
        "Translator": "translator",
        "UnequalLengthError": "pairs",
        "VaswaniEnsemble": "ensemble",
        "dual_scores": "filtering",
        "lines_of_shard": "ray_data",
        "perplexity": "scoring",
    },
)
