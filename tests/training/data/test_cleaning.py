import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from datasets import Dataset

from training.data.cleaning import (
    KEPT,
    REASONS,
    CleaningRules,
    clean_and_mix,
    count_reasons,
    describe,
    reasons_of,
    report,
)
from training.data.corpora import plan_corpora
from training.data.corpus import Corpus, load_corpus
from training.data.encoding import encode_pairs, side_lengths
from training.settings.fields import DataArguments
from training.settings.reading import parse_arguments
from vaswani_hf import train_tokenizer
from vaswani_hf.hub.card import write_model_card


def encoded(*pairs):
    """Pairs whose tokens are their words and `</s>`."""
    columns = {"source": [pair[0] for pair in pairs], "target": [pair[1] for pair in pairs]}
    ids = [[[1] * (len((text or "").split()) + 1) for text in side] for side in columns.values()]
    return Dataset.from_dict({**columns, "input_ids": ids[0], "labels": ids[1]})


def names_of(pairs, **rules):
    keys = ("kept", *REASONS)
    rules = CleaningRules(**{"max_length": 10, **rules})
    return [keys[reason].removeprefix("dropped_") for reason in reasons_of(pairs, rules)]


def test_a_pair_counts_under_the_first_reason_that_holds():
    pairs = encoded(
        *(("a", "b"), (None, "b"), ("a", None), ("", "b"), ("a", " \t"), ("a b", "a b")),
        *(("a", "b " * 10), ("a", "b b b b"), (None, ""), ("a", "b"), ("c " * 11, "c " * 11)),
    )
    rules = {"max_length_ratio": 3.0, "drop_copies": True, "drop_duplicates": True}
    assert names_of(pairs, **rules) == [
        *("kept", "undecodable", "undecodable", "empty", "empty", "copy"),
        *("too_long", "length_ratio", "undecodable", "duplicate", "copy"),
    ]


def test_what_is_not_asked_for_is_not_dropped():
    pairs = encoded(("a b", "a b"), ("a", "b b b b b b"), ("a b", "a b"))
    assert names_of(pairs) == ["kept"] * 3


def test_the_longest_side_may_have_max_length_tokens_with_its_end():
    pairs = encoded(("a " * 9, "b"), ("a " * 10, "b"), ("a", "b " * 9), ("a", "b " * 10))
    assert names_of(pairs) == ["kept", "too_long", "kept", "too_long"]


@pytest.mark.parametrize("turned", [False, True])
def test_the_ratio_is_of_tokens_without_the_end_either_way_round(turned):
    # 2 : 3 is 1.5 exactly; with </s> counted, 1 : 2 would be 2 : 3 too.
    pairs = [("a a", "b b b"), ("a", "b b"), ("a a a a", "b b b b b b b")]
    pairs = encoded(*((target, source) if turned else (source, target) for source, target in pairs))
    assert names_of(pairs, max_length_ratio=1.5) == ["kept", "length_ratio", "length_ratio"]


def test_of_pairs_alike_on_both_sides_the_first_usable_one_stays():
    pairs = encoded(("a", "b"), ("a", "c"), ("a", "b"), ("ab", ""), ("a", "b"), ("c", "b"))
    names = ["kept", "kept", "duplicate", "empty", "duplicate", "kept"]
    assert names_of(pairs, drop_duplicates=True) == names


def test_a_different_border_between_the_sides_makes_a_different_pair():
    pairs = encoded(("1 a", "b"), ("1", "a b"), ("a", "b c"), ("a b", "c"), ("ab", "c"))
    assert names_of(pairs, drop_duplicates=True) == ["kept"] * 5


def test_duplicates_are_the_same_as_a_set_of_the_pairs_would_find():
    chooser = np.random.default_rng(5)
    pairs = [tuple("abcdefgh"[i] for i in chooser.integers(0, 8, 2)) for _ in range(300)]
    seen, expected = set(), []
    for pair in pairs:
        expected.append("duplicate" if pair in seen else "kept")
        seen.add(pair)
    assert names_of(encoded(*pairs), drop_duplicates=True) == expected


def test_every_pair_read_is_kept_or_dropped_for_a_reason():
    counts = count_reasons(np.array([0, 1, 1, 3, 0, 6, 0], dtype=np.int8))
    assert counts.pop("pairs_read") == sum(counts.values()) == 7
    assert (counts["pairs_kept"], counts["dropped_undecodable"]) == (3, 2)
    assert counts["dropped_copy"] == counts["dropped_duplicate"] == 1


