# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Tables for a terminal."""

from collections.abc import Sequence


def align(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equally many cells as lines, each column as wide as its longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
