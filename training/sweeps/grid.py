# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a sweep varies: `--set dropout=0.1,0.2`, or a range to search, `--set dropout=0.0:0.4`."""

import csv
import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..loop.resumption import NOT_SAVED
from ..settings.fields import FILES, KINDS
from ..settings.kinds import written
from ..settings.recipes import refuse_unknown


# Fields by which runs are named, found or judged: what differs in them cannot be compared.
NOT_VARIED = {
    *(*NOT_SAVED, "seed", "threads", "task", "bleu_tokenize", "bleu_lowercase"),
    *("validation_split", "test_split"),
    *(name for name in FILES if not name.startswith("train_")),
}
_RANGE = re.compile(r"([^:]+):([^:]+?)(:log)?")
_LONGEST_NAME = 200  # most file systems take 255


@dataclass(frozen=True)
class Axis:
    """A field, and what it is set to.

    Attributes:
        field: its name.
        values: of a grid, by the field's type; empty for a range.
        bounds: of a range: the lowest and the highest value.
        is_log: whether a range is searched by its logarithm.
    """

    field: str
    values: tuple[Any, ...] = ()
    bounds: tuple[float, float] | None = None
    is_log: bool = False

    def __str__(self) -> str:
        """As it is written on the command line."""
        if self.bounds is None:
            return f"{self.field}={','.join(map(written, self.values))}"
        low, high = self.bounds
        return f"{self.field}={low}:{high}{':log' if self.is_log else ''}"

    @property
    def samples(self) -> tuple[Any, ...]:
        """Values by which one can see whether all of them will do."""
        return self.values if self.bounds is None else self.bounds


def read_axes(texts: Sequence[str]) -> list[Axis]:
    """The axes of several `--set FIELD=...`.

    Raises:
        ValueError: for a text that is none, and for a field that is named twice.
    """
    axes = [read_axis(text) for text in texts]
    for place, axis in enumerate(axes):
        if axis.field in [other.field for other in axes[:place]]:
            raise ValueError(f"--set {axis.field} is given twice; name all its values in one.")
    return axes


def read_axis(text: str) -> Axis:
    """What stands after `--set`: a field and its values with commas between, or its range.

    A value with a comma stands in double quotes.

    Raises:
        ValueError: if there is no such field or it cannot be varied, or a value is missing, not of
            the field's type, or named twice.
    """
    field, has_values, listed = text.partition("=")
    if not has_values:
        raise ValueError(f"--set must be FIELD=VALUE,VALUE or FIELD=LOW:HIGH, got --set {text}.")
    field = field.replace("-", "_")
    refuse_unknown(field, "--set")
    if field in NOT_VARIED:
        instead = "; use --seeds" if field == "seed" else ""
        raise ValueError(
            f"--set cannot vary {field}: runs that differ in it do not compare{instead}."
        )
    kind = KINDS[field]
    is_number = not kind.types.isdisjoint((int, float)) and str not in kind.types
    if is_number and (match := _RANGE.fullmatch(listed)):
        low, high = (kind.cast(field, value) for value in match.group(1, 2))
        is_log = match[3] is not None
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"--set {text}: a range goes from a value to a larger one.")
        if is_log and low <= 0:
            raise ValueError(f"--set {text}: a range by its logarithm starts above 0.")
        return Axis(field, bounds=(low, high), is_log=is_log)
    values = [value.strip() for value in next(csv.reader([listed]), [])]
    if not values or "" in values:
        raise ValueError(f"--set {text}: a value is missing.")
    cast = tuple(kind.cast(field, value) for value in values)
    if len(set(map(written, cast))) < len(cast):
        raise ValueError(f"--set {text}: a value is named twice.")
    return Axis(field, cast)


def grid_of(axes: Sequence[Axis]) -> dict[str, dict[str, Any]]:
    """Every combination of values: its fields, by a name that a folder can have.

    Raises:
        ValueError: for a range, for two combinations of one name, and for a name that is too long.
    """
    for axis in axes:
        if axis.bounds is not None:
            raise ValueError(
                f"--set {axis} is a range, which --trials N searches; a grid needs values, such as "
                f"{axis.field}={axis.bounds[0]},{axis.bounds[1]}."
            )
    found: dict[str, dict[str, Any]] = {}
    for values in itertools.product(*(axis.values for axis in axes)):
        fields = dict(zip((axis.field for axis in axes), values, strict=True))
        name = name_of(fields)
        if name in found or len(name) > _LONGEST_NAME:
            fault = "stands for two settings" if name in found else "is too long"
            raise ValueError(f"{name} {fault}, and is to name a folder; choose shorter values.")
        found[name] = fields
    return found


def name_of(fields: dict[str, Any]) -> str:
    """The name of a setting's folder, without its seed."""
    text = "-".join(f"{name}_{written(value)}" for name, value in fields.items())
    return re.sub(r"[^\w.+-]+", "_", text)


def read_seeds(text: str) -> list[int]:
    """The seeds of `--seeds 1,2`.

    Raises:
        ValueError: if one is missing, is no seed, or is named twice.
    """
    seeds = [KINDS["seed"].cast("--seeds", value) for value in text.split(",")]
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"--seeds {text}: a seed is named twice.")
    return seeds


def described(axes: Iterable[Axis]) -> str:
    """All axes, as they are written on the command line."""
    return " ".join(f"--set {axis}" for axis in axes)
