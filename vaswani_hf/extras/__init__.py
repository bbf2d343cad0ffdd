# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which packages come with an extra? A missing one is an error that names the extra."""

import importlib
from types import ModuleType


# The packages that are imported by `require`, and the extra of pyproject.toml that brings each.
EXTRAS = {
    "bitsandbytes": "bitsandbytes",
    "ctranslate2": "export",
    "fastapi": "serve",
    "gradio": "page",
    "matplotlib": "plot",
    "nltk": "parsing",
    "onnx": "export",
    "onnx_ir": "export",
    "onnxruntime": "export",
    "onnxscript": "export",
    "peft": "adapters",
    "optuna": "sweep",
    "prometheus_client": "serve",
    "python_multipart": "serve",
    "sacrebleu": "evaluate",
    "sentencepiece": "export",
    "sentencex": "sentences",
    "uvicorn": "serve",
}


def require(name: str) -> ModuleType:
    """Import an optional package, or a module of one.

    Args:
        name: of the module, such as `onnxruntime.quantization`; its package is in `EXTRAS`.

    Raises:
        ImportError: naming the extra to install.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = EXTRAS[name.partition(".")[0]]
        raise ImportError(
            f'{name} is needed for this: pip install "vaswani-hf[{extra}]"'
        ) from error


__all__ = ["EXTRAS", "require"]
