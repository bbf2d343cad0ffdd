# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Names of a package that are imported when they are first used (PEP 562)."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def imported_at_use(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of a package.

    Args:
        package: its name.
        homes: name: the module that defines it, relative to the package. A module of the package is
            its own home.
    """

    def get_attribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{homes[name]}")
        value = module if name == homes[name] else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get_attribute, list_names
