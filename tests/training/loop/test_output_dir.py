"""What a run refuses to replace in its output folder."""

import logging

import pytest

from tests.training.checkpoints import asked, make_checkpoint
from training.loop.output_dir import check_output_dir
from training.settings.fields import VaswaniTrainingArguments


def test_a_fresh_run_does_not_mix_with_an_older_one(tmp_path):
    make_checkpoint(tmp_path, 7)
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
    (make_checkpoint(tmp_path, 5) / "optimizer.pt").unlink()
    check_output_dir(asked(tmp_path, "auto"), None, has_begun=True)
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ValueError, match=r"would replace: README\.md\."):
        check_output_dir(asked(tmp_path, "auto"), None, has_begun=True)


def test_checkpoints_that_are_not_this_projects_are_not_rotated_away(tmp_path):
    (tmp_path / "checkpoint-100").mkdir()  # weights alone, say: nothing to resume from
    (tmp_path / "checkpoint-100" / "model.safetensors").write_text("")
    with pytest.raises(ValueError, match=r"would replace: checkpoint-100\."):
        check_output_dir(asked(tmp_path, "auto"), None)


def test_a_run_may_not_replace_the_model_it_starts_from(tmp_path):
    start = make_checkpoint(tmp_path / "run", 4).parent
    told = VaswaniTrainingArguments(
        output_dir=str(start), model_name_or_path=f"{start}/../run", use_cpu=True
    )
    with pytest.raises(ValueError, match=r"run is the folder of model_name_or_path=.*/\.\./run"):
        check_output_dir(told, str(start / "checkpoint-4"))


def test_going_on_in_another_folder_is_a_fresh_start_there(tmp_path):
    one, other = make_checkpoint(tmp_path / "one", 4), make_checkpoint(tmp_path / "other", 9)
    check_output_dir(asked(one.parent, str(one)), str(one))
    with pytest.raises(
        ValueError, match="other has checkpoints of another run, up to checkpoint-9"
    ):
        check_output_dir(asked(other.parent, str(one)), str(one))
    check_output_dir(asked(tmp_path / "new", str(one)), str(one))


def test_an_unfinished_checkpoint_is_removed_and_said_so(tmp_path, caplog):
    make_checkpoint(tmp_path, 4)
    make_checkpoint(tmp_path, 8).rename(tmp_path / "unfinished-checkpoint-8")
    with caplog.at_level(logging.INFO, logger="training"):
        check_output_dir(asked(tmp_path, "auto"), str(tmp_path / "checkpoint-4"))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-4"]
    assert "Removing unfinished-checkpoint-8" in caplog.text
