# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Models whose parameters are spread over processes (FSDP2)."""

from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FSDPModule

from vaswani_hf import VaswaniForConditionalGeneration


def is_sharded(model: nn.Module) -> bool:
    """Whether each process holds a part of every parameter; then all call the model together."""
    return isinstance(model, FSDPModule)


def unsharded(model: VaswaniForConditionalGeneration) -> VaswaniForConditionalGeneration:
    """The model itself, or a copy of a sharded one with whole parameters; all processes call it.

    With whole parameters each process can translate at its own pace, and weights are loaded,
    averaged and saved as plain tensors.
    """
    if not is_sharded(model):
        return model
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    copy = VaswaniForConditionalGeneration(model.config)
    copy.load_state_dict(weights)
    copy.generation_config = model.generation_config
    return copy.to(model.device).train(model.training)
