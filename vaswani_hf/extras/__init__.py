# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which packages come with an extra? A missing one is an error that names it."""

import importlib
from types import ModuleType


def require(name: str, extra: str = "export") -> ModuleType:
    """Import an optional package.

    Args:
        name: of the module.
        extra: of this package that brings it.

    Raises:
        ImportError: naming the extra to install.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f'{name} is needed for this: pip install "vaswani-hf[{extra}]"'
        ) from error


__all__ = ["require"]
