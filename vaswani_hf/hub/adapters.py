# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""An adapter's folder, as PEFT writes it: small matrices, and the name of the model they adapt."""

import json
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from .download import find
from .errors import HubError
from .folder import check_folder
from .names import ADAPTER_CONFIG, ADAPTER_WEIGHTS, PICKLES


class Found(NamedTuple):
    """The folder of a model, and that of an adapter on it, or `None`."""

    model: Path
    adapter: Path | None = None

    @property
    def tokenizers(self) -> Path:
        """The folder that holds the tokenizers."""
        if self.adapter is not None and has_tokenizer(self.adapter):
            return self.adapter
        return self.model


def is_adapter(folder: str | PathLike[str]) -> bool:
    """Whether a folder holds an adapter."""
    return (Path(folder) / ADAPTER_CONFIG).is_file()


def has_tokenizer(folder: Path) -> bool:
    """Whether an adapter's folder has tokenizers; PEFT alone writes none."""
    return (folder / "tokenizer_config.json").is_file()


def find_adapted(
    name: str | PathLike[str], *, revision: str | None = None, token: str | None = None
) -> Found:
    """The folder of a model; or of an adapter, and that of its base model.

    Args:
        name: a folder, or an id on the Hub, such as `org/name`.
        revision: branch, tag or commit on the Hub; `main` unless given.
        token: for private repositories; the one that is logged in unless given.

    Raises:
        ValueError: if there is no such folder, it cannot be loaded, or the base of an adapter is
            missing.
        HubError: if it cannot be fetched.
    """
    folder = find(name, revision=revision, token=token)
    if not is_adapter(folder):
        check_folder(folder, str(name))
        return Found(folder)
    config = read_adapter(folder, str(name))
    base = config["base_model_name_or_path"]
    try:
        model = find(base, revision=config.get("revision"), token=token)
        check_folder(model, str(base))
    except (ValueError, HubError) as error:
        raise ValueError(
            f"{name} is an adapter of {base}, which cannot be loaded: {error} If the model is "
            f"elsewhere, name both: on the command line --model BASE --adapter {name}, in Python "
            f"Translator.from_pretrained(BASE).with_adapter({str(name)!r})."
        ) from error
    return Found(model, folder)


def find_adapter(
    name: str | PathLike[str], *, revision: str | None = None, token: str | None = None
) -> Path:
    """The folder of an adapter, whatever became of its base.

    Args:
        name: as for `find_adapted`.
        revision: likewise.
        token: likewise.

    Raises:
        ValueError: if there is no such folder, or it holds no adapter.
        HubError: if it cannot be fetched.
    """
    folder = find(name, revision=revision, token=token)
    if not is_adapter(folder):
        raise ValueError(f"{name} is no adapter: it has no {ADAPTER_CONFIG}.")
    read_adapter(folder, str(name))
    return folder


def read_adapter(folder: Path, name: str | None = None) -> dict[str, Any]:
    """The settings of an adapter, whose folder is complete.

    Args:
        folder: the adapter's.
        name: what messages call it; the folder unless given.

    Raises:
        ValueError: if the settings are damaged, name no base model, or the weights are missing or
            pickled.
    """
    name = name or str(folder)
    try:
        config = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{ADAPTER_CONFIG} of {name} is not valid JSON: {error}") from None
    if not isinstance(config, dict) or not config.get("base_model_name_or_path"):
        raise ValueError(
            f"{ADAPTER_CONFIG} of {name} has no base_model_name_or_path; write there the folder or "
            f"Hub id of the model that it adapts."
        )
    if not (folder / ADAPTER_WEIGHTS).is_file():
        pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
        why = f": only {', '.join(pickles)}; pickled files are never read" * bool(pickles)
        raise ValueError(f"{name} has no {ADAPTER_WEIGHTS}{why}.")
    return config
