# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The Transformer of "Attention Is All You Need" as a Hugging Face model.

Importing this package makes the model known to `AutoConfig`, `AutoModel` and
`AutoModelForSeq2SeqLM`.
"""

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from .configuration_vaswani import VaswaniConfig
from .modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
from .tokenization_vaswani import train_tokenizer
from .translation import CTranslate2Translator, Translator


__version__ = "0.1.0"

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
