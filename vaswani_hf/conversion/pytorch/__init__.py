# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""From checkpoints of `torch.nn.Transformer`, PyTorch's own encoder and decoder.

A state dict has names and numbers. It does not say how many heads there are, what stands between
the two feed-forward layers, or whether layers normalize before or after their sub-layers: what the
arguments do not say either is taken to be PyTorch's default, and the log says what was.
"""

from .conversion import from_torch, vaswani_from_torch
from .state_dict import read_state_dict


__all__ = ["from_torch", "read_state_dict", "vaswani_from_torch"]
