# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Folders of models, loaded with errors that name the file."""

from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, PreTrainedConfig
from transformers.utils import CONFIG_NAME

from ..configuration_vaswani import VaswaniConfig
from ..hub.folder import check_folder, refuse_adapter
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..translation.loading import check_finite
from .targets import AnyPath


def load_vaswani(folder: Path, source: AnyPath, **options: str) -> VaswaniForConditionalGeneration:
    """The model of a Vaswani folder, in float32 and evaluation mode.

    Args:
        folder: the folder.
        source: what a message calls it.
        options: for `from_pretrained`.

    Raises:
        ValueError: if it holds another model, or weights are missing, damaged, pickled, NaN or
            infinite.
    """
    load_config(folder, source, VaswaniConfig)
    check_folder(folder, str(source))
    model = VaswaniForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, **options)
    check_finite(model)
    return model.eval()


def load_config(folder: Path, source: AnyPath, kind: type[PreTrainedConfig]) -> Any:
    """The configuration of a folder.

    Args:
        folder: the folder.
        source: what a message calls it.
        kind: the class that it must have.

    Raises:
        ValueError: if there is none, or one that cannot be read or is of another model.
    """
    refuse_adapter(folder, source)
    if not (folder / CONFIG_NAME).is_file():
        raise ValueError(f"{source} is not a model's folder: it has no {CONFIG_NAME}.")
    try:
        config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, StrictDataclassError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{CONFIG_NAME} of {source} cannot be read: {reason}") from error
    if not isinstance(config, kind):
        hint = "; convert it by `vaswani-hf convert --from` first" if kind is VaswaniConfig else ""
        raise ValueError(
            f"{source} holds a model of type {config.model_type!r}, expected "
            f"{kind.model_type!r}{hint}."
        )
    return config
