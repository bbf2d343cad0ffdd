"""A checkpoint is written completely or not at all."""

import os
import resource
import signal

import pytest
import torch
from safetensors.torch import save_file

from tests.training.checkpoints import asked, make_checkpoint
from training.loop.checkpoints import checkpoints, find_damage
from training.loop.saving import SaveError, write_checkpoint


def test_a_checkpoint_has_its_name_only_when_it_is_whole(tmp_path):
    with write_checkpoint(asked(tmp_path, None), 5, is_sharded=False) as folder:
        assert checkpoints(tmp_path) == []
        (tmp_path / "unfinished-checkpoint-5" / "weights").write_text("all of them")
        assert os.path.samefile(folder, tmp_path / "unfinished-checkpoint-5")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-5"]
    assert (tmp_path / "checkpoint-5" / "weights").read_text() == "all of them"


def test_a_file_that_another_process_renames_meanwhile_does_no_harm(tmp_path):
    with write_checkpoint(asked(tmp_path, None), 5, is_sharded=False) as folder:
        os.symlink("renamed", f"{folder}/.tmp")  # seen in the folder, and not there when opened
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-5"]


def test_a_torn_checkpoint_is_replaced_by_a_whole_one(tmp_path):
    (make_checkpoint(tmp_path, 5) / "rng_state_3.pth").write_text("of an earlier run")
    with write_checkpoint(asked(tmp_path, None), 5, is_sharded=False) as folder:
        torch.save({}, f"{folder}/optimizer.pt")
    assert [path.name for path in tmp_path.rglob("*")] == ["checkpoint-5", "optimizer.pt"]


@pytest.mark.parametrize("part", ["model.safetensors", "optimizer.pt", "trainer_state.json"])
def test_a_full_disk_leaves_the_last_checkpoint_and_nothing_torn(tmp_path, part):
    make_checkpoint(tmp_path, 4)
    write = {
        "model.safetensors": lambda path: save_file({"w": torch.zeros(9000)}, path),
        "optimizer.pt": lambda path: torch.save({"w": torch.zeros(9000)}, path),
        "trainer_state.json": lambda path: path.write_text("9" * 36000),
    }[part]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as on a full disk, only writing fails
    try:
        with (
            pytest.raises(SaveError, match=r"/checkpoint-8 could not be written \(") as told,
            write_checkpoint(asked(tmp_path, None), 8, is_sharded=False) as folder,
        ):
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, limits[1]))
            write(tmp_path / os.path.basename(folder) / part)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert "Free some space, then resume from checkpoint-4 with" in str(told.value)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-4"]
    assert find_damage(tmp_path / "checkpoint-4") is None


def test_what_is_no_failed_write_is_not_called_one(tmp_path):
    with (
        pytest.raises(RuntimeError, match="CUDA") as told,
        write_checkpoint(asked(tmp_path, None), 8, is_sharded=False),
    ):
        raise RuntimeError("CUDA error")
    assert not isinstance(told.value, SaveError)
