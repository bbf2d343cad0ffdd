# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The Transformer of "Attention Is All You Need" as a Hugging Face model.

Importing this package makes the model known to `AutoConfig`, `AutoModel` and
`AutoModelForSeq2SeqLM`.
"""

import sys

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from . import pictures
from .configuration_vaswani import VaswaniConfig
from .modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
from .tokenization_vaswani import train_tokenizer
from .translation.ctranslate2 import CTranslate2Translator
from .translation.translator import Translator


__version__ = "0.1.0"

# The older name of `pictures`, for code that imports it.
plotting = pictures
sys.modules[f"{__name__}.plotting"] = pictures

AutoConfig.register(VaswaniConfig.model_type, VaswaniConfig)
AutoModel.register(VaswaniConfig, VaswaniModel)
AutoModelForSeq2SeqLM.register(VaswaniConfig, VaswaniForConditionalGeneration)

__all__ = [
    "CTranslate2Translator",
    "Translator",
    "VaswaniConfig",
    "VaswaniForConditionalGeneration",
    "VaswaniModel",
    "train_tokenizer",
]
