# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What `training/run.py --help` shows: the recipes, and every field with its value."""

import argparse
import dataclasses
import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vaswani_hf import VaswaniConfig

from .fields import FIELDS, KINDS, DataArguments, ModelArguments, VaswaniTrainingArguments
from .kinds import Kind, written
from .library import UNUSABLE, WITHOUT_EFFECT
from .recipes import comment_of, first_sentence, read_recipe, recipe_names


HELP = ("-h", "--help")
LONGEST_CHOICES = 40  # characters of a list of choices; longer ones are a NAME

# Where the first sentence of the library's help says too little, or other than what happens here.
_LIBRARY_HELP: Mapping[str, str] = {
    "max_steps": "updates to train for; -1 for num_train_epochs to decide",
    "num_train_epochs": "epochs to train for; leaves out the recipe's max_steps",
    "lr_scheduler_type": "schedule of the learning rate; `inverse_sqrt` is the paper's equation 3",
    "warmup_steps": "updates of linear warm-up; below 1, a share of all updates",
    "optim": "optimizer; an unknown name is answered with all names",
    "gradient_accumulation_steps": "batches of a process that make an update",
    "logging_steps": "updates between two entries in the log; below 1, a share of all updates",
    "eval_steps": "updates between two evaluations; below 1, a share of all updates",
    "save_steps": "updates between two checkpoints; below 1, a share of all updates",
    "save_total_limit": "checkpoints that are kept, at most; older ones are deleted",
    "push_to_hub": "push the trained model to the Hub",
    "hub_model_id": "repository of the Hub that is pushed to",
    "metric_for_best_model": "metric that chooses the best checkpoint: `eval_bleu`, `eval_loss`, "
    "...; BLEU where it is measured unless given",
    "load_best_model_at_end": "end with the weights of the best checkpoint; needs average_last 1",
    "predict_with_generate": "translate the validation set in evaluations, and measure BLEU",
    "generation_max_length": "longest translation of an evaluation during training, in tokens",
    "generation_num_beams": "beam size of an evaluation during training",
    "local_rank": "number of the process on its machine; launchers set it",
    "use_cpu": "train on the CPU, even where there is a GPU",
}


def asks_for_help(argv: Sequence[str]) -> bool:
    """Whether a command line has `-h` or `--help`."""
    return any(word in HELP for word in argv)


def usage(argv: Sequence[str]) -> str:
    """The recipes and fields of `training/run.py`, as wide as the terminal.

    Args:
        argv: the command line. If it starts with a recipe, the recipe's values stand in place of
            the defaults.

    Raises:
        ValueError: if there is no such recipe, or it cannot be read.
    """
    words = [word for word in argv if word not in HELP]
    recipe = words[0] if words and not words[0].startswith("-") else None
    parser = argparse.ArgumentParser(
        usage="training/run.py RECIPE [--field value ...]",
        description="Train a Transformer by a recipe. A recipe sets fields by lines `field: value`;"
        " the command line sets them by --field value, and wins.",
        add_help=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=30),
    )
    chosen: dict[str, Any] = {}
    if recipe is None:
        group = parser.add_argument_group(
            "recipes", "a name of these, or the path of a YAML file; RECIPE --help shows its values"
        )
        for name in sorted(recipe_names(), key=lambda name: ("/" in name, name)):
            group.add_argument(name, help=_escaped(first_sentence(comment_of(name))))
    else:
        chosen = read_recipe(recipe)
        parser.add_argument_group(f"recipe {recipe}", comment_of(recipe))
    for title, (names, help_of) in _groups().items():
        group = parser.add_argument_group(title)
        for name in names:
            value = f"{recipe}: {_shown(chosen[name])}" if name in chosen else _default(name)
            text = f"{help_of(name)} ({value})" if value else help_of(name)
            group.add_argument(f"--{name}", metavar=_metavar(KINDS[name]), help=_escaped(text))
    return parser.format_help()


def _groups() -> dict[str, tuple[list[str], Callable[[str], str]]]:
    """By its title, the fields of a group, and what gives the help of each."""
    model = [spec.name for spec in dataclasses.fields(ModelArguments)]
    data = [spec.name for spec in dataclasses.fields(DataArguments)]
    training = list(inspect.get_annotations(VaswaniTrainingArguments))
    not_listed = {*model, *data, *training, *WITHOUT_EFFECT, *UNUSABLE}
    library = [name for name in FIELDS if name not in not_listed]
    return {
        "model": (model, _our_help),
        "data": (data, _our_help),
        "training": (training, _our_help),
        "training, by the library's Seq2SeqTrainingArguments": (library, _library_help),
    }


def _our_help(name: str) -> str:
    return str(FIELDS[name].metadata["help"]).rstrip(".")


def _library_help(name: str) -> str:
    text = str(FIELDS[name].metadata["help"]).replace("%%", "%")
    return _LIBRARY_HELP.get(name) or first_sentence(text)


def _default(name: str) -> str:
    """The default as help shows it; nothing where a field has none."""
    in_model = {spec.name for spec in dataclasses.fields(ModelArguments)}
    default = getattr(VaswaniConfig, name) if name in in_model else FIELDS[name].default
    if default in (None, "", dataclasses.MISSING):
        return ""
    return f"default: {_shown(default)}"


def _shown(value: Any) -> str:
    """A value as the command line has it; `null` where a recipe goes back to the default."""
    if value is None:
        return "null"
    return written(value.value if isinstance(value, enum.Enum) else value)


def _metavar(kind: Kind) -> str:
    """The form of a field's values."""
    if kind.choices:
        choices = "|".join(kind.choices)
        return choices if len(choices) <= LONGEST_CHOICES else "NAME"
    if kind.is_list:
        return "TEXT ..."
    for one, form in [(dict, "JSON"), (float, "NUMBER"), (int, "INTEGER"), (str, "TEXT")]:
        if one in kind.types:
            return form
    return "true|false"


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
