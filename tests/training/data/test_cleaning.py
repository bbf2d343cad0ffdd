import re
from types import SimpleNamespace

import numpy as np
import pytest
from datasets import Dataset

from training.data.cleaning import (
    COPY,
    DUPLICATE,
    EMPTY,
    KEPT,
    REASONS,
    UNDECODABLE,
    CleaningRules,
    check_text,
    count_reasons,
    report,
)
from training.data.lengths import side_lengths
from training.settings.fields import DataArguments
from vaswani_hf.hub.card import write_model_card


def encoded(*pairs):
    """Pairs whose tokens are their words and `</s>`."""
    columns = {"source": [pair[0] for pair in pairs], "target": [pair[1] for pair in pairs]}
    ids = [[[1] * (len((text or "").split()) + 1) for text in side] for side in columns.values()]
    return Dataset.from_dict({**columns, "input_ids": ids[0], "labels": ids[1]})


def names_of(pairs, segmented=False, **rules):
    keys = ("kept", *REASONS)
    rules = CleaningRules(**{"max_length": 10, **rules})
    by_length = rules.reasons_by_length(*side_lengths(pairs))
    reasons = check_text(pairs, rules, segmented).reasons(by_length)
    return [keys[reason].removeprefix("dropped_") for reason in reasons]


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


def test_of_pairs_alike_on_both_sides_each_counts_as_too_long_where_one_does():
    pairs = encoded(*[("a", "b " * 10)] * 2, *[("a", "b b b b")] * 2)
    names = ["too_long"] * 2 + ["length_ratio"] * 2
    assert names_of(pairs, drop_duplicates=True, max_length_ratio=3.0) == names


def test_words_cut_by_subword_nmt_are_compared_as_a_whole():
    pairs = encoded(("twen@@ ty", "twenty"), ("ei@@ n", "o@@ ne"), ("e@@ in", "one"))
    rules = {"drop_copies": True, "drop_duplicates": True}
    assert names_of(pairs, segmented=True, **rules) == ["copy", "kept", "duplicate"]
    assert names_of(pairs, segmented=False, **rules) == ["kept"] * 3


def test_before_lengths_are_known_every_other_reason_is():
    pairs = encoded(("a", "b " * 20), (None, "b"), ("a", " "), ("a", "a"), ("a", "b " * 20))
    rules = CleaningRules(max_length=10, drop_copies=True, drop_duplicates=True)
    reasons = check_text(pairs, rules).reasons()
    assert reasons.tolist() == [KEPT, UNDECODABLE, EMPTY, COPY, DUPLICATE]


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


def test_a_ratio_below_one_is_refused():
    with pytest.raises(ValueError, match=r"max_length_ratio=0\.5"):
        DataArguments(max_length_ratio=0.5)


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
