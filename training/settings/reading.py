# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""From a command line to the settings of a run: defaults, then recipes, then options."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .fields import (
    FIELDS,
    KINDS,
    Arguments,
    DataArguments,
    ModelArguments,
    VaswaniTrainingArguments,
)
from .library import refuse_unusable
from .recipes import listed, override, read_recipe, recipe_names, refuse_unknown
from .rules import check_together


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Read `RECIPE [--field value ...]`, and refuse what cannot work whatever the text is.

    Args:
        argv: the command line without the program's name.

    Raises:
        ValueError: if the recipe or a field is unknown (a near name is suggested), a value is not
            of its field's type or range, or values contradict each other.
    """
    if not argv or argv[0].startswith("-"):
        raise ValueError(
            f"A recipe must come first ({listed(recipe_names())}), or the path of a YAML file; "
            f"--help describes recipes and fields."
        )
    recipe, *options = argv
    notes: list[str] = []
    chosen, given = read_recipe(recipe, notes), read_options(options)
    override(chosen, given, notes)
    refuse_unusable(chosen, {name: spec.default for name, spec in FIELDS.items()})
    name = recipe if recipe in recipe_names() else Path(recipe).stem
    chosen.setdefault("output_dir", f"runs/{name}")
    values = cast_values(chosen)
    try:
        model, data, training = (
            part(**{name: values[name] for name in field_names(part) & values.keys()})
            for part in (ModelArguments, DataArguments, VaswaniTrainingArguments)
        )
    except (ValueError, ImportError) as error:  # the library's too are about what was written
        raise ValueError(" ".join(str(error).split())) from error
    if "gradient_accumulation_steps" in values:
        training.refuse_other_accumulation(values["gradient_accumulation_steps"])
    arguments = Arguments(
        recipe=name,
        model={name: value for name, value in vars(model).items() if value is not None},
        data=data,
        training=training,
        chosen={name: value for name, value in chosen.items() if not name.endswith("_token")},
        given=frozenset(given),
        notes=notes,
    )
    check_together(arguments)
    return arguments


def read_options(options: Sequence[str]) -> dict[str, Any]:
    """`--field value` pairs; a switch without a value is true, a field with several has a list.

    A list that is named twice grows; any other field may be named once.

    Raises:
        ValueError: if a field is unknown, has no value or is named twice, or a value has no field.
    """
    read: dict[str, list[str]] = {}
    name = None
    for option in options:
        if option.startswith("--"):
            name, has_value, value = option[2:].partition("=")
            name = name.replace("-", "_")
            refuse_unknown(name, "command line")
            if name in read and not KINDS[name].is_list:
                raise ValueError(f"command line: --{name} is given twice; give it once.")
            read.setdefault(name, [])
            read[name] += [value] if has_value else []
        elif name is None:
            raise ValueError(f"command line: '{option}' follows no --field.")
        else:
            read[name].append(option)
    for name, values in read.items():
        if not values and not KINDS[name].is_switch:
            raise ValueError(f"command line: --{name} needs a value.")
    return {
        name: True if not values else values[0] if len(values) == 1 else values
        for name, values in read.items()
    }


def field_names(part: type) -> set[str]:
    """Names of the fields of a dataclass."""
    return {spec.name for spec in dataclasses.fields(part)}


def cast_values(chosen: dict[str, Any]) -> dict[str, Any]:
    """Values by the types of their fields; those that go back to the default are left out.

    Raises:
        ValueError: naming the first field that takes no such value, and the value.
    """
    return {
        name: KINDS[name].cast(name, value)
        for name, value in chosen.items()
        if value is not None and value != []
    }
