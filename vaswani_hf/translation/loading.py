# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What translation reads of a folder beside the weights."""

import json
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import GENERATION_CONFIG_NAME

from ..hub.folder import TARGET_TOKENIZER


CTRANSLATE2_WEIGHTS = "model.bin"  # what every folder of CTranslate2 holds, and no other


def load_tokenizers(
    folder: str | PathLike[str],
) -> tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase | None]:
    """The tokenizer of a folder, and the target's where `target_tokenizer/` holds one.

    Raises:
        ValueError: if there is none that loads; what is damaged is named.
        ImportError: if it needs a library that is not installed.
    """
    tokenizer = _load_tokenizer(Path(folder))
    if not (Path(folder) / TARGET_TOKENIZER / "tokenizer_config.json").is_file():
        return tokenizer, None
    # An empty config keeps the library from looking for one in the subfolder.
    return tokenizer, _load_tokenizer(Path(folder) / TARGET_TOKENIZER, config=PreTrainedConfig())


def _load_tokenizer(folder: Path, **options: Any) -> PreTrainedTokenizerBase:
    for name in ("tokenizer_config.json", "tokenizer.json", "vocab.json"):
        read_json(folder / name)
    try:
        return AutoTokenizer.from_pretrained(folder, **options)
    except ImportError:
        raise
    # The library lets through whatever the first tokenizer class fails with for want of files.
    except Exception as error:
        raise ValueError(
            f"{folder} holds no tokenizer that AutoTokenizer can load; put one there with "
            f"tokenizer.save_pretrained({str(folder)!r})."
        ) from error


def check_finite(model: PreTrainedModel) -> None:
    """Refuse with a `ValueError` a model with weights that are no numbers: it would say nothing."""
    for name, parameter in model.named_parameters():
        is_readable = parameter.dtype in (
            *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        )
        if not is_readable or parameter.is_meta:  # quantized, or left on the disk
            continue
        num_wrong = int((~parameter.isfinite()).sum())
        if num_wrong:
            raise ValueError(
                f"{num_wrong} of the {parameter.numel()} values of {name} of "
                f"{model.name_or_path or 'this model'} are NaN or infinite: its training has "
                f"diverged, or the file is damaged; take an earlier checkpoint."
            )


def forbidden_pieces(config: GenerationConfig) -> list[list[int]]:
    """The sequences of target ids that a generation config says must not come out."""
    return [*(config.bad_words_ids or []), *([token] for token in config.suppress_tokens or [])]


def load_generation_config(folder: Path) -> GenerationConfig:
    is_there = (folder / GENERATION_CONFIG_NAME).is_file()
    read_json(folder / GENERATION_CONFIG_NAME)
    return GenerationConfig.from_pretrained(folder) if is_there else GenerationConfig()


def read_json(path: Path) -> Any:
    """What a file of JSON holds; `None` where there is no such file."""
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON ({error}); fetch or save it again.") from None
