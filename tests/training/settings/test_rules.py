"""Settings that contradict each other are refused; a run without a validation set trains."""

import json

import pytest

from tests.training.runs import results_of
from tests.training.settings.command_lines import check_refusal, command, without
from training.run import main
from training.settings.reading import parse_arguments


CONTRADICTIONS = [
    ("num_heads 5", "multiple of num_heads"),
    ("d_model -64", "d_model=-64"),
    ("d_model 31", "d_model=31"),
    ("dropout 1.5", "dropout=1.5"),
    ("dropout nan", "dropout=nan"),
    ("vocab_size -5", "vocab_size=-5"),
    ("vocab_size 259", "vocab_size must be above 259"),
    ("label_smoothing 2", "label_smoothing=2"),
    ("encoder_layers 0", "encoder_layers=0"),
]


@pytest.mark.parametrize(
    ("options", "message"), CONTRADICTIONS, ids=[case[0] for case in CONTRADICTIONS]
)
def test_a_contradiction_is_refused_before_the_text_is_read(folder, options, message, monkeypatch):
    check_refusal(folder, options, message, monkeypatch)


def test_a_share_of_the_updates_to_warm_up_needs_their_number(folder):
    options = without(command(folder), "max_steps")
    share = ["--num_train_epochs", "1", "--warmup_steps", "0.5"]
    recipe = folder / "tiny.yaml"
    recipe.write_text(recipe.read_text().replace("learning_rate: 1.0e-3\n", ""))
    with pytest.raises(ValueError, match=r"warmup_steps=0\.5 is a share.*set learning_rate or max"):
        parse_arguments([*options, *share])
    parse_arguments([*options, *share, "--learning_rate", "1e-3"])


def test_two_files_are_enough(folder, caplog):
    """No validation set: the run trains, averages and writes what it has."""
    options = without(command(folder, validation=False), "max_steps")
    with caplog.at_level("INFO", logger="training"):
        main([*options, "--max_steps", "4", "--average_last", "2", "--save_steps", "2"])
    assert "There is no validation set: nothing is evaluated during training." in caplog.messages
    results = results_of(folder / "out")
    assert results["scores"] == {} and results["training"]["updates"] == 4
    assert results["averaged_checkpoints"] == ["checkpoint-2", "checkpoint-4"]
    assert (folder / "out" / "model.safetensors").is_file()
    assert "BLEU" not in (folder / "out" / "README.md").read_text()


@pytest.mark.parametrize(
    "asked",
    [
        "eval_strategy steps",
        "early_stopping_patience 3",
        "load_best_model_at_end true",
        "eval_on_start true",
        "lr_scheduler_type reduce_lr_on_plateau",
    ],
)
def test_what_compares_evaluations_needs_a_validation_set(folder, asked):
    name, value = asked.split()
    more = ["--save_strategy", "best"] if "best" in name or "stopping" in name else []
    with pytest.raises(
        SystemExit, match=f"(?i){name}={value} needs a validation set.*--validation"
    ):
        main(command(folder, f"--{name}", value, *more, validation=False))
    assert not (folder / "out").exists()


def test_a_dataset_without_a_validation_split_is_trained_on(folder):
    rows = [json.dumps({"source": f"a{place} b", "target": f"b a{place}"}) for place in range(40)]
    (folder / "set").mkdir()
    (folder / "set" / "train.jsonl").write_text("\n".join(rows))
    options = without(command(folder, validation=False), "train_file")
    main([*options, "--dataset", str(folder / "set")])
    assert results_of(folder / "out")["scores"] == {}
    options[options.index("--output_dir") + 1] += "2"
    with pytest.raises(SystemExit, match="eval_strategy=steps needs a validation set"):
        main([*options, "--dataset", str(folder / "set"), "--eval_strategy", "steps"])
