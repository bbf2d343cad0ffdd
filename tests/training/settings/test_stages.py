import json

import pytest

from training.data.corpora import plan_corpora
from training.settings.fields import DataArguments
from training.settings.reading import parse_arguments
from training.settings.rules import check_streaming
from training.settings.stages import mean_shares, read_stages


def stage(updates, **weights):
    return json.dumps({"updates": updates, "weights": weights})


def test_the_share_of_a_corpus_is_its_mean_over_the_updates():
    stages = read_stages([stage(300, clean=1, bt=3), stage(100, clean=2)])
    assert stages[0].shares(["bt", "clean", "other"]) == [0.75, 0.25, 0]
    # By hand: of 400 updates' pairs, clean gives 300/4 + 100 and bt 300 * 3/4.
    assert mean_shares(stages, ["clean", "bt"]) == [175 / 400, 225 / 400]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "stages, 1. must be a mapping"),
        ('{"update": 3}', "stages, 1. unknown key 'update'; did you mean 'updates'?"),
        (stage(0, a=1), "stages, 1. needs a number of updates above 0, got updates=0"),
        (stage(3), r"stages, 1. needs weights, a mapping of corpora to numbers, got weights={}"),
        (stage(3, a=0), "stages, 1. the weight of a must be a number above 0, got 0"),
    ],
)
def test_a_stage_that_lacks_something_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        read_stages([text])


CORPORA = [json.dumps({"name": name, "train_file": f"{name}.tsv"}) for name in ("clean", "bt")]


@pytest.mark.parametrize(
    ("corpora", "weights", "message"),
    [
        (CORPORA, {"cleen": 1, "bt": 1}, "no corpus 'cleen'; did you mean 'clean'?"),
        (CORPORA, {"bt": 1}, "none takes pairs from the corpus 'clean'"),
        (
            [*CORPORA, '{"name": "c", "weight": 2, "train_file": "c.tsv"}'],
            {"clean": 1},
            "corpora, c: weight=2 beside stages",
        ),
    ],
)
def test_stages_and_corpora_must_fit(corpora, weights, message):
    with pytest.raises(ValueError, match=message):
        plan_corpora(DataArguments(corpora=corpora, stages=[stage(3, **weights)]))


def parse(*options):
    return parse_arguments(["base", "--corpora", *CORPORA, *options])


def test_the_updates_of_stages_make_up_the_training():
    stages = ("--stages", stage(20, clean=1), stage(30, bt=1))
    assert parse(*stages, "--max_steps", "50").data.redrawn_by == "stages"
    with pytest.raises(ValueError, match=r"20 \+ 30 = 50 updates, and max_steps=60; set max_steps"):
        parse(*stages, "--max_steps", "60")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--bpe_dropout", "1"), "bpe_dropout must be at least 0 and below 1"),
        (("--bpe_dropout", "0.1", "--segmented"), "bpe_dropout has text cut anew"),
        (("--typo_noise", "0.1", "--num_train_epochs", "3"), "typo_noise has no epochs of a fixed"),
        (("--bpe_dropout", "0.1", "--save_strategy", "epoch"), "save_strategy must be steps or no"),
    ],
)
def test_what_cannot_be_drawn_anew_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        arguments = parse_arguments(["base", "--train_file", "a.tsv", *options])
        check_streaming(arguments.data, arguments.training)


def test_a_corpus_may_be_called_as_a_setting_is():
    named = [json.dumps({"name": name, "train_file": "a.tsv"}) for name in ("stages", "typo_noise")]
    assert DataArguments(corpora=named).redrawn_by is None
    assert DataArguments(corpora=[*named, '{"typo_noise" : 0.1}']).redrawn_by == "typo_noise"


def test_trees_cannot_be_drawn_anew():
    options = ("--train_trees", "a.mrg", "--bpe_dropout", "0.1")
    with pytest.raises(ValueError, match="bpe_dropout is for task=translation"):
        parse_arguments(["base", "--task", "parsing", *options])


def test_noise_of_a_corpus_is_its_own_or_that_of_all():
    corpora = [CORPORA[0], CORPORA[1].replace("{", '{"typo_noise": 0.3, ', 1)]
    plans = plan_corpora(DataArguments(corpora=corpora, typo_noise=0.1))
    assert [plan.arguments.typo_noise for plan in plans] == [0.1, 0.3]
    for value, message in (('"a"', "typo_noise must be a number, got 'a'"), ("2", "in \\[0, 1\\]")):
        wrong = corpora[1].replace("0.3", value)
        with pytest.raises(ValueError, match=message):
            plan_corpora(DataArguments(corpora=[corpora[0], wrong]))


def test_corpora_whose_shares_sum_above_1_are_refused():
    wrong = CORPORA[1].replace("{", '{"upper_case_noise": 0.7, "lower_case_noise": 0.7, ', 1)
    with pytest.raises(ValueError, match=r"sum to 1\.4"):
        plan_corpora(DataArguments(corpora=[CORPORA[0], wrong]))
