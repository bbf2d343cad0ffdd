# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The Transformer of "Attention Is All You Need" as a Hugging Face model.

Importing this package makes the model known to `AutoConfig`, `AutoModel` and
`AutoModelForSeq2SeqLM`. It loads neither torch nor transformers: what is used, is loaded then.
"""

import sys
from typing import TYPE_CHECKING

from . import pictures
from .imports import imported_at_use, register


if TYPE_CHECKING:
    from .configuration_vaswani import VaswaniConfig
    from .modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
    from .tokenization_vaswani import train_tokenizer
    from .translation import CTranslate2Translator, Translator, VaswaniEnsemble


__version__ = "0.1.0"

__all__ = [
    "CTranslate2Translator",
    "Translator",
    "VaswaniConfig",
    "VaswaniEnsemble",
    "VaswaniForConditionalGeneration",
    "VaswaniModel",
    "train_tokenizer",
]

__getattr__, __dir__ = imported_at_use(
    __name__,
    {
        "CTranslate2Translator": "translation",
        "Translator": "translation",
        "VaswaniConfig": "configuration_vaswani",
        "VaswaniEnsemble": "translation",
        "VaswaniForConditionalGeneration": "modeling_vaswani",
        "VaswaniModel": "modeling_vaswani",
        "train_tokenizer": "tokenization_vaswani",
        # Modules that need no import statement of their own.
        "configuration_vaswani": "configuration_vaswani",
        "generation_vaswani": "generation_vaswani",
        "hub": "hub",
        "modeling_vaswani": "modeling_vaswani",
        "parsing": "parsing",
        "tokenization_vaswani": "tokenization_vaswani",
        "translation": "translation",
    },
)

# The older name of `pictures`, for code that imports it.
plotting = pictures
sys.modules[f"{__name__}.plotting"] = pictures

register()
