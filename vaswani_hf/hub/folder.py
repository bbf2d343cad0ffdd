# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""A model's folder: written so that it loads anywhere, and checked before it is loaded."""

import json
import shutil
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from ..configuration_vaswani import TRANSLATION_TASK, VaswaniConfig
from ..modeling_vaswani import VaswaniForConditionalGeneration
from .names import (
    ADAPTER_CONFIG,
    AUTO_MAP,
    PICKLES,
    PIPELINE,
    REMOTE_CODE,
    SENTENCEPIECE,
    TARGET_TOKENIZER,
)


MAX_SHOWN = 5  # differences in an error


def export(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    folder: str | PathLike[str],
    *,
    target_tokenizer: PreTrainedTokenizerBase | None = None,
    max_shard_size: int | str = "5GB",
) -> None:
    """Write a folder that loads with this package, or without it by `trust_remote_code=True`.

    Args:
        model: a trained model; its configuration, generation configuration and weights are saved.
            Of one that has an adapter of PEFT, this alone, which names its base.
        tokenizer: its tokenizer; `None` writes none.
        folder: where to; files of the same names are replaced.
        target_tokenizer: the target's, where it has one of its own.
        max_shard_size: weights above it go into several files; bytes, or a text such as `"500MB"`.
    """
    folder = Path(folder)
    # The library's trainer switches the cache off in the configuration it trains with.
    model.config.use_cache = True
    model.save_pretrained(folder, max_shard_size=max_shard_size)
    if tokenizer is not None:
        save_tokenizers(folder, tokenizer, target_tokenizer)
    if has_adapter(model):
        return
    for name in REMOTE_CODE:
        shutil.copyfile(Path(__file__).parents[1] / name, folder / name)
    path = folder / CONFIG_NAME
    config = json.loads(path.read_text(encoding="utf-8"))
    config["auto_map"] = AUTO_MAP
    config["custom_pipelines"] = {TRANSLATION_TASK: PIPELINE}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def has_adapter(model: PreTrainedModel) -> bool:
    """Whether PEFT has put an adapter beside a model's matrices, which is then saved alone."""
    return bool(getattr(model, "_hf_peft_config_loaded", False))


def save_tokenizers(
    folder: Path,
    tokenizer: PreTrainedTokenizerBase,
    target_tokenizer: PreTrainedTokenizerBase | None,
) -> None:
    """Save the tokenizer, and in a subfolder the target's where it has one of its own."""
    _save_tokenizer(tokenizer, folder)
    if target_tokenizer is not None:
        _save_tokenizer(target_tokenizer, folder / TARGET_TOKENIZER)


def _save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    tokenizer.save_pretrained(folder)
    # The library reads the SentencePiece model of a fast tokenizer, but leaves it behind here.
    if SENTENCEPIECE in tokenizer.init_kwargs and tokenizer.can_save_slow_tokenizer:
        tokenizer.save_vocabulary(str(folder))


def check_folder(folder: str | PathLike[str], name: str | None = None) -> dict[str, Any]:
    """Refuse a folder whose weights or configuration are damaged or do not fit each other.

    The library itself would initialize a missing weight at random, with only a warning.

    Args:
        folder: the model's folder.
        name: what messages call it; the folder unless given.

    Returns:
        The content of `config.json`.

    Raises:
        ValueError: if the configuration or the weights are missing, damaged, pickled, or do not
            fit each other.
    """
    folder, name = Path(folder), name or str(folder)
    refuse_adapter(folder, name)
    config = _read_object(folder / CONFIG_NAME, name)
    shapes = _shapes_of_weights(folder, name)
    if config.get("model_type") != VaswaniConfig.model_type:
        return config
    try:
        with torch.device("meta"):
            model = VaswaniForConditionalGeneration(VaswaniConfig.from_dict(dict(config)))
    except (ValueError, TypeError, StrictDataclassError) as error:
        raise ValueError(f"{CONFIG_NAME} of {name} is invalid: {error}") from None
    differences = _differences(model, shapes)
    if differences:
        more = f"\n  and {len(differences) - MAX_SHOWN} more" * (len(differences) > MAX_SHOWN)
        raise ValueError(
            f"The weights of {name} do not fit its {CONFIG_NAME}:"
            + "".join(f"\n  {difference}" for difference in differences[:MAX_SHOWN])
            + more
        )
    return config


def refuse_adapter(folder: Path, name: str | PathLike[str]) -> None:
    """Raise a `ValueError` that tells the way out, if a folder holds an adapter."""
    if (folder / ADAPTER_CONFIG).is_file():
        raise ValueError(
            f"{name} is an adapter, and a whole model is needed here: "
            f"vaswani-hf merge {name} NEW_FOLDER makes one of it and its base."
        )


def _read_object(path: Path, name: str) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"{name} is not a model's folder: it has no {path.name}.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name} of {name} is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path.name} of {name} must hold a JSON object, got {content!r}.")
    return content


def _shapes_of_weights(folder: Path, name: str) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights of a folder, by name, read from the headers of its safetensors."""
    if (folder / SAFE_WEIGHTS_NAME).is_file():
        files = [SAFE_WEIGHTS_NAME]
    elif (folder / SAFE_WEIGHTS_INDEX_NAME).is_file():
        weight_map = _read_object(folder / SAFE_WEIGHTS_INDEX_NAME, name).get("weight_map", {})
        files = sorted(set(weight_map.values()))
    else:
        pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
        why = f"only {', '.join(pickles)}; pickled files are never read" * bool(pickles)
        raise ValueError(f"{name} has no {SAFE_WEIGHTS_NAME}{': ' if why else ''}{why}.")
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        if not (folder / file).is_file():
            raise ValueError(f"{name} has no {file}, which its {SAFE_WEIGHTS_INDEX_NAME} names.")
        try:
            with safe_open(folder / file, framework="pt") as tensors:
                for key in tensors.keys():  # noqa: SIM118, it is no mapping
                    shapes[key] = tuple(tensors.get_slice(key).get_shape())
        except SafetensorError as error:
            raise ValueError(
                f"{file} of {name} is damaged ({error}); fetch or save it again."
            ) from None
    return shapes


def _differences(
    model: VaswaniForConditionalGeneration, found: Mapping[str, tuple[int, ...]]
) -> list[str]:
    prefix = f"{model.base_model_prefix}."
    if not any(
        name.startswith(prefix) for name in found
    ):  # of a model without the pre-softmax layer
        found = {prefix + name: shape for name, shape in found.items()}
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    tied = model.all_tied_weights_keys  # {target: source}; one of the two is enough
    sources = {tied.get(name, name) for name in found}
    differences = [
        f"{name} {shape} is missing"
        for name, shape in expected.items()
        if name not in tied and name not in sources
    ]
    for name, shape in found.items():
        if name not in expected:
            differences.append(f"{name} {shape} has no place in the model")
        elif expected[name] != shape:
            differences.append(f"{name} has shape {shape} instead of {expected[name]}")
    return differences


__all__ = ["check_folder", "export"]
