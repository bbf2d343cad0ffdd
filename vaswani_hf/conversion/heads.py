# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The order of a layer's heads, which changes nothing but where each is found."""

import copy
from typing import Any

import torch

from ..modeling_vaswani import VaswaniForConditionalGeneration


def with_aligning_head_first(
    model: VaswaniForConditionalGeneration,
) -> VaswaniForConditionalGeneration:
    """A model whose head that was trained to align is the first of its layer, as engines want it.

    The model itself where that is so, or where none was trained; else a copy.
    """
    layer, head = model.config.alignment_layer, model.config.alignment_head
    if layer is None or not head:
        return model
    model = copy.deepcopy(model)
    attention: Any = model.model.decoder.layers[layer].cross_attention
    with torch.no_grad():
        for projection in (attention.query_proj, attention.key_proj, attention.value_proj):
            for parameter in projection.parameters():  # (H * width, ...)
                heads = parameter.unflatten(0, (model.config.num_heads, -1))
                parameter.copy_(heads.roll(-head, 0).flatten(0, 1))
        weight = attention.output_proj.weight  # (d_model, H * d_v)
        weight.copy_(weight.unflatten(1, (model.config.num_heads, -1)).roll(-head, 1).flatten(1))
    model.config.alignment_head = 0
    return model
