import math

import pytest
import torch

from vaswani_hf.translation.options import Sampling
from vaswani_hf.translation.sampling import SamplingNoise, gumbel_noise


def noise(seed=0, topk=0, temperature=1.0, sources=([3, 2],), count=1):
    return SamplingNoise(Sampling(topk, temperature, seed, True), sources, count)


def drawn(processor, logits, length=1):
    """The pieces that a greedy search takes."""
    rows = len(processor.keys)
    ids = torch.zeros(rows, length, dtype=torch.long)
    return processor(ids, logits.expand(rows, -1).clone()).argmax(dim=-1)


def shares(pieces, num_pieces):
    return torch.bincount(pieces, minlength=num_pieces) / len(pieces)


NUM_DRAWS = 40_000
LOGITS = torch.tensor([2.0, 0.0, 1.0, -1.0, 0.5])


@pytest.mark.parametrize(
    ("topk", "temperature"), [(0, 1.0), (0, 0.5), (0, 2.0), (3, 1.0), (3, 0.7), (9, 1.0)]
)
def test_pieces_are_drawn_by_their_probabilities(topk, temperature):
    kept = LOGITS.clone()
    if topk == 3:
        kept[[1, 3]] = -math.inf  # the two least probable ones
    expected = (kept / temperature).softmax(dim=-1)
    found = shares(
        drawn(
            noise(topk=topk, temperature=temperature, count=NUM_DRAWS, sources=[[3]] * NUM_DRAWS),
            LOGITS,
        ),
        5,
    )
    deviation = (expected * (1 - expected) / NUM_DRAWS).sqrt()
    # Of 6 * 5 shares, one beyond 4.5 deviations is expected once in 5,000 seeds; this one is fixed.
    assert ((found - expected).abs() <= 4.5 * deviation).all()


def test_steps_and_sources_are_drawn_apart():
    # The steps of one row, and the rows of one step, each by the probabilities.
    processor = noise()
    steps = torch.cat([drawn(processor, LOGITS, length) for length in range(1, 4001)])
    sources = drawn(noise(sources=[[number, 2] for number in range(4000)]), LOGITS)
    expected = LOGITS.softmax(dim=-1)
    deviation = (expected * (1 - expected) / 4000).sqrt()
    for pieces in (steps, sources):
        assert ((shares(pieces, 5) - expected).abs() <= 4.5 * deviation).all()
    # Two steps that follow each other agree as often as independent ones.
    agreeing = (steps[1:] == steps[:-1]).float().mean()
    assert agreeing == pytest.approx(float((expected**2).sum()), abs=0.04)


def test_the_noise_is_gumbels():
    keys = torch.arange(200, dtype=torch.int32).view(100, 2)
    values = gumbel_noise(keys, torch.arange(1000, dtype=torch.int32)).flatten().double()
    # Mean Euler's constant, variance pi^2 / 6; of 100,000 the mean deviates by 0.004.
    assert float(values.mean()) == pytest.approx(0.57722, abs=0.02)
    assert float(values.var()) == pytest.approx(math.pi**2 / 6, abs=0.04)
    for x in (-1.0, 0.0, 1.0, 3.0):  # the distribution function exp(-exp(-x))
        share = float((values <= x).double().mean())
        assert share == pytest.approx(math.exp(-math.exp(-x)), abs=0.007)


def test_a_row_is_drawn_alike_whatever_the_others():
    sources = [[5, 2], [7, 8, 2], [5, 2]]
    together = drawn(noise(seed=4, sources=sources), LOGITS)
    alone = [drawn(noise(seed=4, sources=[source]), LOGITS)[0] for source in sources]
    assert together.tolist() == [int(piece) for piece in alone]
    several = noise(seed=4, sources=[[7, 8, 2]] * 50, count=50)
    pieces = drawn(several, LOGITS, 3)
    several.keep_rows(torch.tensor([3, 41]))
    assert drawn(several, LOGITS, 3).tolist() == pieces[[3, 41]].tolist()


def test_seeds_samples_and_pieces_differ():
    assert drawn(noise(seed=1, sources=[[3]] * 99, count=99), LOGITS).unique().numel() == 5
    both = [drawn(noise(seed=seed, sources=[[3]] * 99, count=99), LOGITS) for seed in (1, 2)]
    assert not both[0].equal(both[1])
    # Which pieces are drawn among changes no noise: the best of few is the best of all, if there.
    of_all = drawn(noise(sources=[[3]] * 99, count=99), LOGITS)
    of_few = drawn(noise(topk=3, sources=[[3]] * 99, count=99), LOGITS)
    is_among = torch.isin(of_all, torch.tensor([0, 2, 4]))
    assert of_few[is_among].equal(of_all[is_among])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((None, 0.5, None), "temperature is for sampling; give sampling_topk too"),
        ((None, None, 3), "seed is for sampling; give sampling_topk too"),
        ((-1, None, None), "sampling_topk must be at least 0, got sampling_topk=-1"),
        ((0, 0.0, None), "temperature must be a number above 0, got temperature=0.0"),
        ((0, math.nan, None), "temperature must be a number above 0, got temperature=nan"),
        ((0, math.inf, None), "temperature must be a number above 0, got temperature=inf"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        Sampling.make(*options)


def test_without_a_seed_each_call_has_another():
    assert Sampling.make(None, None, None) is None
    assert Sampling.make(0, None, None).seed != Sampling.make(0, None, None).seed
