# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The file of a checkpoint, which is read without running code in it."""

import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch

from ..differences import listed


# What fairseq's archives call their files.
CHECKPOINTS = ("model.pt", "checkpoint_best.pt")


def find_checkpoint(source: Path) -> Path:
    """The checkpoint itself, or the one in a folder.

    Raises:
        FileNotFoundError: if there is none, or a folder does not say which.
    """
    if source.is_file():
        return source
    if not source.is_dir():
        raise FileNotFoundError(f"{source} is neither a file nor a folder.")
    for name in CHECKPOINTS:
        if (source / name).is_file():
            return source / name
    others = sorted(source.glob("*.pt"))
    if len(others) == 1:
        return others[0]
    found = f"it has {listed(path.name for path in others)}; name one" if others else "it has none"
    raise FileNotFoundError(f"{source} must hold {' or '.join(CHECKPOINTS)}: {found}.")


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What a checkpoint of fairseq holds: tensors, numbers, texts and `Namespace`s, nothing else.

    Raises:
        ValueError: if the file is none, or holds objects of other classes, which are not loaded.
    """
    try:
        with torch.serialization.safe_globals([Namespace]):
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can fail in any way
        if isinstance(error, OSError) and error.filename is not None:  # it cannot be opened
            raise
        classes = _foreign_classes(path, error)
        if not classes:
            raise ValueError(
                f"{path} is not a checkpoint that torch.load reads; it is damaged or another file."
            ) from error
        raise ValueError(
            f"{path} holds Python objects of {listed(classes)}, which are not loaded, because "
            f"loading them can run any code. If you trust the file, extract its weights and "
            f"settings where these classes are installed, and convert the result:\n"
            f'  state = fairseq.checkpoint_utils.load_checkpoint_to_cpu("{path}")\n'
            f'  settings = state.get("args") or state["cfg"]["model"]\n'
            f'  torch.save({{"model": state["model"], "args": settings}}, "model.pt")'
        ) from error
    if not isinstance(checkpoint, dict):
        raise ValueError(
            f"{path} must hold a dictionary, as checkpoints of fairseq do; it holds a "
            f"{type(checkpoint).__name__}."
        )
    return checkpoint


def _foreign_classes(path: Path, error: Exception) -> list[str]:
    """The classes and functions of a file that are not loaded."""
    try:
        names = set(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    except Exception:  # a format that it does not know, such as PyTorch's before 1.6
        names = set(re.findall(r"GLOBAL ([^\s`]+)", str(error)))
    return sorted(names - {"argparse.Namespace"})
