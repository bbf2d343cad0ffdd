# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The range of each setting that is a number."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from vaswani_hf.search_settings_vaswani import LARGEST_ALPHA


Range = tuple[Callable[[Any], bool], str]
_POSITIVE: Range = (lambda value: 0 < value < math.inf, "above 0")
_NOT_NEGATIVE: Range = (lambda value: 0 <= value < math.inf, "at least 0")
_COUNT: Range = (lambda value: value >= 1, "at least 1")
_SHARE: Range = (lambda value: 0 <= value <= 1, "in [0, 1]")
_BELOW_1: Range = (lambda value: 0 <= value < 1, "at least 0 and below 1")
_SEED: Range = (lambda value: 0 <= value < 2**32, "in 0 to 2^32 - 1")
_STEPS: Range = (lambda value: 0 < value < math.inf, "above 0 (below 1 it is a share of max_steps)")

# What a setting must be unless it is `None`. No comparison holds for nan.
RANGES: Mapping[str, Range] = {
    "max_length": (lambda value: value >= 2, "at least 2, a piece and `</s>`"),
    "max_length_ratio": _COUNT,
    "bpe_dropout": _BELOW_1,
    "upper_case_noise": _SHARE,
    "title_case_noise": _SHARE,
    "lower_case_noise": _SHARE,
    "typo_noise": _SHARE,
    "shuffle_buffer_pairs": _COUNT,
    "tokenizer_sample_pairs": _COUNT,
    "source_tokens": _COUNT,
    "target_tokens": _COUNT,
    "device_tokens": _COUNT,
    "eval_batch_tokens": _COUNT,
    "pad_to_multiple_of": _COUNT,
    "max_padding": _SHARE,
    "gradient_accumulation_steps": _COUNT,
    "max_steps": (
        lambda value: value >= 1 or value == -1,
        "at least 1, or -1 for num_train_epochs to decide",
    ),
    "num_train_epochs": _POSITIVE,
    "max_minutes": _POSITIVE,
    "learning_rate": _NOT_NEGATIVE,
    "warmup_steps": _NOT_NEGATIVE,
    "adam_beta1": _BELOW_1,
    "adam_beta2": _BELOW_1,
    "adam_epsilon": _NOT_NEGATIVE,
    "weight_decay": _NOT_NEGATIVE,
    "max_grad_norm": (lambda value: 0 <= value < math.inf, "at least 0, which clips nothing"),
    "save_steps": _STEPS,
    "eval_steps": _STEPS,
    "logging_steps": _STEPS,
    "eval_delay": _NOT_NEGATIVE,
    "save_minutes": _POSITIVE,
    "save_total_limit": _COUNT,
    "early_stopping_patience": _COUNT,
    "average_last": _COUNT,
    "lora_rank": _COUNT,
    "lora_alpha": _POSITIVE,
    "lora_dropout": (lambda value: 0 <= value < 1, "at least 0 and below 1"),
    "num_beams": _COUNT,
    "generation_num_beams": _COUNT,
    "generation_max_length": _COUNT,
    "length_penalty": (
        lambda value: abs(value) <= LARGEST_ALPHA,
        f"in [-{LARGEST_ALPHA:g}, {LARGEST_ALPHA:g}]",
    ),
    "max_extra_tokens": _NOT_NEGATIVE,
    "dry_run_updates": _NOT_NEGATIVE,
    "r_drop": _POSITIVE,
    "r_drop_after": _NOT_NEGATIVE,
    "distillation_weight": (lambda value: 0 < value <= 1, "above 0 and at most 1"),
    "distillation_top_k": _COUNT,
    "guided_alignment_weight": _POSITIVE,
    "guided_alignment_layer": _NOT_NEGATIVE,
    "guided_alignment_head": _NOT_NEGATIVE,
    "threads": _COUNT,
    "dataloader_num_workers": _NOT_NEGATIVE,
    "dataloader_prefetch_factor": _COUNT,
    "seed": _SEED,
    "data_seed": _SEED,
    "ddp_timeout": _POSITIVE,
    "ddp_bucket_cap_mb": _COUNT,
    "torch_empty_cache_steps": _COUNT,
}


def check_ranges(settings: object) -> None:
    """Refuse numbers out of their range.

    Args:
        settings: an object that has the settings as attributes; it may lack some.

    Raises:
        ValueError: naming the first setting that is out of range, and the range.
    """
    for name, (is_in_range, needed) in RANGES.items():
        value = getattr(settings, name, None)
        if value is not None and not is_in_range(value):
            raise ValueError(f"{name} must be {needed}, got {name}={value}.")
