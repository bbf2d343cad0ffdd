# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What values a field takes, and the cast of a value, from YAML or the command line, to them.

YAML reads `1e-9` as text and `no` as false, and the command line is all text: the type of the field
decides what a value means.
"""

import copy
import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin


# What `HfArgumentParser` reads as a switch.
_ON = ("true", "yes", "t", "y", "1")
_OFF = ("false", "no", "f", "n", "0")


@dataclass(frozen=True)
class Kind:
    """What values a field takes.

    Attributes:
        types: of the values, without the arguments of a `list` or `dict`, and without `None`.
        choices: the texts that are allowed; empty where every value of `types` is.
    """

    types: frozenset[type]
    choices: tuple[str, ...] = ()

    @classmethod
    def of(cls, hint: Any, metadata: Mapping[str, Any]) -> "Kind":
        """The kind of a dataclass field, by its type hint and its metadata."""
        types, choices = set(), list(metadata.get("choices", ()))
        for member in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
            if get_origin(member) is Literal:
                choices += [choice for choice in get_args(member) if isinstance(choice, str)]
                types |= {type(choice) for choice in get_args(member)}
            elif isinstance(member, type) and issubclass(member, enum.Enum):
                choices += [choice.value for choice in member]
            else:
                types.add(get_origin(member) or member)
        if metadata.get("const") is True:  # the option may stand alone
            types.add(bool)
        return cls(frozenset(types - {type(None)}), tuple(choices))

    @property
    def is_list(self) -> bool:
        """Whether several values may be given."""
        return list in self.types

    @property
    def is_switch(self) -> bool:
        """Whether the option may stand on the command line without a value."""
        return bool in self.types

    def cast(self, name: str, value: Any) -> Any:
        """A value as its field has it.

        Args:
            name: of the field, for errors.
            value: as YAML or the command line has it; a list if there are several, or none.

        Raises:
            ValueError: if the field takes no such value; the error names both.
        """
        if self.is_list:
            return self._cast_list(name, value if isinstance(value, list) else [value])
        if isinstance(value, list):
            if len(value) != 1:
                raise ValueError(f"{name} takes one value, got {written(value)}.")
            (value,) = value
        is_text_too = str in self.types and not self.choices
        if bool in self.types and (isinstance(value, bool) or not is_text_too):
            switch = read_switch(value)
            if switch is not None:
                return switch
        if self.choices:
            return self._cast_choice(name, value)
        for number, needed in ((float, "a number"), (int, "a whole number")):
            if number in self.types:
                return _cast_number(name, value, number, needed)
        if dict in self.types:
            return _cast_mapping(name, value)
        if str in self.types:
            return _cast_text(name, value)
        raise ValueError(f"{name} must be true or false, got {name}={value!r}.")

    def _cast_list(self, name: str, values: list[Any]) -> list[str] | str:
        if len(values) > 1:
            for item in values:
                if str(item).startswith("-"):
                    raise ValueError(
                        f"{name}: {item} looks like an option; if it is a file, write ./{item}."
                    )
        items = [
            json.dumps(item) if isinstance(item, Mapping) else _cast_text(name, item)
            for item in values
        ]
        return items[0] if len(items) == 1 and str in self.types else items

    def _cast_choice(self, name: str, value: Any) -> str:
        text = "no" if value is False and "no" in self.choices else str(value)
        if text not in self.choices:
            raise ValueError(
                f"{name} must be one of {', '.join(self.choices)}, got {name}={value!r}."
            )
        return text


def read_switch(value: Any) -> bool | None:
    """Whether a switch is on, as it is written in YAML or on the command line.

    Returns:
        `None` if the value is not that of a switch.
    """
    text = str(value).lower()
    return True if text in _ON else False if text in _OFF else None


def written(value: Any) -> str:
    """A value as the command line has it."""
    if isinstance(value, list):
        return " ".join(map(written, value))
    if isinstance(value, Mapping):
        return json.dumps(value, default=str)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cast_number(name: str, value: Any, number: type, needed: str) -> Any:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | number):
            raise TypeError
        return number(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be {needed}, got {name}={value!r}.") from None


def _cast_mapping(name: str, value: Any) -> Any:
    """A mapping, or text that the library reads: a mapping as JSON, or the path of one."""
    if isinstance(value, Mapping):
        return {str(key): copy.deepcopy(item) for key, item in value.items()}
    text = _cast_text(name, value)
    if text.startswith("{"):
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{name} is not JSON ({error}), got {name}={text!r}.") from error
    return text


def _cast_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        raise ValueError(
            f"{name} must be text, and YAML reads yes, no, on and off as true or false; put the "
            f'value in quotes, such as {name}: "{"yes" if value else "no"}".'
        )
    if isinstance(value, Mapping):
        raise ValueError(f"{name} must be text, got {name}={written(value)}.")
    return str(value)
