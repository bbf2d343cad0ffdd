import json

import pytest

from training.data.corpora import plan_corpora
from training.settings.fields import DataArguments
from training.settings.reading import parse_arguments


@pytest.mark.parametrize(
    ("corpora", "message"),
    [
        (["nonsense"], "must be a mapping, got 'nonsense'"),
        (["[1]"], r"must be a mapping, got '\[1\]'"),
        ([{"name": "a", "wieght": 1}], "unknown key 'wieght'; did you mean 'weight'"),
        ([{"weight": 1, "dataset": "x"}], "corpora, 1. needs a name"),
        ([{"name": "a", "weight": 0, "dataset": "x"}], "above 0, got weight=0"),
        ([{"name": "a", "weight": "1", "dataset": "x"}], "above 0, got weight=1"),
        ([{"name": "a", "weight": 1}], "a: names no text; set one of dataset"),
        ([{"name": "a", "dataset": "x"}] * 2, "two are named 'a'"),
        *(
            (
                [{"name": "a", "dataset": "x", "source_tag": tag}],
                f"a: source_tag must be a name of its own in angle brackets, .* got {tag!r}",
            )
            for tag in ("bt", "", "<>", "<b t>", "</s>", "<0x41>", 1)
        ),
        (
            [{"name": "a", "dataset": "x", "weight": 1}, {"name": "b", "dataset": "y"}],
            "b without a weight among others that have one",
        ),
    ],
)
def test_a_mapping_that_says_too_little_or_too_much_is_refused(corpora, message):
    written = [text if isinstance(text, str) else json.dumps(text) for text in corpora]
    with pytest.raises(ValueError, match=message):
        plan_corpora(DataArguments(corpora=written))


RECIPE = """\
extends: base
source_column: en
corpora:
  - {name: news, weight: 2, train_source: [a.en, b.en], train_target: [a.de, b.de]}
  - {name: talks, weight: 0.5, source_tag: <bt>, dataset: x/y, source_column: eng, train_split: all}
"""


def test_a_recipe_lists_its_corpora_as_mappings(tmp_path):
    (tmp_path / "r.yaml").write_text(RECIPE)
    plans = plan_corpora(parse_arguments([str(tmp_path / "r.yaml")]).data)
    assert [(plan.name, plan.weight, plan.source_tag) for plan in plans] == [
        ("news", 2, None),
        ("talks", 0.5, "<bt>"),
    ]
    news, talks = (plan.arguments for plan in plans)
    assert (news.train_source, news.train_target) == (["a.en", "b.en"], ["a.de", "b.de"])
    assert (news.dataset, news.source_column, news.train_split) == (None, "en", "train")
    assert (talks.dataset, talks.source_column, talks.train_split) == ("x/y", "eng", "all")
    assert talks.train_source == []


def test_the_command_line_takes_a_mapping_as_json():
    corpora = [json.dumps({"name": name, "train_file": f"{name}.tsv"}) for name in "ab"]
    for some in (corpora, corpora[:1]):
        plans = plan_corpora(parse_arguments(["base", "--corpora", *some]).data)
        assert [plan.arguments.train_file for plan in plans] == [
            [f"{plan.name}.tsv"] for plan in plans
        ]
        assert len(plans) == len(some)


def test_training_text_beside_corpora_is_refused():
    corpora = [json.dumps({"name": "a", "dataset": "x"})]
    with pytest.raises(ValueError, match="corpora and train_file both name training text"):
        plan_corpora(DataArguments(corpora=corpora, train_file=["b.tsv"]))


def test_streamed_corpora_need_weights():
    corpora = [json.dumps({"name": name, "dataset": "x"}) for name in "ab"]
    with pytest.raises(ValueError, match="a, b without a weight; sizes are unknown"):
        plan_corpora(DataArguments(corpora=corpora, streaming=True))
