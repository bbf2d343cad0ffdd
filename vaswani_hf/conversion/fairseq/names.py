# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The names of tensors, which fairseq has changed over its versions."""

import re
from collections.abc import Mapping

from torch import Tensor


def current_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict under the names of fairseq 0.12, without the tensors that carry nothing."""
    norms = {
        "encoder": ("self_attn_layer_norm", "final_layer_norm"),
        "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
    }
    current: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if _carries_nothing(name):
            continue
        renamed = {}
        if name == "decoder.embed_out":
            renamed = {"decoder.output_projection.weight": tensor}
        elif match := re.fullmatch(r"(.+_attn)\.in_proj_(weight|bias)", name):
            names = [f"{match[1]}.{part}_proj.{match[2]}" for part in "qkv"]
            if len(tensor) % 3 == 0:
                renamed = dict(zip(names, tensor.chunk(3), strict=True))
        elif match := re.fullmatch(r"(encoder|decoder)(\..+)\.layer_norms\.([012])(.+)", name):
            for norm in norms[match[1]][int(match[3]) :][:1]:
                renamed = {f"{match[1]}{match[2]}.{norm}{match[4]}": tensor}
        # Where the newer name is there too, the older one stays, and is refused later.
        is_new = not renamed.keys() & tensors.keys()
        current |= renamed if renamed and is_new else {name: tensor}
    return current


def _carries_nothing(name: str) -> bool:
    """Whether a tensor is a mark of its version, a table that is computed anew, or a copy.

    Since 0.12 an encoder layer has a second set of weights for PyTorch's fused layer, which
    fairseq fills from the first when it loads a checkpoint.
    """
    copies = r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
    marks = r"(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights))"
    return re.fullmatch(f"{copies}|{marks}", name) is not None
