"""What the sources tell about translations."""

import pytest
import sacrebleu

from tests.evaluation.texts import made_up_texts
from vaswani_hf.evaluation import (
    Metric,
    count_copied,
    count_empty,
    count_tokens,
    scores_by_length,
)


def test_tokens_are_those_of_bleu():
    # 13a cuts off the full stop and the comma; the words of "none" are those between spaces.
    assert count_tokens(["Ja, gut.", "", "a b"]) == [4, 0, 2]
    assert count_tokens(["Ja, gut."], "none") == [2]
    assert count_tokens(["Ja, gut."], "char") == [7]


def test_each_sentence_is_scored_in_the_bin_of_its_length():
    references, hypotheses, _ = made_up_texts()
    lengths = [0, 10, 11, 20, 51, 1000] * 10
    metrics = [Metric("bleu"), Metric("chrf++")]
    bins = scores_by_length(
        lengths, {metric: metric.statistics(hypotheses, [references]) for metric in metrics}
    )
    limits = [(one.min_tokens, one.max_tokens, one.sentences) for one in bins]
    assert limits == [(0, 10, 20), (11, 20, 20), (51, None, 20)]
    places = [place for place, length in enumerate(lengths) if length in (11, 20)]
    some = [hypotheses[place] for place in places], [[references[place] for place in places]]
    assert bins[1].scores == {
        "bleu": pytest.approx(sacrebleu.corpus_bleu(*some).score),
        "chrf++": pytest.approx(sacrebleu.corpus_chrf(*some, word_order=2).score),
    }


def test_empty_outputs_and_copies_are_of_sources_that_have_text():
    sources = ["a", "b", " ", "", "c", "d "]
    hypotheses = ["", " ", "", "", "c", "d"]
    assert count_empty(hypotheses, sources) == 2
    assert count_copied(hypotheses, sources) == 2
