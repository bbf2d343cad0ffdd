# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""LoRA by PEFT: small matrices beside those of a trained model, which alone are trained."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor
from transformers import BitsAndBytesConfig

from vaswani_hf import VaswaniForConditionalGeneration
from vaswani_hf.extras import require
from vaswani_hf.hub.names import ADAPTER_WEIGHTS

from ..settings.fields import VaswaniTrainingArguments


def check_packages(training: VaswaniTrainingArguments) -> None:
    """Raise an `ImportError` that names the extra, if a package is missing that is asked for."""
    if training.lora_rank is not None:
        require("peft")
    if training.load_in_8bit:
        require("bitsandbytes")


def quantization(training: VaswaniTrainingArguments) -> dict[str, Any]:
    """The option of `from_pretrained` that holds the base in 8 bits, if that is asked for."""
    if not training.load_in_8bit:
        return {}
    return {"quantization_config": BitsAndBytesConfig(load_in_8bit=True)}


def add_adapter(
    model: VaswaniForConditionalGeneration, training: VaswaniTrainingArguments, base: str
) -> None:
    """Put LoRA's matrices beside those of a trained model, whose own stay as they are.

    Args:
        model: the trained model.
        training: with the adapter's settings.
        base: what the adapter calls its base, a folder or an id on the Hub.
    """
    settings = require("peft").LoraConfig(
        task_type="SEQ_2_SEQ_LM",
        r=training.lora_rank,
        lora_alpha=training.lora_alpha,
        lora_dropout=training.lora_dropout,
        target_modules=training.lora_targets,
    )
    model.add_adapter(settings)
    # The library puts here the folder that the base was loaded from, which may be a cache.
    model.peft_config["default"].base_model_name_or_path = base


def load_adapter(model: VaswaniForConditionalGeneration, weights: Mapping[str, Tensor]) -> None:
    """Put the weights of an adapter's file into the adapter of a model.

    Raises:
        ValueError: if they are other matrices than the model's.
    """
    names = {f"base_model.model.{name}" for name in model.get_adapter_state_dict()}
    if names != weights.keys():
        raise ValueError(
            f"The adapter's file has {len(weights)} matrices and the model {len(names)}; they are "
            f"not the same."
        )
    plain = {name.removeprefix("base_model.model."): weights[name] for name in names}
    require("peft").set_peft_model_state_dict(model, plain, adapter_name="default")


def load_checkpoint(model: VaswaniForConditionalGeneration, folder: str | Path) -> None:
    """Put the adapter of a checkpoint into a model."""
    load_adapter(model, load_file(Path(folder) / ADAPTER_WEIGHTS))


def describe_parameters(model: VaswaniForConditionalGeneration) -> str:
    """How many parameters a model has, and how many of them are trained."""
    total, trained = model.num_parameters(), model.num_parameters(only_trainable=True)
    return f"{total:,} parameters" + f", of which {trained:,} are trained" * (trained < total)


def adapter_figures(model: VaswaniForConditionalGeneration) -> dict[str, Any]:
    """What results and card say of a model's adapter."""
    settings = model.peft_config["default"]
    return {
        "base": settings.base_model_name_or_path,
        "rank": settings.r,
        "alpha": settings.lora_alpha,
        "targets": sorted(settings.target_modules),
        "trainable_parameters": model.num_parameters(only_trainable=True),
    }
