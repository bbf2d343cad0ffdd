import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.noise import NEIGHBOURS, Noise, typo


TEXTS = st.text(max_size=40)
LETTER = re.compile(r"[^\W\d_]")
SHARES = st.floats(0, 1)


@given(TEXTS, TEXTS, st.integers(0, 99))
def test_no_noise_is_the_identity(source, target, seed):
    assert not Noise()
    assert Noise()(source, target, random.Random(seed)) == (source, target)


@given(TEXTS, TEXTS, SHARES, SHARES, st.integers(0, 99))
def test_small_letters_and_typos_leave_the_target_as_it_is(source, target, lower, typos, seed):
    noise = Noise(lower_case_noise=lower, typo_noise=typos)
    noisy, same = noise(source, target, random.Random(seed))
    assert same == target
    assert noise(source, target, random.Random(seed)) == (noisy, target)


@given(TEXTS, st.integers(0, 99))
def test_typos_change_nothing_but_letters(source, seed):
    noisy, _ = Noise(typo_noise=1)(source, "", random.Random(seed))
    assert re.sub(LETTER, "", noisy) == re.sub(LETTER, "", source)


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        ("upper_case_noise", ("EIN  HAUS, 3 M", "A HOUSE, 3 M")),
        ("title_case_noise", ("Ein  Haus, 3 M", "A House, 3 M")),
        ("lower_case_noise", ("ein  haus, 3 m", "a House, 3 m")),
    ],
)
def test_cases(noise, expected):
    assert Noise(**{noise: 1})("ein  Haus, 3 m", "a House, 3 m", random.Random(0)) == expected


def test_cases_come_as_often_as_their_shares_say():
    noise = Noise(upper_case_noise=0.2, title_case_noise=0.3, lower_case_noise=0.4)
    chooser, count = random.Random(0), 4000
    sources = Counter(noise("ab Cd", "", chooser)[0] for _ in range(count))
    shares = {"AB CD": 0.2, "Ab Cd": 0.3, "ab cd": 0.4, "ab Cd": 0.1}
    assert set(sources) == set(shares)
    for text, share in shares.items():
        # Five standard deviations of a binomial, at most.
        assert abs(sources[text] - share * count) < 5 * (count / 4) ** 0.5


def test_typos_of_a_word_are_of_four_kinds_equally_often():
    # By hand: swapped, one missing, one doubled, and the neighbours of f (d, g, r, t, c, v) and of
    # p (o and l).
    swapped, missing, doubled = {"pf"}, {"f", "p"}, {"ffp", "fpp"}
    near = {f"{key}p" for key in "dgrtcv"} | {f"f{key}" for key in "ol"}
    chooser, count = random.Random(0), 4000
    found = Counter(typo("fp", chooser) for _ in range(count))
    assert set(found) == swapped | missing | doubled | near
    for kind in (swapped, missing, doubled, near):
        share = sum(found[word] for word in kind)
        assert abs(share - count / 4) < 5 * (count * 3 / 16) ** 0.5
    assert {word for word in (typo("жщ", chooser) for _ in range(200))} == set(
        ("щж", "ж", "щ", "жжщ", "жщщ")
    )


def test_neighbours_are_mutual():
    assert NEIGHBOURS["a"] == "sqwz" and NEIGHBOURS["m"] == "njk"
    assert all(key in NEIGHBOURS[near] for key, keys in NEIGHBOURS.items() for near in keys)


def test_shares_above_1_are_refused():
    with pytest.raises(ValueError, match=r"sum to 1\.2; lower them to 1 together"):
        Noise(0.5, 0.4, 0.3)
