import json

import pytest
import torch
from safetensors.torch import save_file

from training.arguments import VaswaniTrainingArguments
from training.checkpoints import (
    check_output_dir,
    checkpoints,
    find_checkpoint,
    last_checkpoints,
    what_is_torn,
)


def make(folder, step):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    save_file({"w": torch.zeros(1000)}, path / "model.safetensors")
    for name in ("optimizer.pt", "scheduler.pt"):
        (path / name).write_bytes(b"x")
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return path


def asked(folder, wanted):
    return VaswaniTrainingArguments(
        output_dir=str(folder), resume_from_checkpoint=wanted, use_cpu=True
    )


def test_auto_finds_the_newest_whole_checkpoint(tmp_path):
    make(tmp_path, 90)
    newest = make(tmp_path, 1000)
    assert find_checkpoint(asked(tmp_path, "auto")) == str(newest)


def test_auto_starts_afresh_where_there_is_none(tmp_path):
    assert find_checkpoint(asked(tmp_path, "auto")) is None


@pytest.mark.parametrize(
    "part", ["model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json"]
)
def test_auto_passes_over_a_checkpoint_that_lacks_a_part(tmp_path, part):
    whole, torn = make(tmp_path, 1), make(tmp_path, 2)
    (torn / part).unlink()
    assert find_checkpoint(asked(tmp_path, "auto")) == str(whole)
    assert what_is_torn(torn) == f"{part} is missing"


def test_truncated_weights_are_recognised(tmp_path):
    torn = make(tmp_path, 2)
    weights = torn / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert what_is_torn(torn).startswith("model.safetensors is damaged")


def test_a_torn_checkpoint_that_is_asked_for_is_refused(tmp_path):
    torn = make(tmp_path, 2)
    (torn / "optimizer.pt").unlink()
    with pytest.raises(ValueError, match=r"checkpoint-2 is no whole checkpoint: optimizer\.pt"):
        find_checkpoint(asked(tmp_path, str(torn)))


def test_a_fresh_run_does_not_mix_with_an_older_one(tmp_path):
    make(tmp_path, 7)
    with pytest.raises(ValueError, match="checkpoints of another run, up to checkpoint-7"):
        check_output_dir(asked(tmp_path, None), None)


def test_the_last_checkpoints_are_by_number_and_not_beyond_the_run(tmp_path):
    for step in (900, 1000, 1100, 5000):
        make(tmp_path, step)
    assert checkpoints(tmp_path)[0].name == "checkpoint-900"
    names = [path.name for path in last_checkpoints(tmp_path, 2, last_step=1100)]
    assert names == ["checkpoint-1000", "checkpoint-1100"]
