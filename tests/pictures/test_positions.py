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


def test_waves_are_columns_of_the_table():
    (axes,) = plot_positions(d_model=8, num_positions=40, style="waves").axes
    legend = [int(text.get_text()) for text in axes.get_legend().get_texts()]
    assert legend[0] == 0 and len(legend) == len(axes.lines) > 1
    for dimension, line in zip(legend, axes.lines, strict=True):
        for position, value in zip(*line.get_data(), strict=True):
            angle = position / 10000 ** (dimension / 8)
            assert value == pytest.approx(math.sin(angle), abs=1e-6)


def test_dot_products_depend_on_the_distance_alone():
    figure = plot_positions(d_model=6, num_positions=9, style="products", theme="dark")
    pairs, by_distance = figure.axes[0].images[0].get_array(), figure.axes[1]
    for line in by_distance.lines:
        for distance, product in zip(*line.get_data(), strict=True):
            # By hand: sin a sin b + cos a cos b = cos(a - b), for each of the three wave lengths.
            expected = sum(math.cos(distance / 10000 ** (2 * i / 6)) for i in range(3)) / 3
            assert product == pytest.approx(expected, abs=1e-5)
    assert len(by_distance.lines) == 3
    assert pairs[2, 7] == pytest.approx(pairs[8, 3], abs=1e-6)


def test_all_three_stand_below_each_other():
    figure = plot_positions(d_model=8, num_positions=16, style=None)
    assert len(figure.subfigs) == 3
    with pytest.raises(ValueError, match="style must be one of mesh, waves, products"):
        plot_positions(style="rings")
    with pytest.raises(ValueError, match="num_positions=1"):
        plot_positions(num_positions=1)
