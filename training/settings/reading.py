# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a run is told: defaults, then the recipes in their order, then the command line."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import HfArgumentParser

from .fields import Arguments, DataArguments, ModelArguments, VaswaniTrainingArguments
from .library import refuse_unheeded
from .recipes import listed, override, read_recipe, recipe_names, refuse_unknown, shown
from .rules import check_together


_LISTS = {
    spec.name
    for part in (DataArguments, VaswaniTrainingArguments)
    for spec in dataclasses.fields(part)
    if "list[" in str(spec.type)
}
_DEFAULTS = {spec.name: spec.default for spec in dataclasses.fields(VaswaniTrainingArguments)}


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Read `RECIPE [--field value ...]`, and refuse what cannot work whatever the text is.

    Args:
        argv: the command line without the program's name.

    Raises:
        ValueError: if the recipe or a field is unknown (a near name is suggested), a value is not
            of its field's type or range, or values do not go together.
    """
    if not argv or argv[0].startswith("-"):
        raise ValueError(
            f"Say first what to train: a recipe ({listed(recipe_names())}) or the path of a YAML "
            f"file, then --field value."
        )
    recipe, *options = argv
    notes: list[str] = []
    chosen, given = read_recipe(recipe, notes), _read_options(options)
    override(chosen, given, notes)
    refuse_unheeded(chosen, _DEFAULTS)
    name = recipe if recipe in recipe_names() else Path(recipe).stem
    chosen.setdefault("output_dir", f"runs/{name}")
    parser = HfArgumentParser([ModelArguments, DataArguments, VaswaniTrainingArguments])
    parser.error = _raise_value_error
    try:
        model, data, training = parser.parse_args_into_dataclasses(args=_as_options(chosen))
    except (ValueError, ImportError) as error:  # the library's too are about what was written
        raise ValueError(" ".join(str(error).split())) from error
    if chosen.get("gradient_accumulation_steps") is not None:
        training.refuse_other_accumulation(int(chosen["gradient_accumulation_steps"]))
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


def _read_options(options: Sequence[str]) -> dict[str, Any]:
    """`--field value` pairs; a field without a value is true, one with several a list.

    A list that is named again grows; any other field may be named once.
    """
    read: dict[str, Any] = {}
    name = None
    for option in options:
        if option.startswith("--"):
            name, has_value, value = option[2:].partition("=")
            name = name.replace("-", "_")
            refuse_unknown(name, "command line")
            if name in read and name not in _LISTS:
                raise ValueError(f"command line: --{name} is given twice; give it once.")
            read.setdefault(name, [])
            read[name] += [value] if has_value else []
        elif name is None:
            raise ValueError(f"command line: '{option}' follows no --field.")
        else:
            read[name].append(option)
    return {
        name: True if not values else values[0] if len(values) == 1 else values
        for name, values in read.items()
    }


def _as_options(chosen: dict[str, Any]) -> list[str]:
    """The fields as a command line, so that every value is cast by its field's type.

    YAML alone would leave `1e-9` a text and turn `no` into false.
    """
    options: list[str] = []
    for name, value in chosen.items():
        if value is None or value == []:  # back to the field's default
            continue
        if isinstance(value, dict):
            value = json.dumps(value)
        values = value if isinstance(value, list) else [value]
        if len(values) > 1 and name not in _LISTS:
            raise ValueError(f"{name} takes one value, got {shown(values)}.")
        for item in values:
            if len(values) > 1 and str(item).startswith("-"):  # the parser would take it for one
                raise ValueError(f"{name}: {item} looks like an option; if it is a file: ./{item}.")
        values = [json.dumps(item) if isinstance(item, dict) else item for item in values]
        # `=` keeps a negative number from being taken for an option.
        if len(values) == 1:
            options.append(f"--{name}={values[0]}")
        else:
            options += [f"--{name}", *map(str, values)]
    return options


def _raise_value_error(message: str) -> None:
    raise ValueError(message)
