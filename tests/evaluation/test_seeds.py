"""Differences between systems of several seeds, by hand and by sacrebleu."""

import pytest
import sacrebleu

from tests.evaluation.texts import made_up_texts
from vaswani_hf.evaluation import Metric, SeedScore, difference, resamples, seed_deviation


def test_the_deviation_of_seeds_is_pooled():
    # By hand: squares of 1 + 1, 0 and 0, over 1 + 1 + 0 degrees of freedom.
    assert seed_deviation([[1.0, 3.0], [2.0, 2.0], [5.0]]) == (1.0, 2)


def test_single_seeds_say_nothing_of_their_deviation():
    assert seed_deviation([[1.0], [5.0]]) == (0.0, 0)


def test_a_difference_has_both_errors():
    system = [SeedScore(10.0, [10.0, 12.0]), SeedScore(12.0, [12.0, 14.0])]
    found = difference(system, [SeedScore(8.0, [7.0, 10.0])], deviation=1.0)
    # By hand: means of 11 and of 11 and 13, so differences of 4 and 3 on the resamples, whose
    # variance is 1/2; that of the seeds is 1/2 + 1.
    assert found.value == 3.0
    assert found.error_of_sentences == pytest.approx(0.5**0.5)
    assert found.error_of_seeds == pytest.approx(1.5**0.5)
    assert found.ci == pytest.approx(1.96 * 2**0.5)


# Student's t of 97.5 % in tables: 12.706 for one degree, 2.228 for 10, 2.179 for 12.
@pytest.mark.parametrize(
    ("degrees", "width"), [(None, 1.96), (1, 12.706), (10, 2.228), (11, 2.228), (12, 2.179)]
)
def test_few_seeds_widen_the_interval(degrees, width):
    system = [SeedScore(10.0, [10.0, 12.0]), SeedScore(12.0, [12.0, 14.0])]
    found = difference(system, [SeedScore(8.0, [7.0, 10.0])], 1.0, degrees)
    assert found.ci == pytest.approx(((1.96 * 0.5**0.5) ** 2 + (width * 1.5**0.5) ** 2) ** 0.5)


@pytest.mark.parametrize(
    ("system", "baseline"),
    [
        ([], [SeedScore(1.0, [1.0, 2.0])]),
        ([SeedScore(1.0, [1.0, 2.0])], [SeedScore(1.0, [1.0, 2.0, 3.0])]),
        ([SeedScore(1.0, [1.0])], [SeedScore(1.0, [1.0])]),
    ],
)
def test_what_cannot_be_compared_is_refused(system, baseline):
    with pytest.raises(ValueError, match="a seed or more, each scored on the same resamples"):
        difference(system, baseline, 0.0)


def test_scores_of_resamples_are_sacrebleus():
    references, better, _ = made_up_texts()
    metric = Metric("bleu")
    statistics = metric.statistics(better, [references])
    scores = metric.rescore(statistics, resamples(len(references)))
    expected = sacrebleu.BLEU().corpus_score(better, [references], n_bootstrap=1000)
    assert sum(scores) / 1000 == pytest.approx(expected._mean)


def test_resamples_are_the_same_each_time():
    one, other = ([list(some) for some in resamples(7, 3)] for _ in range(2))
    assert one == other and len({tuple(some) for some in one}) == 3
