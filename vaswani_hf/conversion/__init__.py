# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How does a model come from another format, or go to one?

Every function reads a folder or a file and writes a new folder, whole or not at all. If anything
cannot be carried over exactly, it raises a `ValueError` that lists every difference.
"""

from typing import TYPE_CHECKING

from ..imports import imported_at_use


if TYPE_CHECKING:
    from .ctranslate2 import to_ctranslate2
    from .fairseq import from_fairseq
    from .marian import from_marian, to_marian
    from .marian_npz import from_marian_npz, to_marian_npz
    from .merging import merge_adapter
    from .onnx import OnnxModel, to_onnx
    from .pytorch import from_torch


__all__ = [
    "OnnxModel",
    "from_fairseq",
    "from_marian",
    "from_marian_npz",
    "from_torch",
    "merge_adapter",
    "to_ctranslate2",
    "to_marian",
    "to_marian_npz",
    "to_onnx",
]

__getattr__, __dir__ = imported_at_use(
    __name__,
    {
        "OnnxModel": "onnx",
        "from_fairseq": "fairseq",
        "from_marian": "marian",
        "from_marian_npz": "marian_npz",
        "from_torch": "pytorch",
        "merge_adapter": "merging",
        "to_ctranslate2": "ctranslate2",
        "to_marian": "marian",
        "to_marian_npz": "marian_npz",
        "to_onnx": "onnx",
    },
)
