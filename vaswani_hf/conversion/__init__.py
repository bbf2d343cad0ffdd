# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""From and to the formats that people own.

Every function reads a folder or file and writes a new folder, whole or not at all. What cannot be
carried over exactly is refused, with every difference listed.
"""

from .ctranslate2 import to_ctranslate2
from .fairseq import from_fairseq
from .marian import from_marian, to_marian
from .onnx import OnnxModel, to_onnx
from .pytorch import from_torch


__all__ = [
    "OnnxModel",
    "from_fairseq",
    "from_marian",
    "from_torch",
    "to_ctranslate2",
    "to_marian",
    "to_onnx",
]
