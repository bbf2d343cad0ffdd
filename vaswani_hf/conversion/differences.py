# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a conversion cannot carry over, listed at once."""

from collections.abc import Iterable
from typing import Any


class Differences:
    """Collects what a conversion cannot carry over, so that one error lists all of it.

    Args:
        what: what is converted and to what, such as `"runs/mine as a Marian folder"`.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.found: list[str] = []

    def add(self, difference: str) -> None:
        """Note one difference, in the words of the format's users."""
        self.found.append(difference)

    def refuse_if(self, is_different: bool, difference: str) -> None:
        """Note a difference where there is one."""
        if is_different:
            self.add(difference)

    def check(self) -> None:
        """Raise a `ValueError` that lists all differences, if there are any."""
        if not self.found:
            return
        count = "1 difference" if len(self.found) == 1 else f"{len(self.found)} differences"
        lines = "".join(f"\n  - {difference}" for difference in self.found)
        raise ValueError(f"Cannot convert {self.what}: {count}.{lines}")


def listed(values: Iterable[Any]) -> str:
    """Values in a sentence."""
    return ", ".join(str(value) for value in values)
