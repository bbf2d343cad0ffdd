# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Fields whose items are mappings, such as `corpora` and `stages`."""

import difflib
import json
from collections.abc import Sequence
from typing import Any


def read_mapping(text: str, where: str, known: Sequence[str]) -> dict[str, Any]:
    """An item of such a field, which a recipe writes as YAML and the command line as JSON.

    Args:
        text: JSON.
        where: what errors begin with, such as `corpora, 2.`.
        known: its keys.

    Raises:
        ValueError: if it is no mapping, or has an unknown key; a near one is suggested.
    """
    try:
        chosen = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} must be a mapping, got {text!r}: {error}.") from error
    if not isinstance(chosen, dict):
        raise ValueError(f"{where} must be a mapping, got {text!r}.")
    for key in chosen:
        if key not in known:
            hint = nearest(key, known)
            raise ValueError(f"{where} unknown key '{key}'; {hint}")
    return chosen


def nearest(name: str, known: Sequence[str]) -> str:
    """The known name that is nearest, or else all of them, as errors end."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}."
