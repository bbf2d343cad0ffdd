# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The encoder and the decoder of a state dict, under whatever prefixes they are."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from ..differences import Differences, listed


class Stack(NamedTuple):
    """One stack: the prefix of its names, such as `transformer.encoder.`, and its layers."""

    prefix: str
    num_layers: int
    is_decoder: bool


def find_stacks(tensors: Mapping[str, Tensor], differences: Differences) -> tuple[Stack, Stack]:
    """The encoder and the decoder.

    Raises:
        ValueError: if there is not exactly one of each.
    """
    num_layers: dict[str, int] = {}
    for name in tensors:
        match = re.fullmatch(r"((?:.*\.)?)layers\.(\d+)\.self_attn\.(?:in|q)_proj_weight", name)
        if match:
            prefix, layer = match[1], int(match[2])
            num_layers[prefix] = max(num_layers.get(prefix, 0), layer + 1)
    stacks = [
        Stack(
            prefix,
            count,
            any(name.startswith(f"{prefix}layers.0.multihead_attn.") for name in tensors),
        )
        for prefix, count in num_layers.items()
    ]
    for kind, is_decoder in (("encoder", False), ("decoder", True)):
        found = [stack.prefix for stack in stacks if stack.is_decoder == is_decoder]
        example = f"{kind}.layers.0.{'multihead_attn' if is_decoder else 'self_attn'}"
        differences.refuse_if(
            not found,
            f"no {kind} of torch.nn.Transformer is in it: it would have names such as "
            f"{example}.in_proj_weight, under any prefix",
        )
        differences.refuse_if(
            len(found) > 1, f"several {kind}s are in it: {listed(sorted(found))}; convert one model"
        )
    differences.check()
    encoder, decoder = sorted(stacks, key=lambda stack: stack.is_decoder)
    return encoder, decoder


def refuse_annotated_transformer(tensors: Mapping[str, Tensor], differences: Differences) -> None:
    """Refuse a model of the Annotated Transformer with a `ValueError` that gives the reasons."""
    has_own_norm = any(name.endswith((".norm.a_2", ".norm.b_2")) for name in tensors)
    has_own_attention = any(".self_attn.linears." in name for name in tensors)
    if not (has_own_norm or has_own_attention):
        return
    differences.add(
        "it has the names of the Annotated Transformer, which normalizes before each sub-layer "
        "(pre-norm); the paper and this model normalize after it, no weights make the one compute "
        "what the other does, and so no exact conversion exists: train this model on the same text"
    )
    differences.refuse_if(
        has_own_norm,
        "its LayerNorm (a_2, b_2) divides by the unbiased standard deviation plus epsilon; this "
        "model's divides by the root of variance plus epsilon",
    )
    differences.check()
