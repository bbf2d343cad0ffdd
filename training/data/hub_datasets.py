# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Sentence pairs from datasets: of the Hub, or of a folder."""

from pathlib import Path
from typing import Any

from datasets import Dataset, IterableDataset, load_dataset
from datasets.config import HF_DATASETS_CACHE
from datasets.exceptions import DatasetsError
from huggingface_hub import HfApi
from huggingface_hub.constants import HF_HUB_OFFLINE
from huggingface_hub.utils import HFValidationError, validate_repo_id

from vaswani_hf.hub.errors import as_hub_error

from ..settings.fields import DataArguments
from .files import pair_of, unwrap_dataset_errors


TIMEOUT_SECONDS = 10.0  # for the Hub to say whether it has a dataset


def pairs_of_dataset(arguments: DataArguments, split: str) -> Dataset | None:
    """Columns `source` and `target` of a split; `None` without one to validate or test on.

    Raises:
        ValueError: if it cannot be read, or has no split to train on.
        HubError: if it cannot be fetched.
    """
    loaded = _load(arguments, split, streaming=False)
    if loaded is None:
        return None
    keys, where = (arguments.source_column, arguments.target_column), arguments.dataset
    name = getattr(arguments, f"{split}_split")

    # Only what the texts depend on: what `map` keeps is found again by a hash of this function.
    def texts(row: dict[str, Any]) -> dict[str, str]:
        pair = pair_of(row, keys, f"{where}, split {name}")
        return {"source": pair[0], "target": pair[1]}

    with unwrap_dataset_errors():
        return loaded.map(texts, remove_columns=loaded.column_names)


def rows_of_dataset(arguments: DataArguments) -> IterableDataset:
    """The rows to train on, read as they are asked for; `pair_of` makes pairs of them.

    Raises:
        ValueError: if it cannot be read, or has no split to train on.
        HubError: if it cannot be fetched.
    """
    return _load(arguments, "train", streaming=True)


def _load(arguments: DataArguments, split: str, streaming: bool) -> Any:
    name, split_name = str(arguments.dataset), getattr(arguments, f"{split}_split")
    _require_dataset(name)
    try:
        with unwrap_dataset_errors():
            return load_dataset(
                name, arguments.dataset_config, split=split_name, streaming=streaming
            )
    except (ValueError, DatasetsError) as error:
        if split != "train" and isinstance(error, ValueError) and "split" in str(error):
            return None
        cause = error.__cause__ or error
        reason = " ".join(str(cause).split())
        raise ValueError(f"dataset={name}, split {split_name}: {reason}") from error


def _require_dataset(name: str) -> None:
    """Ask the Hub for a dataset once, quickly; `datasets` would ask for half a minute."""
    if Path(name).exists():
        return
    try:
        validate_repo_id(name)
    except HFValidationError:
        raise ValueError(f"dataset={name} is neither a folder nor an id on the Hub.") from None
    if HF_HUB_OFFLINE or Path(HF_DATASETS_CACHE, name.replace("/", "___")).is_dir():
        return
    with as_hub_error(f"fetch the dataset {name}", name):
        HfApi().dataset_info(name, timeout=TIMEOUT_SECONDS)
