import re
import sys

import pytest

from vaswani_hf.pictures import attention_of, plot_attention, save_picture
from vaswani_hf.pictures.drawing import COLOURS


pytest.importorskip("matplotlib")

SOURCE, TARGET = "a bead fed cab", "decade bad a"


@pytest.fixture(scope="module")
def attention(translator):
    return attention_of(translator, SOURCE, TARGET)


def test_a_grid_has_the_weights_of_each_head_and_words_on_its_axes(attention):
    figure = plot_attention(attention, "cross")
    weights = attention.weights["cross"]
    pictures = [axes for axes in figure.axes if axes.images]
    assert len(pictures) == weights.shape[0] * weights.shape[1]
    for number, axes in enumerate(pictures):
        layer, head = divmod(number, weights.shape[1])
        assert axes.images[0].get_array().tolist() == weights[layer, head].tolist()
    first, last = pictures[0], pictures[-1]
    assert [tick.get_text() for tick in first.get_yticklabels()] == attention.queries["cross"]
    assert [tick.get_text() for tick in last.get_xticklabels()] == attention.keys["cross"]


def test_a_grid_of_one_layer_goes_on_below_and_every_column_has_its_words(translator):
    # Wide sentences: three heads stand in two rows, the last place of which is empty.
    long = attention_of(translator, "a bead fed cab " * 10, "decade bad a " * 6)
    axes = plot_attention(long, style="grid", layer=1).axes
    first, second, third, empty = axes[:4]
    assert [one.get_title() for one in axes[:3]] == [f"layer 1, head {head}" for head in range(3)]
    rows = [round(one.get_position().y0, 3) for one in (first, second, third)]
    assert rows[0] == rows[1] > rows[2] and not empty.axison
    below = [one.xaxis.get_tick_params()["labelbottom"] for one in (first, second, third)]
    left = [one.yaxis.get_tick_params()["labelleft"] for one in (first, second, third)]
    assert below == [False, True, True] and left == [True, False, True]


def test_layers_of_short_sentences_stand_beside_each_other(attention):
    first, second = plot_attention(attention, "encoder", layer=[0, 1], head=0).axes
    assert first.get_position().y0 == pytest.approx(second.get_position().y0)
    assert first.get_position().x1 <= second.get_position().x0


def lines_of(axes):
    """(x above, x below): opacity, of all lines."""
    return {
        (line[0][0], line[1][0]): colour[3]
        for collection in axes.collections
        if hasattr(collection, "get_segments")
        for line, colour in zip(collection.get_segments(), collection.get_colors(), strict=True)
    }


def test_a_line_is_as_opaque_as_its_weight(attention):
    (axes,) = plot_attention(attention, "encoder", layer=1, head=2).axes
    weights = attention.weights["encoder"][1, 2]
    expected = {
        (query, key): weights[query, key].item()
        for query in range(5)
        for key in range(5)
        if weights[query, key] >= 0.02
    }
    assert lines_of(axes) == pytest.approx(expected)


def test_a_word_shows_its_own_lines_alone(attention):
    (axes,) = plot_attention(attention, layer=0, head=1, word="bad").axes
    above = {first for first, _ in lines_of(axes)}
    # By hand: 4 queries over a width of 5 keys, of which "bad" is the third.
    assert above == {2 * 4 / 3}
    bold = [text.get_text() for text in axes.texts if text.get_fontweight() == "bold"]
    assert bold == ["bad"]


def test_heads_have_different_colours_and_a_legend(attention):
    figure = plot_attention(attention, layer=[0, 1])
    assert len(figure.axes) == 2
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {"head 0", "head 1", "head 2"}
    by_label = dict(zip(legend.get_texts(), legend.get_lines(), strict=True))
    (second,) = [line for text, line in by_label.items() if text.get_text() == "head 1"]
    assert second.get_color() == COLOURS[1]
    assert len({line.get_color() for line in legend.get_lines()}) == 3


def test_words_are_in_the_file(attention, tmp_path):
    save_picture(plot_attention(attention, theme="dark"), tmp_path / "a.svg")
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for word in (*SOURCE.split(), *TARGET.split(), "head 2", "layer 1"):
        assert f"<!-- {word} -->" in svg
    assert re.search(r'id="patch_1">\s*<path d="[^"]*" style="fill: #15181d"', svg)


def test_no_state_of_pyplot_is_touched(attention):
    before = "matplotlib.pyplot" in sys.modules
    plot_attention(attention)
    assert ("matplotlib.pyplot" in sys.modules) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "self"}, "kind must be one of encoder, decoder, cross"),
        ({"layer": 2}, "layer must be from 0 to 1 for this model, got layer=2"),
        ({"head": [0, 3]}, "head must be from 0 to 2 for this model, got head=3"),
        ({"head": []}, "head must be from 0 to 2"),
        ({"word": "zebra"}, "none of the words that look: <start> decade bad a"),
        ({"style": "rings"}, "style must be grid or lines"),
        ({"style": "grid", "word": "bad"}, "a grid shows every word"),
        ({"theme": "grey"}, 'theme must be "light" or "dark"'),
    ],
)
def test_what_is_not_there_is_refused(attention, options, message):
    with pytest.raises(ValueError, match=message):
        plot_attention(attention, **options)
