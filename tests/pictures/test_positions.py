import math

import pytest

from vaswani_hf.pictures.drawing import save_picture
from vaswani_hf.pictures.positions import plot_positions


pytest.importorskip("matplotlib")


def test_positions_are_drawn_as_section_3_5_has_them(tmp_path):
    figure = plot_positions(d_model=8, num_positions=5)
    sines, cosines = (axes.images[0].get_array() for axes in figure.axes[:2])
    for position in range(5):
        for i in range(4):
            angle = position / 10000 ** (2 * i / 8)
            assert sines[position, i] == pytest.approx(math.sin(angle), abs=1e-6)
            assert cosines[position, i] == pytest.approx(math.cos(angle), abs=1e-6)
    save_picture(figure, tmp_path / "positions.png")
    with pytest.raises(ValueError, match=r"d_model must be even.*d_model=7"):
        plot_positions(d_model=7)
