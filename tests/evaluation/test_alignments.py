import pytest

from vaswani_hf.evaluation import AlignmentScore
from vaswani_hf.text.pharaoh import parse_links


def test_the_error_rate_is_och_and_neys():
    # By hand from section 6.2 of Och and Ney (2003): A = {0-0, 1-1, 2-2, 3-1} in all, S = {0-0,
    # 1-2, 0-1}, P = S and {1-1, 2-2}. |A and S| = 1, |A and P| = 3, |A| = 4, |S| = 3.
    score = AlignmentScore()
    score.add([(0, 0), (1, 1), (2, 2)], parse_links("0-0 1-2 1p1 2?2"))
    score.add([(3, 1)], parse_links("0-1"))
    assert score.precision == pytest.approx(3 / 4)
    assert score.recall == pytest.approx(1 / 3)
    assert score.error_rate == pytest.approx(1 - (1 + 3) / (4 + 3))
    assert str(score) == "AER 42.9 %, precision 75.0 %, recall 33.3 %, 4 links of 3 sure ones"


def test_the_links_of_the_reference_have_no_error():
    score = AlignmentScore()
    score.add([(0, 0), (1, 1)], parse_links("0-0 1p1"))
    assert (score.error_rate, score.precision, score.recall) == (0, 1, 1)


def test_nothing_at_all_is_no_error():
    assert AlignmentScore().error_rate == 0
