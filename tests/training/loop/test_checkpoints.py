"""Which checkpoints there are, which are complete, and which one a run resumes from."""

import json
import logging
import os

import pytest
import torch

from tests.training.checkpoints import asked, make_checkpoint
from training.loop.checkpoints import (
    checkpoints,
    find_checkpoint,
    find_damage,
    last_checkpoints,
)


def test_auto_finds_the_newest_whole_checkpoint(tmp_path):
    make_checkpoint(tmp_path, 90)
    newest = make_checkpoint(tmp_path, 1000)
    assert find_checkpoint(asked(tmp_path, "auto")) == str(newest)


def test_auto_starts_afresh_where_there_is_none(tmp_path):
    assert find_checkpoint(asked(tmp_path, "auto")) is None


@pytest.mark.parametrize(
    "part", ["model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json"]
)
def test_auto_passes_over_a_checkpoint_that_lacks_a_part(tmp_path, part):
    whole, torn = make_checkpoint(tmp_path, 1), make_checkpoint(tmp_path, 2)
    (torn / part).unlink()
    assert find_checkpoint(asked(tmp_path, "auto")) == str(whole)
    assert find_damage(torn) == f"{part} is missing"


def test_truncated_weights_are_recognised(tmp_path):
    torn = make_checkpoint(tmp_path, 2)
    weights = torn / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert find_damage(torn).startswith("model.safetensors is damaged")


def test_a_torn_checkpoint_that_is_asked_for_is_refused(tmp_path):
    torn = make_checkpoint(tmp_path, 2)
    (torn / "optimizer.pt").unlink()
    with pytest.raises(ValueError, match=r"checkpoint-2 cannot be resumed from: optimizer\.pt"):
        find_checkpoint(asked(tmp_path, str(torn)))


def test_the_last_checkpoints_are_by_number_and_not_beyond_the_run(tmp_path):
    for step in (900, 1000, 1100, 5000):
        make_checkpoint(tmp_path, step)
    assert checkpoints(tmp_path)[0].name == "checkpoint-900"
    names = [path.name for path in last_checkpoints(tmp_path, 2, last_step=1100)]
    assert names == ["checkpoint-1000", "checkpoint-1100"]


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A checkpoint that the library's own trainer has written."""
    from transformers import Trainer, TrainingArguments

    class Line(torch.nn.Linear):
        def forward(self, x):
            return {"loss": super().forward(x).sum()}

    folder = tmp_path_factory.mktemp("real")
    arguments = TrainingArguments(
        output_dir=str(folder), max_steps=1, save_steps=1, use_cpu=True, disable_tqdm=True
    )
    Trainer(Line(2, 1), arguments, train_dataset=[{"x": torch.ones(2)}] * 8).train()
    return folder / "checkpoint-1"


def test_the_librarys_own_checkpoint_is_whole(real):
    assert find_damage(real) is None


@pytest.mark.parametrize(
    "part",
    [
        *("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"),
        *("trainer_state.json", "training_args.bin"),
    ],
)
def test_a_part_that_was_cut_in_half_is_recognised(real, part):
    content = (real / part).read_bytes()
    os.truncate(real / part, len(content) // 2)
    try:
        torn = find_damage(real)
    finally:
        (real / part).write_bytes(content)
    # What was chosen is of no use for going on.
    assert torn is None if part == "training_args.bin" else torn.startswith(f"{part} is damaged")


def test_what_is_passed_over_is_said(tmp_path, caplog):
    make_checkpoint(tmp_path, 1)
    os.truncate(make_checkpoint(tmp_path, 2) / "optimizer.pt", 100)
    (make_checkpoint(tmp_path, 3) / "rng_state.pth").unlink()
    with caplog.at_level(logging.INFO, logger="training"):
        find_checkpoint(asked(tmp_path, "auto"))
    assert caplog.messages == [
        "Skipping checkpoint-3: rng_state.pth is missing.",
        "Skipping checkpoint-2: optimizer.pt is damaged.",
        "Resuming from checkpoint-1.",
    ]


def test_another_number_of_processes_is_warned_of(tmp_path, caplog):
    state = {"attributes": {"num_processes": 4}}
    (make_checkpoint(tmp_path, 1) / "trainer_state.json").write_text(
        json.dumps({"global_step": 1, "stateful_callbacks": {"CheckpointClock": state}})
    )
    find_checkpoint(asked(tmp_path, "auto"))
    assert "checkpoint-1 was written by 4 processes and is resumed by 1" in caplog.text
