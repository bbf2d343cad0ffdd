import math

import pytest

from vaswani_hf.pictures.schedule import plot_learning_rate


pytest.importorskip("matplotlib")


def test_the_learning_rate_peaks_at_the_warm_up_and_halves_in_four_times_as_many_updates():
    (axes,) = plot_learning_rate(512, 1024, num_updates=16_000).axes
    base, big = (dict(zip(*line.get_data(), strict=True)) for line in axes.lines)
    # By hand, from equation 3: (512 * 4000)^-0.5.
    assert max(base, key=base.get) == 4000
    assert base[4000] == pytest.approx(1 / math.sqrt(2_048_000))
    assert base[16_000] == pytest.approx(base[4000] / 2)
    assert base[1] == pytest.approx(base[4000] / 4000)
    assert big[4000] == pytest.approx(base[4000] / math.sqrt(2))


def test_a_warm_up_of_no_updates_is_refused():
    with pytest.raises(ValueError, match=r"warmup_steps=\[4000, 0\]"):
        plot_learning_rate(512, warmup_steps=(4000, 0))


def test_the_papers_curve_is_in_front_of_the_others():
    (axes,) = plot_learning_rate(256, 512, warmup_steps=(4000, 8000), theme="dark").axes
    thick = [line for line in axes.lines if line.get_linewidth() > 2]
    (paper,) = thick
    assert paper.get_label() == "d_model 512, warm-up 4,000 (the paper's base)"
    assert all(paper.get_zorder() > line.get_zorder() for line in axes.lines if line != paper)
