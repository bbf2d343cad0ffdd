import torch

from tests import references
from vaswani_hf.conversion.positions import (
    halves_to_pairs,
    has_paper_positions,
    pairs_to_halves,
)


def test_halves_become_pairs_as_worked_out_by_hand():
    # Sines 0 and 1, then cosines 0 and 1, become sine 0, cosine 0, sine 1, cosine 1.
    assert halves_to_pairs(4).tolist() == [0, 2, 1, 3]
    assert halves_to_pairs(5).tolist() == [0, 3, 1, 4, 2]  # three sines, two cosines
    for d_model in (4, 5, 12):
        order = torch.arange(d_model)
        assert torch.equal(order[halves_to_pairs(d_model)][pairs_to_halves(d_model)], order)


def test_the_papers_sinusoids_are_recognized_up_to_rounding():
    table = torch.tensor(references.sinusoid_table(50, 8))
    assert has_paper_positions(table)
    assert has_paper_positions(table.float() + 4e-4)
    assert not has_paper_positions(table + 1e-2)
    assert not has_paper_positions(table[:, pairs_to_halves(8)])
