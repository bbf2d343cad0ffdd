# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Models whose parameters are spread over processes (FSDP2)."""

from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FSDPModule

from vaswani_hf import VaswaniForConditionalGeneration


def is_sharded(model: nn.Module) -> bool:
    """Whether each process holds a part of every parameter, so that all must call it together."""
    return isinstance(model, FSDPModule)


def unsharded(model: VaswaniForConditionalGeneration) -> VaswaniForConditionalGeneration:
    """The model itself, or for a sharded one a copy with whole parameters; all processes ask.

    With whole parameters each process translates at its own pace, and what loads, averages and
    saves weights meets plain tensors.
    """
    if not is_sharded(model):
        return model
    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    copy = VaswaniForConditionalGeneration(model.config)
    copy.load_state_dict(weights)
    copy.generation_config = model.generation_config
    return copy.to(model.device).train(model.training)
