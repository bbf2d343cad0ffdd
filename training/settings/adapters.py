# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Settings of LoRA: what is not chosen follows, and what cannot work is refused."""

from typing import Any


# The projections of attention and of the feed-forward networks, by their names in the model.
TARGETS = ("query_proj", "key_proj", "value_proj", "output_proj", "inner", "outer")


def check_lora(training: Any) -> None:
    """Set `lora_alpha` and `lora_targets` where they are not chosen, and check them.

    Args:
        training: the settings of training, whose fields they are.

    Raises:
        ValueError: naming the setting, and what would do.
    """
    if training.lora_rank is None:
        for name in ("lora_alpha", "lora_targets", "lora_dropout", "load_in_8bit"):
            if getattr(training, name):
                raise ValueError(
                    f"{name}={getattr(training, name)} is for adapters; set lora_rank, such as "
                    f"lora_rank=16."
                )
        return
    unknown = sorted(set(training.lora_targets) - set(TARGETS))
    if unknown:
        raise ValueError(f"lora_targets must be among {', '.join(TARGETS)}, got {unknown[0]}.")
    training.lora_alpha = training.lora_alpha or 2.0 * training.lora_rank
    training.lora_targets = list(dict.fromkeys(training.lora_targets)) or list(TARGETS)
    if not training.model_name_or_path and training.model_name_or_path != "":
        raise ValueError(
            f"lora_rank={training.lora_rank} adapts a trained model: set model_name_or_path, a "
            f"folder or an id on the Hub."
        )
    if training.fsdp:
        raise ValueError("lora_rank needs the whole model on each device; leave out fsdp.")