def corpus_of(**arguments):
    data = DataArguments(**arguments)
    corpus = load_corpus(data)
    tokenizer = train_tokenizer(
        corpus.sentences(), 300, are_files=False, show_progress=False, split_digits=True
    )
    return corpus, encode_pairs(corpus.splits["train"], tokenizer), CleaningRules.of(data)


def test_unusable_pairs_are_dropped_and_counted(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("one\teins\n \tzwei\nthree\t\n" + "a " * 30 + "\tb\nc\td\n")
    corpus, pairs, rules = corpus_of(train_file=[str(path)], max_length=20)
    kept = clean_and_mix(corpus, pairs, rules, seed=0)
    assert list(kept["source"]) == ["one", "c"]
    counts = {name: count for name, count in corpus.counts.items() if count}
    assert counts.pop("percent_of_read") == {
        **dict.fromkeys(REASONS, 0.0),
        **{"pairs_kept": 40.0, "dropped_empty": 40.0, "dropped_too_long": 20.0},
    }
    assert counts == {
        **{"pairs_read": 5, "pairs_kept": 2, "dropped_empty": 2, "dropped_too_long": 1}
    }
    assert describe(corpus.counts) == (
        "5 pairs read, 2 (40.00 %) kept, dropped 2 (40.00 %) with an empty side, "
        "1 (20.00 %) too long"
    )


def test_lines_that_are_not_utf8_are_dropped_and_counted_where_that_is_asked(tmp_path):
    (tmp_path / "a.en").write_bytes(b"one\nt\xffo\nthree\nfour\n")
    (tmp_path / "a.de").write_bytes(b"eins\nzwei\n\xfe\nvier\n")
    corpus, pairs, rules = corpus_of(
        train_source=[str(tmp_path / "a.en")],
        train_target=[str(tmp_path / "a.de")],
        drop_undecodable=True,
    )
    assert list(clean_and_mix(corpus, pairs, rules, 0)["source"]) == ["one", "four"]
    assert corpus.counts["dropped_undecodable"] == 2


def test_a_test_set_loses_no_line_to_drop_undecodable(tmp_path):
    (tmp_path / "a.tsv").write_text("one\teins\n")
    (tmp_path / "b.tsv").write_bytes(b"t\xffo\tzwei\n")
    data = {"train_file": [str(tmp_path / "a.tsv")], "test_file": [str(tmp_path / "b.tsv")]}
    with pytest.raises(ValueError, match=r"b\.tsv, line 1 is not UTF-8"):
        load_corpus(DataArguments(**data, drop_undecodable=True))


def test_text_without_a_usable_pair_is_an_error_that_says_why(tmp_path):
    (tmp_path / "a.tsv").write_text("one\t\ntwo two\tzwei\n")
    corpus, pairs, rules = corpus_of(train_file=[str(tmp_path / "a.tsv")], max_length=2)
    message = "No training pair is usable: 2 pairs read, .*empty side, .*too long.*max_length=2 "
    with pytest.raises(ValueError, match=message):
        clean_and_mix(corpus, pairs, rules, 0)


def test_a_ratio_below_one_is_refused():
    with pytest.raises(ValueError, match=r"max_length_ratio=0\.5"):
        DataArguments(max_length_ratio=0.5)


# Several corpora


def two_corpora(tmp_path, first=40, second=10, weights=(1, 1)):
    corpora = []
    for name, count, weight in zip("pq", (first, second), weights, strict=True):
        lines = [f"{name}{number}\t{name}{number} x\n" for number in range(count)]
        (tmp_path / f"{name}.tsv").write_text("".join([*lines, "\tempty\n"]))
        of_one = {"name": name, "train_file": str(tmp_path / f"{name}.tsv")}
        corpora.append(json.dumps(of_one | ({} if weight is None else {"weight": weight})))
    return corpora


def test_corpora_without_weights_give_every_pair_once(tmp_path):
    corpus, pairs, rules = corpus_of(corpora=two_corpora(tmp_path, weights=(None, None)))
    mixed = clean_and_mix(corpus, pairs, rules, 0)
    assert sorted(mixed["source"]) == sorted(
        [*(f"p{number}" for number in range(40)), *(f"q{number}" for number in range(10))]
    )


def test_weights_are_shares_of_the_pairs_and_every_pair_occurs(tmp_path):
    corpora = two_corpora(tmp_path, 4000, 100, weights=(3, 1))
    corpus, pairs, rules = corpus_of(corpora=corpora)
    mixed = clean_and_mix(corpus, pairs, rules, seed=0)
    sources = list(mixed["source"])
    assert set(sources) == {source for source in pairs["source"] if source}
    # All of p are in, and three pairs in four are of p: 5,333, give or take 4 deviations.
    assert abs(len(sources) - 4000 * 4 / 3) < 4 * (4000 * 4 / 3 * 3 / 16) ** 0.5 * 4 / 3
    share = sum(source.startswith("p") for source in sources) / len(sources)
    assert share == pytest.approx(0.75, abs=0.025)  # 4 deviations of 5,333 tosses
    assert corpus.counts["pairs_per_epoch"] == len(sources)


def test_each_corpus_is_counted_on_its_own(tmp_path):
    corpus, pairs, rules = corpus_of(corpora=two_corpora(tmp_path, weights=(1, 2)))
    clean_and_mix(corpus, pairs, rules, 0)
    by_name = corpus.counts["corpora"]
    assert [by_name[name]["weight"] for name in "pq"] == [1, 2]
    assert [by_name[name]["pairs_read"] for name in "pq"] == [41, 11]
    assert [by_name[name]["pairs_kept"] for name in "pq"] == [40, 10]
    assert corpus.counts["dropped_empty"] == 2


def test_a_duplicate_is_found_across_corpora(tmp_path):
    corpora = two_corpora(tmp_path, weights=(None, None))
    (tmp_path / "q.tsv").write_text("p3\tp3 x\nnew\tneu\n")
    corpus, pairs, rules = corpus_of(corpora=corpora, drop_duplicates=True)
    clean_and_mix(corpus, pairs, rules, 0)
    assert corpus.counts["corpora"]["q"]["dropped_duplicate"] == 1
    assert corpus.counts["corpora"]["p"]["dropped_duplicate"] == 0


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
  - {name: talks, weight: 0.5, dataset: x/y, source_column: eng, train_split: all}
"""


def test_a_recipe_lists_its_corpora_as_mappings(tmp_path):
    (tmp_path / "r.yaml").write_text(RECIPE)
    plans = plan_corpora(parse_arguments([str(tmp_path / "r.yaml")]).data)
    assert [(plan.name, plan.weight) for plan in plans] == [("news", 2), ("talks", 0.5)]
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


# What is written


def test_the_card_says_what_was_dropped_with_percent(tmp_path):
    plans = [SimpleNamespace(name="a", weight=2), SimpleNamespace(name="b", weight=None)]
    counts = count_reasons(np.array([KEPT, 1, 2, 5, 5, KEPT, KEPT, KEPT], dtype=np.int8))
    results = {
        **{"parameters": 1, "recipe": "r", "averaged_checkpoints": [], "commit": None},
        "data": report(plans, {"a": counts, "b": counts}),
        "training": {"updates": 1, "seconds": 1.0, "target_tokens_per_second": 1.0},
        "hardware": {"processes": 1, "gpus": [], "cpu_cores": 2},
    }
    write_model_card(tmp_path, results)
    card = (tmp_path / "README.md").read_text()
    assert (
        "- Pairs read 16, kept 8 (50.00 %); dropped with an empty side 2 (12.50 %), too long 0 "
        "(0.00 %), not UTF-8 2 (12.50 %), of too unequal lengths 4 (25.00 %).\n"
        "- Corpus a: weight 2, pairs read 8, kept 4.\n- Corpus b: pairs read 8, kept 4.\n- 1 update"
    ) in card
    assert not re.search(r"target that is its source|seen before", card)


def test_side_lengths_follow_a_selection():
    pairs = encoded(("a", "b b"), ("a a a", ""), ("", "b b b b")).select([2, 0])
    sources, targets = side_lengths(pairs)
    assert sources.tolist() == [1, 2]
    assert targets.tolist() == [5, 3]


def test_side_lengths_of_no_pairs_are_none():
    sources, targets = side_lengths(encoded(("a", "b")).select([]))
    assert len(sources) == len(targets) == 0


def test_a_vocabulary_can_be_learned_from_a_sample_spread_over_the_text():
    texts = [str(number) for number in range(100)]
    pairs = Dataset.from_dict({"source": texts, "target": texts})
    sample = list(Corpus({"train": pairs}, sample_pairs=10).sentences())
    assert sample == [str(number) for number in range(0, 100, 10)] * 2
