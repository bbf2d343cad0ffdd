"""The best checkpoint: by which metric, and what would lose it."""

import pytest

from tests.training.settings.command_lines import check_refusal
from training.settings.fields import VaswaniTrainingArguments
from training.settings.reading import parse_arguments


def arguments(tmp_path, **fields):
    return VaswaniTrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, **{"average_last": 1, **fields}
    )


EVERY_TEN = {
    "eval_strategy": "steps",
    "eval_steps": 10,
    "save_strategy": "steps",
    "save_steps": 10,
    "predict_with_generate": True,
}


def test_the_best_is_that_of_the_highest_bleu_where_there_is_one(tmp_path):
    chosen = arguments(tmp_path, early_stopping_patience=3, **EVERY_TEN)
    assert (chosen.metric_for_best_model, chosen.greater_is_better) == ("eval_bleu", True)
    without = EVERY_TEN | {"predict_with_generate": False}
    chosen = arguments(tmp_path, early_stopping_patience=3, **without)
    assert (chosen.metric_for_best_model, chosen.greater_is_better) == ("eval_loss", False)


def test_a_low_perplexity_is_good(tmp_path):
    # The library takes every name that does not end in `loss` for one that should rise.
    metric = "eval_perplexity_per_token"
    chosen = arguments(tmp_path, metric_for_best_model=metric, **EVERY_TEN)
    assert chosen.greater_is_better is False


def test_no_metric_is_chosen_for_a_run_that_keeps_no_best(tmp_path):
    assert arguments(tmp_path, **EVERY_TEN).metric_for_best_model is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"early_stopping_patience": 0}, "early_stopping_patience=0"),
        ({"metric_for_best_model": "eval_blue"}, "eval_blue is not measured; .* eval_bleu"),
        (
            {"metric_for_best_model": "bleu", "predict_with_generate": False},
            "metric_for_best_model=bleu is not measured.*with predict_with_generate",
        ),
        ({"eval_strategy": "no"}, "eval_strategy=no makes none; set eval_strategy to steps"),
        ({"save_strategy": "no"}, "save_strategy=no .*set save_strategy to best, or to steps"),
        ({"save_strategy": "epoch"}, "save_strategy=epoch .*or to steps like eval_strategy"),
        ({"save_steps": 20}, "make eval_steps=10 a multiple of save_steps=20"),
        ({"save_steps": 0.5}, "make eval_steps=10 a multiple of save_steps=0.5"),
        (
            {"save_total_limit": 4, "average_last": 4},
            "save_total_limit=4 would .*average_last=4 needs; set save_total_limit to 5",
        ),
        ({"report_to": "tensorbord"}, "report_to=tensorbord: .* tensorboard"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(tmp_path, changed, message):
    with pytest.raises(ValueError, match=message):
        arguments(tmp_path, **({"early_stopping_patience": 3} | EVERY_TEN | changed))


@pytest.mark.parametrize(
    "changed", [{"save_steps": 5}, {"save_strategy": "best"}, {"save_total_limit": 2}]
)
def test_what_fits_is_taken(tmp_path, changed):
    chosen = arguments(tmp_path, **({"early_stopping_patience": 3} | EVERY_TEN | changed))
    assert chosen.early_stopping_patience == 3


def test_the_best_checkpoint_is_not_lost_to_an_average(tmp_path):
    best = ["--load_best_model_at_end", "--save_strategy", "steps", "--save_steps", "1000"]
    command = ["base", *best, "--output_dir", str(tmp_path)]
    with pytest.raises(ValueError, match=r"load_best_model_at_end=True.*average_last=5"):
        parse_arguments(command)
    assert parse_arguments([*command, "--average_last", "1"]).training.load_best_model_at_end


def test_fewer_kept_checkpoints_than_are_averaged_are_refused(tmp_path):
    with pytest.raises(ValueError, match="save_total_limit=2 keeps fewer checkpoints than average"):
        parse_arguments(["base", "--save_total_limit", "2", "--output_dir", str(tmp_path)])


LOST = [
    (
        "load_best_model_at_end true --eval_strategy steps --save_strategy epoch",
        "load_best_model_at_end requires the save and eval strategy to match.*EPOCH",
    ),
]


@pytest.mark.parametrize(("options", "message"), LOST, ids=[case[0] for case in LOST])
def test_a_checkpoint_that_would_be_lost_is_refused_before_the_text_is_read(
    folder, options, message, monkeypatch
):
    check_refusal(folder, options, message, monkeypatch)
