# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The state dict in a file, read without running code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..differences import Differences, listed
from ..folders import AnyPath


PICKLED = (".pt", ".pth", ".bin", ".ckpt")
NESTED = ("state_dict", "model_state_dict", "model")  # where training scripts put the weights


def read_state_dict(source: AnyPath) -> dict[str, Tensor]:
    """The state dict in a file, on the CPU; formats are those of `from_torch`.

    Raises:
        ValueError: if the file is of another kind, is damaged or holds more than tensors.
        FileNotFoundError: if there is no such file.
    """
    source = Path(source)
    if not source.is_file():
        raise FileNotFoundError(f"{source} is not a file.")
    if source.suffix == ".safetensors":
        return _read_safetensors(source)
    if source.suffix not in PICKLED:
        raise ValueError(
            f"{source} must end in .safetensors, {listed(PICKLED[:-1])} or {PICKLED[-1]}."
        )
    try:
        content = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can fail in any way
        if isinstance(error, OSError) and error.filename is not None:  # it cannot be opened
            raise
        raise ValueError(
            f"{source} is damaged or holds Python objects, which are never loaded. Save "
            f"model.state_dict() with torch.save or safetensors, and convert that file."
        ) from error
    if isinstance(content, Mapping) and not _has_tensors(content):
        content = next((content[key] for key in NESTED if _has_tensors(content.get(key))), content)
    if not _has_tensors(content):
        found = f"only {listed(content) or 'nothing'}" if isinstance(content, Mapping) else "none"
        raise ValueError(
            f"{source} must hold a state dict, at its top or under {listed(NESTED)}; it has "
            f"{found}."
        )
    return dict(content)


def _read_safetensors(source: Path) -> dict[str, Tensor]:
    try:
        with safe_open(source, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            notes = file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(f"{source} is not a safetensors file: {error}") from error
    # `save_model` writes one of several names of a tensor, and notes the others: {dropped: kept}.
    for dropped, kept in notes.items():
        if kept in tensors:
            tensors.setdefault(dropped, tensors[kept])
    return tensors


def _has_tensors(content: Any) -> bool:
    return isinstance(content, Mapping) and any(isinstance(x, Tensor) for x in content.values())


def refuse_other_values(state_dict: Mapping[str, Any], differences: Differences) -> None:
    """Raise a `ValueError` that lists every value that is no tensor."""
    for name, value in state_dict.items():
        differences.refuse_if(
            not isinstance(value, Tensor), f"{name} is of type {type(value).__name__}, no tensor"
        )
    differences.check()
