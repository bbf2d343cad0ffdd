import pytest
import torch
from datasets import Dataset

from training.loop import trainer
from training.outcome.timing import measure_updates
from training.settings.fields import VaswaniTrainingArguments
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer


@pytest.fixture
def run(tmp_path):
    """The settings of a run, its model, tokenizer and five pairs of one batch each."""
    tokenizer = train_tokenizer(["a b c d"] * 9, 300, are_files=False, show_progress=False)
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 1, "encoder_layers": 1, "decoder_layers": 1}
    model = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(tokenizer), **sizes))
    training = VaswaniTrainingArguments(
        **{"source_tokens": 12, "target_tokens": 12, "max_steps": 24, "learning_rate": 0.01},
        **{"save_strategy": "steps", "save_steps": 1, "save_minutes": 0.00001},
        **{"average_last": 1, "weight_decay": 0.1, "report_to": "none", "disable_tqdm": True},
        **{"use_cpu": not torch.cuda.is_available(), "output_dir": str(tmp_path)},
    )
    ids = [[5, 6, 2], [7, 2], [8, 9, 10, 2], [3, 2], [4, 5, 2]]
    return training, model, tokenizer, Dataset.from_dict({"input_ids": ids, "labels": ids[::-1]})


def test_measuring_leaves_the_model_and_the_folder_as_they_are(run, tmp_path):
    training, model, _, _ = run
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    measured = measure_updates(*run, 3)
    assert (measured.updates, measured.peak_bytes is None) == (3, not torch.cuda.is_available())
    assert measured.seconds_per_update > 0
    for name, weight in model.state_dict().items():
        assert torch.equal(weight.cpu(), before[name]), name
    assert list(tmp_path.iterdir()) == []
    assert (training.max_steps, training.learning_rate) == (24, 0.01)  # of the run itself


def test_measuring_evaluates_nothing_and_passes_twice_from_the_start(run, monkeypatch):
    training, counted = run[0], []
    training.eval_strategy, training.eval_on_start = "steps", True
    training.r_drop, training.r_drop_after = 5.0, 100
    twice = trainer.twice

    def count(inputs):
        counted.append(inputs)
        return twice(inputs)

    monkeypatch.setattr("training.loop.trainer.twice", count)
    assert measure_updates(*run, 2).updates == 2
    assert len(counted) == 3  # the first is not timed


def test_measuring_ends_when_its_minute_is_up(run, monkeypatch):
    asked = []

    def is_time_up(clock, args):  # before training no, and after the first update yes
        asked.append(args.max_minutes)
        return len(asked) > 1

    monkeypatch.setattr("training.loop.callbacks.CheckpointClock.is_time_up", is_time_up)
    measured = measure_updates(*run, 3)
    assert asked == [1.0, 1.0]
    assert measured.updates == 1 and measured.seconds_per_update > 0
