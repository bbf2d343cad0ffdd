"""What the final model is made of, and how it comes into the model."""

from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from tests.training.checkpoints import make_checkpoint
from training.outcome.final_model import best_checkpoint, final_checkpoints, load_average
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


def trainer_of(folder, best=None, loads_best=False):
    return SimpleNamespace(
        state=SimpleNamespace(
            global_step=3, best_model_checkpoint=best, best_global_step=2, best_metric=0.5
        ),
        args=SimpleNamespace(
            output_dir=str(folder),
            average_last=2,
            load_best_model_at_end=loads_best,
            metric_for_best_model="loss" if best else None,
        ),
    )


@pytest.mark.parametrize(
    ("best", "loads_best", "expected"),
    [
        (None, False, ["checkpoint-2", "checkpoint-3"]),
        ("run/checkpoint-1", False, ["checkpoint-2", "checkpoint-3"]),
        ("run/checkpoint-1", True, ["checkpoint-1"]),
        (None, True, ["checkpoint-2", "checkpoint-3"]),  # nothing was evaluated
    ],
)
def test_the_final_model_is_the_mean_of_the_last_or_the_best(tmp_path, best, loads_best, expected):
    for step in (1, 2, 3, 9):  # 9 is of a longer run
        make_checkpoint(tmp_path, step)
    found = final_checkpoints(trainer_of(tmp_path, best, loads_best))
    assert [path.name for path in found] == expected


def test_the_best_checkpoint_is_named_with_its_score(tmp_path):
    assert best_checkpoint(trainer_of(tmp_path)) is None
    assert best_checkpoint(trainer_of(tmp_path, "run/checkpoint-2")) == {
        "folder": "checkpoint-2",
        "update": 2,
        "eval_loss_nats_per_token": 0.5,
    }


def test_the_mean_of_checkpoints_comes_into_the_model_tied_weights_too(tmp_path):
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 1, "encoder_layers": 1, "decoder_layers": 1}
    model = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=9, **sizes))
    folders = []
    for number in (1.0, 4.0):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(number)
        folders.append(tmp_path / str(number))
        model.save_pretrained(folders[-1])
    load_average(model, folders)
    assert all((parameter == 2.5).all() for parameter in model.parameters())
    assert model.lm_head.weight is model.get_input_embeddings().weight


def test_one_checkpoint_leaves_the_model_as_it_is(tmp_path, caplog):
    save_file({}, tmp_path / "model.safetensors")
    with caplog.at_level("INFO", logger="training"):
        load_average(None, [tmp_path])
    assert "nothing to average" in caplog.text
