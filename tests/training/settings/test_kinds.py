"""Values of YAML and of the command line, cast by the type of their field."""

from typing import Any, Literal

import pytest
import yaml
from transformers.trainer_utils import IntervalStrategy

from training.settings.kinds import Kind


def kind(hint, **metadata):
    return Kind.of(hint, metadata)


@pytest.mark.parametrize(
    ("hint", "text", "expected"),
    [
        # What YAML makes of these by itself is in test_yaml_alone_would_read_other_values.
        (float, "1e-9", 1e-9),
        (float, "1.0e-9", 1e-9),
        (float | int, "1", 1.0),
        (float | None, "nan", None),
        (int, "3", 3),
        (int | None, "-1", -1),
        (bool, "no", False),
        (bool, "'yes'", True),
        (bool | None, "1", True),
        (IntervalStrategy | str, "no", "no"),
        (IntervalStrategy | str, "steps", "steps"),
        (Literal["relu", "gelu"] | None, "gelu", "gelu"),
        (str, "13a", "13a"),
        (str, "5", "5"),
        (str | None, "2026-11-21", "2026-11-21"),
        (str | Literal[False] | None, "no", False),
        (str | Literal[False] | None, "me/x", "me/x"),
        (list[str], "a.tsv", ["a.tsv"]),
        (list[str], "[a.tsv, 5]", ["a.tsv", "5"]),
        (list[str], "[{name: a}]", ['{"name": "a"}']),
        (str | list[str] | None, "[tensorboard]", "tensorboard"),
        (str | list[str] | None, "[tensorboard, trackio]", ["tensorboard", "trackio"]),
        (dict[str, Any] | str | None, "{min_lr: 1.0e-5}", {"min_lr": 1e-5}),
        (dict[str, Any] | str | None, "'{\"a\": 1}'", '{"a": 1}'),
        (int, "[7]", 7),
    ],
)
def test_a_value_of_yaml_is_cast_by_its_field(hint, text, expected):
    value = kind(hint).cast("field", yaml.safe_load(text))
    if expected is None:
        assert value != value  # nan
    else:
        assert (type(value), value) == (type(expected), expected)


def test_yaml_alone_would_read_other_values():
    assert yaml.safe_load("[1e-9, no, 13a]") == ["1e-9", False, "13a"]


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (int, "wide", "field must be a whole number, got field='wide'"),
        (int, 1.5, "field must be a whole number, got field=1.5"),
        (int, True, "field must be a whole number, got field=True"),
        (int, [1, 2], "field takes one value, got 1 2"),
        (float, "", "field must be a number, got field=''"),
        (float, False, "field must be a number, got field=False"),
        (float, 10**400, "field must be a number"),
        (bool, "maybe", "field must be true or false, got field='maybe'"),
        (IntervalStrategy | str, "often", "field must be one of no, steps, epoch, got field='of"),
        (IntervalStrategy | str, True, "field must be one of no, steps, epoch, got field=True"),
        (str, {"a": 1}, 'field must be text, got field={"a": 1}'),
        (dict | str, "{a", r"field is not JSON \(.*, got field='{a'"),
        (list[str], ["a", "-b"], r"field: -b looks like an option; if it is a file, write \./-b"),
    ],
)
def test_a_value_that_a_field_does_not_take_is_refused_by_both_names(hint, value, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        kind(hint).cast("field", value)


def test_the_code_of_norwegian_is_not_taken_for_false():
    value = yaml.safe_load("no")
    with pytest.raises(ValueError, match=r'source_language must be text.*source_language: "no"'):
        kind(str | None).cast("source_language", value)
    assert kind(str | None).cast("source_language", yaml.safe_load('"no"')) == "no"


def test_a_mapping_is_copied():
    given = {"a": {"b": 1}}
    kept = kind(dict | None).cast("field", given)
    kept["a"]["b"] = 2
    assert given == {"a": {"b": 1}}


def test_a_field_that_may_stand_alone_is_a_switch():
    assert kind(str | None, const=True).is_switch
    assert kind(bool).is_switch
    assert not kind(str | None).is_switch
