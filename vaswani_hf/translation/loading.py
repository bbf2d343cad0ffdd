# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a translator reads from a folder: tokenizers and configurations, and a check of weights."""

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..hub.names import TARGET_TOKENIZER


if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


CTRANSLATE2_WEIGHTS = "model.bin"  # every folder of CTranslate2 has it, and no other folder
GENERATION_CONFIG = "generation_config.json"


def load_tokenizers(
    folder: str | PathLike[str],
) -> tuple["PreTrainedTokenizerBase", "PreTrainedTokenizerBase | None"]:
    """The tokenizer of a folder, and the target's where `target_tokenizer/` holds one.

    Raises:
        ValueError: if none can be loaded; a damaged file is named.
        ImportError: if it needs a library that is not installed.
    """
    from transformers import PreTrainedConfig

    tokenizer = _load_tokenizer(Path(folder))
    if not (Path(folder) / TARGET_TOKENIZER / "tokenizer_config.json").is_file():
        return tokenizer, None
    # An empty config keeps the library from looking for one in the subfolder.
    return tokenizer, _load_tokenizer(Path(folder) / TARGET_TOKENIZER, config=PreTrainedConfig())


def _load_tokenizer(folder: Path, **options: Any) -> "PreTrainedTokenizerBase":
    from transformers import AutoTokenizer

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


def check_finite(model: "PreTrainedModel") -> None:
    """Raise a `ValueError` if a weight is NaN or infinite."""
    import torch

    for name, parameter in model.named_parameters():
        is_readable = type(parameter.data) is torch.Tensor and parameter.dtype in (
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


def forbidden_pieces(config: Mapping[str, Any]) -> list[list[int]]:
    """The sequences of target ids that a generation config forbids."""
    bad_words, suppressed = (
        config.get(name) or [] for name in ("bad_words_ids", "suppress_tokens")
    )
    return [*bad_words, *([token] for token in suppressed)]


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
