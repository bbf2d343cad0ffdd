import pytest

from training.settings.reading import parse_arguments


def parse(tmp_path, *options):
    return parse_arguments(["parsing_craft", *options, "--output_dir", str(tmp_path)])


def test_the_best_parser_is_the_one_of_the_best_f1(tmp_path):
    training = parse(tmp_path, "--early_stopping_patience", "3").training
    assert training.metric_for_best_model == "eval_f1"
    assert training.greater_is_better


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--metric_for_best_model", "bleu"],
            "metric_for_best_model=bleu is not measured",
        ),
        (["--task", "translation"], "train_trees is for task=parsing, got task=translation"),
        (["--streaming", "true"], "guided_alignment_of_trees does not go with streaming"),
        (
            ["--words_in_trees", "true", "--numbers_in_trees", "true"],
            "leave out words_in_trees",
        ),
        (
            [
                *("--corpora", '{"name": "a", "train_trees": "a.mrg"}', "--max_steps", "2"),
                *("--stages", '{"updates": 2, "weights": {"a": 1}}'),
            ],
            "guided_alignment_of_trees does not go with stages",
        ),
        (["--test_source", "a", "--test_target", "b"], "task=parsing .* test_source names other"),
        (["--segmented"], "segmented=True is for translation"),
        (["--swap_sides"], "swap_sides=True is for translation"),
    ],
)
def test_what_does_not_belong_to_parsing_is_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        parse(tmp_path, *options)


def test_a_search_for_trees_is_for_parsing(tmp_path):
    assert parse(tmp_path, "--constrained_search").training.constrained_search
    with pytest.raises(ValueError, match="constrained_search=True searches for trees; set task"):
        parse_arguments(["base", "--constrained_search", "--output_dir", str(tmp_path)])


def test_parsing_needs_trees(tmp_path):
    with pytest.raises(ValueError, match="task=parsing learns from trees, and none are named"):
        parse_arguments(["base", "--task", "parsing", "--output_dir", str(tmp_path)])
