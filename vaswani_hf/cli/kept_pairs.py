# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What `filter` and `distill` share: text that is read twice, and the best pairs of it."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .pair_files import STANDARD_INPUT, check_files, name_of


if TYPE_CHECKING:
    import numpy as np


def add_kept_options(parser: argparse.ArgumentParser) -> None:
    """Where the pairs go that are kept."""
    for side in ("source", "target"):
        parser.add_argument(
            f"--output_{side}",
            required=True,
            metavar="FILE",
            help=f"where the {side} sentences that are kept go",
        )


def check_fraction(option: str, value: float | None) -> None:
    """Raise a `ValueError` for a share or a score that is not in (0, 1]; `None` is not checked."""
    if value is not None and not 0 < value <= 1:
        raise ValueError(f"--{option} must be above 0 and at most 1, got {value:g}.")


def check_read_twice(inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Raise an error for inputs that are missing, would be overwritten or cannot be read twice."""
    for output in outputs:
        check_files(*inputs, output=output)
    for file in inputs:
        if file == STANDARD_INPUT or not Path(file).is_file():
            raise ValueError(
                f"The text is read twice, which {name_of(file)} cannot be; name a file that stays."
            )


def threshold_of_share(values: "np.ndarray", share: float) -> float:
    """The value of the last pair of the best share; -infinity where there are no pairs."""
    import numpy as np

    if not len(values):
        return -np.inf
    place = len(values) - max(round(share * len(values)), 1)
    return float(np.partition(values, place)[place])


@contextmanager
def kept_files(arguments: argparse.Namespace) -> Iterator[Callable[[str, str], None]]:
    """What writes a line of each side; the files get their names when all are written."""
    names = (arguments.output_source, arguments.output_target)
    parts = [Path(f"{name}.part") for name in names]  # of which a killed run may leave half
    sources, targets = (part.open("w", encoding="utf-8", newline="") for part in parts)

    def keep(source: str, target: str) -> None:
        sources.write(source)
        targets.write(target)

    with sources, targets:
        yield keep
    for part, name in zip(parts, names, strict=True):
        part.replace(name)
