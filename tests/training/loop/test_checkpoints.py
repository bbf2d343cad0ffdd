import json
import logging
import os
import resource
import signal

import pytest
import torch
from safetensors.torch import save_file

from training.loop.checkpoints import (
    SaveError,
    check_output_dir,
    checkpoints,
    find_checkpoint,
    last_checkpoints,
    saving,
    what_is_torn,
)
from training.settings.fields import VaswaniTrainingArguments


def make(folder, step):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    save_file({"w": torch.zeros(1000)}, path / "model.safetensors")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({"w": torch.zeros(1000)}, path / name)
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


@pytest.mark.parametrize(
    "name",
    [
        *("README.md", "config.json", "model.safetensors", "model-00001-of-00002.safetensors"),
        *("tokenizer.json", "results.json", "modeling_vaswani.py", "target_tokenizer"),
        *("config.yaml", "tokenizer"),
    ],
)
@pytest.mark.parametrize("wanted", [None, "auto"])
def test_files_that_a_fresh_start_would_replace_are_named_and_stay(tmp_path, name, wanted):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=f"has files that this run would replace: {name}. Choose"):
        check_output_dir(asked(tmp_path, wanted), None)
    assert (tmp_path / name).read_text() == "mine"


def test_files_that_no_run_writes_are_no_matter(tmp_path):
    for name in ("train.log", "train.en", "notes.md"):
        (tmp_path / name).write_text("mine")
    check_output_dir(asked(tmp_path, None), None)


def test_what_a_killed_run_has_begun_with_does_not_hinder_a_fresh_start(tmp_path):
    (tmp_path / "config.yaml").write_text("")
    (tmp_path / "tokenizer").mkdir()
    (make(tmp_path, 5) / "optimizer.pt").unlink()
    check_output_dir(asked(tmp_path, "auto"), None, is_begun=True)
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ValueError, match=r"would replace: README\.md\."):
        check_output_dir(asked(tmp_path, "auto"), None, is_begun=True)


def test_checkpoints_that_are_not_this_projects_are_not_rotated_away(tmp_path):
    (tmp_path / "checkpoint-100").mkdir()  # weights alone, say: nothing to resume from
    (tmp_path / "checkpoint-100" / "model.safetensors").write_text("")
    with pytest.raises(ValueError, match=r"would replace: checkpoint-100\."):
        check_output_dir(asked(tmp_path, "auto"), None)


def test_a_run_may_not_replace_the_model_it_starts_from(tmp_path):
    start = make(tmp_path / "run", 4).parent
    told = VaswaniTrainingArguments(
        output_dir=str(start), model_name_or_path=f"{start}/../run", use_cpu=True
    )
    with pytest.raises(ValueError, match=r"run is the folder of model_name_or_path=.*/\.\./run: "):
        check_output_dir(told, str(start / "checkpoint-4"))


def test_going_on_in_another_folder_is_a_fresh_start_there(tmp_path):
    one, other = make(tmp_path / "one", 4), make(tmp_path / "other", 9)
    check_output_dir(asked(one.parent, str(one)), str(one))
    with pytest.raises(
        ValueError, match="other has checkpoints of another run, up to checkpoint-9"
    ):
        check_output_dir(asked(other.parent, str(one)), str(one))
    check_output_dir(asked(tmp_path / "new", str(one)), str(one))


def test_the_last_checkpoints_are_by_number_and_not_beyond_the_run(tmp_path):
    for step in (900, 1000, 1100, 5000):
        make(tmp_path, step)
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
    assert what_is_torn(real) is None


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
        torn = what_is_torn(real)
    finally:
        (real / part).write_bytes(content)
    # What was chosen is of no use for going on.
    assert torn is None if part == "training_args.bin" else torn.startswith(f"{part} is damaged")


def test_what_is_passed_over_is_said(tmp_path, caplog):
    make(tmp_path, 1)
    os.truncate(make(tmp_path, 2) / "optimizer.pt", 100)
    (make(tmp_path, 3) / "rng_state.pth").unlink()
    with caplog.at_level(logging.INFO, logger="training"):
        find_checkpoint(asked(tmp_path, "auto"))
    assert caplog.messages == [
        "Passing over checkpoint-3, which is torn: rng_state.pth is missing.",
        "Passing over checkpoint-2, which is torn: optimizer.pt is damaged.",
        "Resuming from checkpoint-1.",
    ]


def test_another_number_of_processes_is_warned_of(tmp_path, caplog):
    state = {"attributes": {"num_processes": 4}}
    (make(tmp_path, 1) / "trainer_state.json").write_text(
        json.dumps({"global_step": 1, "stateful_callbacks": {"CheckpointClock": state}})
    )
    find_checkpoint(asked(tmp_path, "auto"))
    assert "checkpoint-1 was written by 4 processes and is resumed by 1" in caplog.text


def test_a_checkpoint_has_its_name_only_when_it_is_whole(tmp_path):
    with saving(asked(tmp_path, None), 5, is_sharded=False) as folder:
        assert checkpoints(tmp_path) == []
        (tmp_path / "unfinished-checkpoint-5" / "weights").write_text("all of them")
        assert os.path.samefile(folder, tmp_path / "unfinished-checkpoint-5")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-5"]
    assert (tmp_path / "checkpoint-5" / "weights").read_text() == "all of them"


def test_a_file_that_another_process_renames_meanwhile_does_no_harm(tmp_path):
    with saving(asked(tmp_path, None), 5, is_sharded=False) as folder:
        os.symlink("renamed", f"{folder}/.tmp")  # seen in the folder, and not there when opened
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-5"]


def test_a_torn_checkpoint_is_replaced_by_a_whole_one(tmp_path):
    (make(tmp_path, 5) / "rng_state_3.pth").write_text("of an earlier run")
    with saving(asked(tmp_path, None), 5, is_sharded=False) as folder:
        torch.save({}, f"{folder}/optimizer.pt")
    assert [path.name for path in tmp_path.rglob("*")] == ["checkpoint-5", "optimizer.pt"]


@pytest.mark.parametrize("part", ["model.safetensors", "optimizer.pt", "trainer_state.json"])
def test_a_full_disk_leaves_the_last_checkpoint_and_nothing_torn(tmp_path, part):
    make(tmp_path, 4)
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
            saving(asked(tmp_path, None), 8, is_sharded=False) as folder,
        ):
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, limits[1]))
            write(tmp_path / os.path.basename(folder) / part)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert "The last whole checkpoint is checkpoint-4: make room" in str(told.value)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-4"]
    assert what_is_torn(tmp_path / "checkpoint-4") is None


def test_what_is_no_failed_write_is_not_called_one(tmp_path):
    with (
        pytest.raises(RuntimeError, match="CUDA") as told,
        saving(asked(tmp_path, None), 8, is_sharded=False),
    ):
        raise RuntimeError("CUDA error")
    assert not isinstance(told.value, SaveError)


def test_an_unfinished_checkpoint_is_removed_and_said_so(tmp_path, caplog):
    make(tmp_path, 4)
    make(tmp_path, 8).rename(tmp_path / "unfinished-checkpoint-8")
    with caplog.at_level(logging.INFO, logger="training"):
        check_output_dir(asked(tmp_path, "auto"), str(tmp_path / "checkpoint-4"))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-4"]
    assert "Removing unfinished-checkpoint-8" in caplog.text
