# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What decides the lines that a run writes? A resumed one must have the same."""

import argparse
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..hub.names import CURVES, RESULTS, TARGET_TOKENIZER


# Options that change no line, or that are looked at more closely below.
IDLE = ("command", "run", "file", "model", "revision", "output", "resume", "device", "prefix")
IDLE_OF_FILTER = (
    *("backward_model", "source", "target", "keep", "threshold"),
    *("scores", "output_source", "output_target"),
)
IDLE_AS_BATCHES_ARE = ("batch_tokens", "chunk_sentences", "threads")
# Of a model's folder, or one of CTranslate2: weights, configurations, tokenizers.
FILES = ("*.safetensors", "model.bin", "*.json", "*vocab*.txt", "merges.txt", "*.model", "*.spm")
OTHER_FILES = (RESULTS, CURVES)


def folders_of(models: Sequence[str], revision: str | None = None) -> list[Path]:
    """The folders of models; of an adapter that of its base, and its own."""
    from ..hub.adapters import find_adapted

    found = [find_adapted(model, revision=revision) for model in models]
    return [folder for one in found for folder in one if folder is not None]


def describe_run(
    arguments: argparse.Namespace,
    folders: Sequence[Path],
    output: Path | None = None,
    **files: os.stat_result,
) -> dict[str, Any]:
    """The options of a command, with what is known of its models and of what it reads.

    Args:
        arguments: of the command.
        folders: the models'.
        output: what the run writes, which may lie in the folder of a model.
        files: the state of each file that is read.
    """
    options = {
        name: value
        for name, value in vars(arguments).items()
        if name not in IDLE + IDLE_OF_FILTER + IDLE_AS_BATCHES_ARE
    }
    digests = [_digest(folder, output) for folder in folders]
    described: dict[str, Any] = {"model_sha256": " ".join(digests)}
    for name, state in files.items():
        described |= {f"{name}_bytes": state.st_size, f"{name}_modified_ns": state.st_mtime_ns}
    return options | described


def _digest(folder: Path, output: Path | None) -> str:
    """A digest of the files that make a model, in the folder and in its tokenizer's."""
    total = hashlib.sha256()
    folders = (folder, folder / TARGET_TOKENIZER)
    paths = {path for place in folders for pattern in FILES for path in place.glob(pattern)}
    for path in sorted(paths):
        if path.name in OTHER_FILES or (output and path.resolve() == output.resolve()):
            continue
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(folder)} {digest}\n".encode())
    return total.hexdigest()
