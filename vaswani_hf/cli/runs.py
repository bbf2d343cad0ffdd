# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What decides the translations of a run? A resumed one must have the same."""

import argparse
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ..hub.names import TARGET_TOKENIZER


# Options that change no translation, or that are looked at more closely below.
IDLE = ("command", "run", "file", "model", "revision", "output", "resume", "device", "prefix")
IDLE_AS_BATCHES_ARE = ("batch_tokens", "chunk_sentences", "threads")
# Of a model's folder, or one of CTranslate2: weights, configurations, tokenizers.
FILES = ("*.safetensors", "model.bin", "*.json", "*.txt", "*.model", "*.spm")


def describe_run(
    arguments: argparse.Namespace, folders: Sequence[Path], source: BinaryIO
) -> dict[str, Any]:
    """The options of `vaswani-hf translate`, with what is known of its models and its input.

    Args:
        arguments: of the command.
        folders: the model's, or those of an ensemble.
        source: the open input.
    """
    options = {
        name: value
        for name, value in vars(arguments).items()
        if name not in IDLE + IDLE_AS_BATCHES_ARE
    }
    status = os.fstat(source.fileno())
    described = {
        "model_sha256": " ".join(map(_digest, folders)),
        "input_bytes": status.st_size,
        "input_modified_ns": status.st_mtime_ns,
    }
    if arguments.prefix is not None:
        status = os.stat(arguments.prefix)
        described |= {"prefix_bytes": status.st_size, "prefix_modified_ns": status.st_mtime_ns}
    return options | described


def _digest(folder: Path) -> str:
    """A digest of the files that make a model, in the folder and in its tokenizer's."""
    total = hashlib.sha256()
    folders = (folder, folder / TARGET_TOKENIZER)
    paths = {path for place in folders for pattern in FILES for path in place.glob(pattern)}
    for path in sorted(paths):
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(folder)} {digest}\n".encode())
    return total.hexdigest()
