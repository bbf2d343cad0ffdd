# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Recipes: YAML files of fields, each of which may extend another."""

import difflib
import itertools
import re
from pathlib import Path
from typing import Any

import yaml

from .fields import FIELDS, FILES, NO_DATASET, TRAINING_FILES
from .kinds import written


RECIPES = Path(__file__).parents[1] / "recipes"
EXTENDS = "extends"  # the recipe that another one builds on


def recipe_names() -> set[str]:
    """The recipes that come with the project, as they are typed."""
    return {
        path.relative_to(RECIPES).with_suffix("").as_posix() for path in RECIPES.rglob("*.yaml")
    }


def read_recipe(recipe: str, notes: list[str] | None = None) -> dict[str, Any]:
    """The fields of a recipe, those of the recipes it extends included.

    Args:
        recipe: a name in `training/recipes`, or the path of a YAML file.
        notes: gets a sentence for each field that gave way to another.

    Raises:
        ValueError: if there is no such recipe, it is not a mapping, it sets an unknown field, or it
            extends itself.
    """
    chain: list[dict[str, Any]] = []
    seen: list[Path] = []
    path: Path | None = find_recipe(recipe)
    while path is not None:
        if path in seen:
            raise ValueError(f"{path.name} extends itself.")
        seen.append(path)
        content = _read_yaml(path)
        if not isinstance(content, dict):
            raise ValueError(f"{path.name} must consist of lines `field: value`.")
        parent = content.pop(EXTENDS, None)
        for key in content:
            refuse_unknown(str(key), path.name)
        chain.append(content)
        if parent is not None and not isinstance(parent, str):
            raise ValueError(f"{path.name}: {EXTENDS} must name one recipe, got {parent!r}.")
        path = find_recipe(parent, beside=path.parent) if parent else None
    merged: dict[str, Any] = {}
    for content in reversed(chain):
        override(merged, content, [] if notes is None else notes)
    return merged


def _read_yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}.") from error


def listed(names: set[str]) -> str:
    """Names, separated by commas; those of a folder in braces behind its name."""
    folders: dict[str, list[str]] = {}
    for name in sorted(names):
        folder, _, rest = name.rpartition("/")
        folders.setdefault(folder, []).append(rest)
    loose = folders.pop("", [])
    return ", ".join(
        [*loose, *(f"{folder}/{{{', '.join(rest)}}}" for folder, rest in folders.items())]
    )


def override(chosen: dict[str, Any], later: dict[str, Any], notes: list[str]) -> None:
    """Replace settings by later ones, and leave out earlier ones that contradict those.

    Epochs leave out the recipe's number of updates; a dataset leaves out the recipe's files, and
    training files its dataset, or training pairs of the one would meet test pairs of the other.
    Updates between checkpoints or evaluations leave out a strategy that does not count them.

    Args:
        chosen: the settings, which are changed.
        later: settings that win.
        notes: gets a sentence for each setting that is left out.
    """
    replaced: dict[str, Any] = {}
    if "num_train_epochs" in later and "max_steps" not in later:
        chosen["max_steps"] = -1
    if any(later.get(name) for name in TRAINING_FILES) and "dataset" not in later:
        replaced = {name: chosen.get(name) for name in ("dataset", "dataset_config")}
    elif later.get("dataset") not in (None, NO_DATASET):
        replaced = {name: chosen.get(name) for name in FILES}
    for name, value in replaced.items():
        if value and name not in later:
            chosen[name] = None
            by = "dataset" if name in FILES else "the training files"
            notes.append(f"{name}={written(value)} of the recipe gives way to {by}.")
    for steps, strategy in (("save_steps", "save_strategy"), ("eval_steps", "eval_strategy")):
        value, is_counted = chosen.get(strategy), later.get(steps) is not None
        if is_counted and strategy not in later and value in ("no", "epoch", False):
            chosen[strategy] = "steps"
            notes.append(f"{strategy}={written(value)} of the recipe gives way to {steps}.")
    chosen.update(later)


def find_recipe(recipe: str, beside: Path = Path()) -> Path:
    """The file of a recipe, by its name or its path from the folder `beside`.

    Raises:
        ValueError: if there is none; a near name is suggested.
    """
    for candidate in (beside / recipe, beside / f"{recipe}.yaml", RECIPES / f"{recipe}.yaml"):
        if candidate.suffix in (".yaml", ".yml") and candidate.is_file():
            return candidate.resolve()
    names = recipe_names()
    near = difflib.get_close_matches(recipe, names, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are {listed(names)}."
    raise ValueError(f"There is no recipe '{recipe}'; {hint}")


def refuse_unknown(key: str, where: str) -> None:
    """Raise a `ValueError` if a key, found in the place `where`, is no field."""
    if key not in FIELDS:
        near = difflib.get_close_matches(key, FIELDS, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else "."
        raise ValueError(f"{where}: unknown key '{key}'{hint}")


def comment_of(recipe: str) -> str:
    """The comment at the head of a recipe's file, in one line."""
    lines = find_recipe(recipe).read_text(encoding="utf-8").splitlines()
    head = itertools.takewhile(lambda line: line.startswith("#"), lines)
    return " ".join(line.removeprefix("#").strip() for line in head)


def first_sentence(text: str) -> str:
    """A text up to the first full stop before a capital, without it."""
    return re.split(r"\.\s+(?=[A-Z`])", text.strip(), maxsplit=1)[0].rstrip(".")
