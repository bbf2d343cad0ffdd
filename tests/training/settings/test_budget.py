from dataclasses import replace

import numpy as np
import pytest

from training.settings.budget import TokenBudget
from training.settings.fields import VaswaniTrainingArguments
from training.settings.reading import parse_arguments


def on(monkeypatch, num_processes):
    monkeypatch.setattr(VaswaniTrainingArguments, "world_size", num_processes)


# By hand: 25,000 / (processes * 3,125) is 8, 4, 2.67, 1 and 0.5.
@pytest.mark.parametrize(("processes", "batches"), [(1, 8), (2, 4), (3, 3), (8, 1), (16, 1)])
def test_batches_are_accumulated_until_an_update_has_its_tokens(
    monkeypatch, tmp_path, processes, batches
):
    on(monkeypatch, processes)
    options = ["--device_tokens", "3125", "--output_dir", str(tmp_path)]
    training = parse_arguments(["base", *options]).training
    assert training.gradient_accumulation_steps == batches


def test_the_larger_side_decides_how_many_batches_are_accumulated(tmp_path):
    options = ["--source_tokens", "100", "--target_tokens", "301", "--device_tokens", "100"]
    training = parse_arguments(["base", *options, "--output_dir", str(tmp_path)]).training
    assert training.gradient_accumulation_steps == 4  # 301 / 100


def test_no_limit_means_no_accumulation(tmp_path):
    training = parse_arguments(["base", "--output_dir", str(tmp_path)]).training
    assert training.gradient_accumulation_steps == 1


@pytest.mark.parametrize("given", ["1", "4"])
def test_an_accumulation_that_contradicts_the_device_is_refused(tmp_path, given):
    options = ["--device_tokens", "3125", "--gradient_accumulation_steps", given]
    way_out = {"1": 25000, "4": 6250}[given]
    message = f"steps={given} contradicts device_tokens=3125.*make 8.*device_tokens to {way_out}"
    with pytest.raises(ValueError, match=message):
        parse_arguments(["base", *options, "--output_dir", str(tmp_path)])


def test_an_accumulation_that_agrees_with_the_device_is_taken(tmp_path):
    options = ["--device_tokens", "3125", "--gradient_accumulation_steps", "8"]
    training = parse_arguments(["base", *options, "--output_dir", str(tmp_path)]).training
    assert training.gradient_accumulation_steps == 8


@pytest.mark.parametrize("value", ["0", "-5"])
def test_a_device_without_room_is_refused(tmp_path, value):
    with pytest.raises(
        ValueError, match=f"device_tokens must be at least 1.*device_tokens={value}"
    ):
        parse_arguments(["base", "--device_tokens", value, "--output_dir", str(tmp_path)])


# What a batch holds


def test_a_batch_has_its_share_of_an_updates_tokens():
    # By hand: 240 / (2 * 3) and 301 / 6, rounded down.
    budget = TokenBudget(240, 301, processes=2, accumulation=3)
    assert budget.batch_tokens == (40, 50)
    assert budget.num_sentences(7, 11) == 4  # 40 / 7 is 5.7, 50 / 11 is 4.5
    alone = budget.of_one_process(seed=5)
    assert (alone.batch_tokens, alone.batches_per_update, alone.seed) == ((40, 50), 1, 5)


def test_lengths_are_padded_to_multiples():
    lengths = np.array([1, 7, 8, 9])
    assert TokenBudget(9, 9).padded(lengths).tolist() == [1, 7, 8, 9]
    assert TokenBudget(9, 9, pad_to_multiple_of=8).padded(lengths).tolist() == [8, 8, 8, 16]


def test_the_budget_of_a_run_is_what_its_arguments_say(tmp_path):
    options = "--source_tokens 90 --target_tokens 80 --gradient_accumulation_steps 3 --seed 4"
    options += f" --pad_to_multiple_of 8 --max_padding 0.2 --output_dir {tmp_path}"
    training = parse_arguments(["base", *options.split()]).training
    expected = TokenBudget(*(90, 80), accumulation=3, pad_to_multiple_of=8, max_padding=0.2, seed=4)
    assert TokenBudget.of(training) == expected
    training.data_seed = 0
    assert TokenBudget.of(training) == replace(expected, seed=0)


@pytest.mark.parametrize(
    ("more", "raised"),
    [
        ({}, "source_tokens=60 over 1 batches an update; raise source_tokens or"),
        ({"accumulation": 2}, "source_tokens=60 over 2 batches an update; raise source_tokens or"),
        ({"accumulation": 2, "device_tokens": 30}, "over 2 batches an update; raise device_tokens"),
        ({"accumulation": 1, "device_tokens": 99}, "over 1 batches an update; raise source_tokens"),
    ],
)
def test_a_max_length_that_no_batch_holds_is_told_with_the_field_that_would_do(more, raised):
    with pytest.raises(ValueError, match=f"max_length=61 but a batch holds .*{raised}"):
        TokenBudget(60, 90, **more).check_max_length(61)


@pytest.mark.parametrize(("streamed", "expected"), [(["--streaming"], 1.0), ([], 0.03)])
def test_streamed_batches_are_as_full_as_can_be_unless_max_padding_is_given(
    tmp_path, streamed, expected
):
    command = ["base", *streamed, "--output_dir", str(tmp_path)]
    assert parse_arguments(command).training.max_padding == expected
    given = parse_arguments([*command, "--max_padding", "0.03"]).training.max_padding
    assert given == 0.03
