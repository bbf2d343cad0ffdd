# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Models with an adapter of PEFT (LoRA, Hu et al. 2021), merged into the matrices it adapts."""

import contextlib
import copy
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import AutoModelForSeq2SeqLM, GenerationConfig, PreTrainedModel

from ..extras import require
from ..hub.adapters import Found
from ..hub.names import ADAPTER_WEIGHTS
from .loading import GENERATION_CONFIG


def load_models(places: Sequence[Found], **options: Any) -> list[PreTrainedModel]:
    """The models of folders; adapters of one base share what they leave alone.

    Args:
        places: of the models.
        options: of `from_pretrained`.

    Raises:
        ValueError: if an adapter cannot be merged into its base.
        ImportError: if there is an adapter, and PEFT is missing.
    """
    bases: dict[Path, PreTrainedModel] = {}
    models = []
    for folder, adapter in places:
        if adapter is None:
            models.append(AutoModelForSeq2SeqLM.from_pretrained(folder, **options))
            continue
        if folder not in bases:
            bases[folder] = AutoModelForSeq2SeqLM.from_pretrained(folder, **options)
        models.append(with_adapter(bases[folder], adapter))
    return models


def with_adapter(base: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """A model with an adapter merged into it, as fast as the base.

    The base is not changed. Matrices that the adapter leaves alone are the base's own: they are in
    memory once.

    Args:
        base: the model that was adapted.
        folder: the adapter's, with safetensors. Its generation config, if any, becomes the model's.

    Raises:
        ValueError: if the adapter does not fit the model, is of a kind that cannot be merged, or
            has NaN.
        ImportError: if PEFT is missing.
    """
    peft = require("peft")
    from peft.tuners.tuners_utils import BaseTunerLayer

    shared = {id(tensor): tensor for tensor in (*base.parameters(), *base.buffers())}
    try:
        with _without_warnings():
            adapted = peft.PeftModel.from_pretrained(
                copy.deepcopy(base, shared),
                folder,
                low_cpu_mem_usage=True,  # or it would write biases into the base's own
            )
            _check_names(peft.get_peft_model_state_dict(adapted), folder)
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{folder} does not fit {base.name_or_path}: {reason}") from error
    if not hasattr(adapted.base_model, "merge_and_unload"):
        kind = adapted.peft_config["default"].peft_type.value
        raise ValueError(f"{folder} holds {kind}, which cannot be merged into a model.")
    for layer in adapted.modules():
        if isinstance(layer, BaseTunerLayer):  # which PEFT changes in place
            _own_parameters(layer.get_base_layer())
    with _without_warnings():
        model = adapted.merge_and_unload(safe_merge=True)
    # What the adapter's file has whole, such as biases, may be of another type, or on a GPU.
    of_base = {name: each for name, each in base.named_parameters() if each.is_floating_point()}
    for name, parameter in model.named_parameters():
        like = of_base.get(name, parameter)
        if (parameter.dtype, parameter.device) != (like.dtype, like.device):
            parameter.data = parameter.data.to(like.device, like.dtype)
    if (folder / GENERATION_CONFIG).is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder)
    return model


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Leave out PEFT's, of missing matrices and of tied embeddings: both are seen to here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _check_names(weights: dict[str, Any], folder: Path) -> None:
    """PEFT itself would leave at their start what the file lacks, and ignore what has no place."""
    try:
        with safe_open(folder / ADAPTER_WEIGHTS, framework="pt") as file:
            differing = sorted(weights.keys() ^ set(file.keys()))
    except SafetensorError as error:
        raise ValueError(f"{ADAPTER_WEIGHTS} is damaged ({error})") from error
    if differing:
        raise ValueError(
            f"{len(differing)} of its matrices have no place in the model, or are missing, such as "
            f"{differing[0]}."
        )


def _own_parameters(layer: nn.Module) -> None:
    for name, parameter in list(layer.named_parameters(recurse=False)):
        own = nn.Parameter(parameter.detach().clone(), requires_grad=parameter.requires_grad)
        setattr(layer, name, own)
