import math

import pytest

from vaswani_hf import Translator
from vaswani_hf.translation import DualScore, dual_scores


@pytest.mark.parametrize(
    ("entropies", "score"),
    [
        ((0.0, 0.0), 1.0),
        ((1.0, 1.0), 0.36787944),  # exp(-1)
        ((1.0, 3.0), 0.01831564),  # by hand: a difference of 2 and a mean of 2, exp(-4)
        ((3.0, 1.0), 0.01831564),
        ((1.0, math.inf), 0.0),
        ((math.inf, math.inf), 0.0),
    ],
)
def test_a_score_is_that_of_the_paper(entropies, score):
    assert DualScore.of(*entropies).score == pytest.approx(score)


def test_cross_entropies_are_per_token_of_the_side_that_is_written(copier):
    translator = Translator(*copier)
    pairs = [("a b c", "a b"), ("d", "d e f")]
    scores = dual_scores(translator, translator, pairs, 1)
    for (source, target), found in zip(pairs, scores, strict=True):
        there, back = translator.score(source, target), translator.score(target, source)
        assert found.forward == pytest.approx(-there.log_prob / len(there.ids), abs=1e-5)
        assert found.backward == pytest.approx(-back.log_prob / len(back.ids), abs=1e-5)


def test_no_model_is_asked_about_what_is_blank_or_too_long(copier):
    pairs = [("a", "a"), ("", "a"), ("a", " "), ("a a a a a", "a"), ("a", "a a a a a"), ("b", "b")]
    models = [Translator(*copier, max_source_tokens=4) for _ in range(2)]
    for chunk in (2, 10):
        scores = list(dual_scores(*models, pairs, chunk))
        assert [score.score > 0 for score in scores] == [True, *[False] * 4, True]
        assert scores[1] == (0.0, math.inf, math.inf)
