import itertools
import re
import xml.etree.ElementTree as ElementTree

import pytest

from vaswani_hf.parsing import Tree, tree_of_text
from vaswani_hf.pictures.trees import COLOURS, plot_tree, tree_svg


TREE = tree_of_text("(S (NP (DT a) (NN <b>&)) (VP (VB c)))")
SVG = "{http://www.w3.org/2000/svg}"


def texts(tree):
    """What is written in the picture, by its class: the text, x and y."""
    root = ElementTree.fromstring(tree_svg(tree))
    found = {}
    for text in root.iter(f"{SVG}text"):
        place = (text.text, float(text.get("x")), float(text.get("y")))
        found.setdefault(text.get("class"), []).append(place)
    return root, found


def test_every_label_and_word_is_written_once():
    root, found = texts(TREE)
    assert [text for text, _, _ in found["constituent"]] == ["S", "NP", "VP"]
    assert [text for text, _, _ in found["tag"]] == ["DT", "NN", "VB"]
    assert [text for text, _, _ in found["word"]] == ["a", "<b>&", "c"]
    assert root.find(f"{SVG}path").get("d").count("M") == 5  # a line to each node but the root


def test_words_stand_in_a_line_below_their_tags_and_constituents_above_what_they_hold():
    root, found = texts(TREE)
    assert len({y for _, _, y in found["word"]}) == 1
    assert [x for _, x, _ in found["word"]] == [x for _, x, _ in found["tag"]]
    assert [x for _, x, _ in found["word"]] == sorted({x for _, x, _ in found["word"]})
    (_, s, top), (_, np, below), (_, vp, _) = found["constituent"]
    assert top < below < found["tag"][0][2] < found["word"][0][2]
    first, second, third = (x for _, x, _ in found["word"])
    # Positions are written with one decimal.
    assert abs(np - (first + second) / 2) < 0.11 and vp == third
    assert abs(s - (np + vp) / 2) < 0.11
    assert all(0 < x < float(root.get("width")) for _, x, _ in found["word"])


def test_the_figure_has_what_the_document_has():
    pytest.importorskip("matplotlib")
    _, found = texts(TREE)
    (axes,) = plot_tree(TREE, theme="dark").axes
    drawn = sorted((one.get_text(), *one.get_position()) for one in axes.texts)
    written = sorted(itertools.chain(*found.values()))
    assert [text for text, *_ in drawn] == [text for text, *_ in written]
    for (_, *place), (_, *expected) in zip(drawn, written, strict=True):
        assert place == pytest.approx(expected, abs=0.051)  # the document has one decimal
    assert len(axes.lines) == 5
    assert axes.texts[0].get_color() == COLOURS["dark"]["constituent"]


def test_a_theme_changes_the_colours_alone():
    light, dark = tree_svg(TREE), tree_svg(TREE, theme="dark")
    assert light != dark and re.sub("#[0-9A-F]{6}", "", light) == re.sub("#[0-9A-F]{6}", "", dark)
    with pytest.raises(ValueError, match='theme must be "light" or "dark"'):
        tree_svg(TREE, theme="grey")


def test_a_word_alone_is_drawn():
    _, found = texts(Tree("NN", word="cat"))
    assert [text for text, _, _ in found["word"]] == ["cat"]
