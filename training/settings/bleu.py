# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The rules for the settings of BLEU."""

from transformers import TrainingArguments

from vaswani_hf.evaluation.tokenizers import preparation


def check_bleu(training: TrainingArguments) -> None:
    """Refuse tokenizers that do not exist.

    Raises:
        ValueError: naming the setting, and the tokenizers that there are.
        ImportError: if the tokenizer's package is missing.
    """
    for name, is_split in [("bleu_tokenize", False), ("compound_split_bleu", True)]:
        tokenizer = getattr(training, name)
        try:
            if tokenizer is not None:
                preparation(tokenizer, is_split)
        except ValueError as error:
            raise ValueError(f"{name}={tokenizer}: {error}") from error
