"""The fields: those of the library, those of trackio, and the tokens of an update."""

import dataclasses

import pytest
from transformers import Seq2SeqTrainingArguments

from tests.training.settings.command_lines import check_refusal
from training.settings.fields import FIELDS
from training.settings.reading import parse_arguments


TOO_FEW_TOKENS = [
    ("source_tokens 1", "source_tokens=1 over 1 batches an update leaves 1"),
    ("device_tokens 1", "over 240 batches an update .* are 2; raise device_tokens"),
    ("gradient_accumulation_steps 1000", "source_tokens=240 over 1000 batches"),
]


@pytest.mark.parametrize(
    ("options", "message"), TOO_FEW_TOKENS, ids=[case[0] for case in TOO_FEW_TOKENS]
)
def test_batches_that_hold_nothing_are_refused_before_the_text_is_read(
    folder, options, message, monkeypatch
):
    check_refusal(folder, options, message, monkeypatch)


def test_every_field_of_the_librarys_training_arguments_is_reachable():
    library = {spec.name for spec in dataclasses.fields(Seq2SeqTrainingArguments) if spec.init}
    assert library <= FIELDS.keys()


def test_a_push_makes_no_space_of_trackios_curves_unless_one_is_named(tmp_path):
    command = ["base", "--output_dir", str(tmp_path)]
    ids = [
        parse_arguments([*command, *more]).training.trackio_static_space_id
        for more in (
            [],
            ["--trackio_static_space_id", "false"],
            ["--trackio_static_space_id", "me/x"],
        )
    ]
    assert ids[:2] == [False, False]  # `None` would make one, and "false" one of that name
    assert ids[2] == "me/x"
