# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a translator reads from a folder: tokenizers and configurations, and a check of weights."""

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


CTRANSLATE2_WEIGHTS = "model.bin"  # every folder of CTranslate2 has it, and no other folder


def load_tokenizers(
    folder: str | PathLike[str],
) -> tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase | None]:
    """The tokenizer of a folder, and the target's where `target_tokenizer/` holds one.

    Raises:
        ValueError: if none can be loaded; a damaged file is named.
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
    # The library lets through whatever error the first tokenizer class raises for missing files.
    except Exception as error:
        raise ValueError(
            f"{folder} holds no tokenizer that AutoTokenizer can load; save one there with "
            f"tokenizer.save_pretrained({str(folder)!r})."
        ) from error


def check_finite(model: PreTrainedModel) -> None:
    """Raise a `ValueError` if a weight is NaN or infinite."""
    for name, parameter in model.named_parameters():
        is_readable = parameter.dtype in (
            *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        )
        if not is_readable or parameter.is_meta:  # quantized, or not loaded from the disk
            continue
        num_wrong = int((~parameter.isfinite()).sum())
        if num_wrong:
            raise ValueError(
                f"{num_wrong} of the {parameter.numel()} values of {name} of "
                f"{model.name_or_path or 'this model'} are NaN or infinite: training diverged, "
                f"or the file is damaged; use an earlier checkpoint."
            )


def forbidden_pieces(config: GenerationConfig) -> list[list[int]]:
    """The sequences of target ids that a generation config forbids."""
    return [*(config.bad_words_ids or []), *([token] for token in config.suppress_tokens or [])]


def load_generation_config(folder: Path) -> GenerationConfig:
    """The generation config of a folder; the library's defaults if there is none."""
    is_there = (folder / GENERATION_CONFIG_NAME).is_file()
    read_json(folder / GENERATION_CONFIG_NAME)
    return GenerationConfig.from_pretrained(folder) if is_there else GenerationConfig()


def read_json(path: Path) -> Any:
    """The content of a JSON file; `None` if there is no such file.

    Raises:
        ValueError: if it is damaged.
    """
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON ({error}); fetch or save it again.") from None
