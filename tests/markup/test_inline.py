import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.markup.trees import TARGETS, alignments, balanced, html
from vaswani_hf.markup.html import escape, read_html
from vaswani_hf.markup.units import UnitAlignment, units_of


def put_back(source, target, pairs):
    """The translation of a fragment, whose units belong together as in `0-0 1-2`."""
    document = read_html(source)
    (marked,) = document.marked
    rows = [{} for _ in units_of(target)]
    for pair in pairs.split():
        column, row = map(int, pair.split("-"))
        rows[row][column] = 1.0
    alignment = UnitAlignment(units_of(marked.text), units_of(target), rows)
    return document.with_translations([(target, alignment)])


# By hand, as a person would mark the words up.
@pytest.mark.parametrize(
    ("source", "target", "pairs", "expected"),
    [
        # Around the words that come from those that it was around.
        ("a <b>red</b> car", "une voiture rouge", "0-0 1-2 2-1", "une voiture <b>rouge</b>"),
        (
            "<i>the <b>red</b> car</i> stops",
            "stop la voiture rouge",
            "0-1 1-3 2-2 3-0",
            "stop <i>la voiture <b>rouge</b></i>",
        ),
        # In parts: twice what changes the look, once what does not.
        (
            "she <b id=x class=y>has eaten</b> an apple pie",
            "sie hat einen Apfel Kuchen gegessen",
            "0-0 1-1 2-5 3-2 4-3 5-4",
            "sie <b id=x class=y>hat</b> einen Apfel Kuchen <b class=y>gegessen</b>",
        ),
        (
            "she <a href=x>has eaten</a> an apple pie",
            "sie hat einen Apfel Kuchen gegessen",
            "0-0 1-1 2-5 3-2 4-3 5-4",
            "sie <a href=x>hat</a> einen Apfel Kuchen gegessen",
        ),
        (
            "she <a href=x>has eaten</a> it",
            "sie hat es gegessen",
            "0-0 1-1 2-3 3-2",
            "sie <a href=x>hat es gegessen</a>",
        ),
        # A word from nowhere has what both its neighbours have.
        ("<b>to go</b> now", "um zu gehen jetzt", "0-0 1-2 2-3", "<b>um zu gehen</b> jetzt"),
        ("<b>go</b> now", "geh du jetzt", "0-0 1-2", "<b>geh</b> du jetzt"),
        # What nothing comes from stays where it stood.
        ("the <a href=x>of</a> end", "das Ende", "0-0 2-1", "das<a href=x></a> Ende"),
        # Points beside the words that they touched.
        (
            "see <img>cats and dogs",
            "Hunde und Katzen sehen",
            "0-3 1-2 2-1 3-0",
            "Hunde und <img>Katzen sehen",
        ),
        ("cats<wbr> and dogs", "Hunde und Katzen", "0-2 1-1 2-0", "Hunde und Katzen<wbr>"),
        ("one<br>two", "eins zwei", "0-0 1-1", "eins<br>zwei"),
        ("one <br> two", "eins zwei", "0-0 1-1", "eins <br> zwei"),
        ("Dear {name}, hello", "Liebe, hallo", "0-0 1-1 2-2", "Liebe {name}, hallo"),
        ("use <code>ls</code> now", "nun benutze", "0-1 1-0", "nun benutze <code>ls</code>"),
        ("see <img>{n} cats", "siehe Katzen", "0-0 1-1", "siehe <img>{n} Katzen"),
        # Parts of a word that is the same in both.
        ("drink H<sub>2</sub>O", "trink H2O", "0-0 1-1", "trink H<sub>2</sub>O"),
        # Around all of the text, whatever the words are.
        ("<b><i>big</i> dog</b><br>", "Hund", "", "<b><i></i>Hund</b><br>"),
    ],
)
def test_markup_goes_where_its_words_went(source, target, pairs, expected):
    assert put_back(source, target, pairs) == expected


def tags(markup):
    return Counter(re.findall(r"<[^>]*>|\{n\d+\}", markup))


def plain(markup):
    return re.sub(r"\s|<[^>]*>|\{n\d+\}", "", markup)


@settings(max_examples=300, deadline=None)
@given(html(), TARGETS, st.data())
def test_any_alignment_gives_balanced_markup_and_loses_nothing(source, target, data):
    document = read_html(source)
    if not document.marked:
        assert "".join(document.pieces) == source
        return
    translations = []
    for marked in document.marked:
        alignment = data.draw(alignments(marked.text, target))
        translations.append((target, alignment))
    written = document.with_translations(translations)
    assert balanced(written)
    before, after = tags(source), tags(written)
    # Every one is there; only what changes the look is there again, and then without its id.
    for tag, count in before.items():
        assert after[tag] == count or (tag in ("</b>", "</i>", "</span>") and after[tag] > count)
    for tag in after.keys() - before.keys():
        assert re.fullmatch(r"<(b|i|span) class=c\d+>", tag)
        assert any(tag[:-1] + " " in one for one in before)
    expected = [plain(one if isinstance(one, str) else escape(target)) for one in document.pieces]
    assert plain(written) == "".join(expected)


@settings(max_examples=100, deadline=None)
@given(html())
def test_a_text_that_is_its_own_translation_keeps_its_tags(source):
    document = read_html(source)
    same = []
    for marked in document.marked:
        units = units_of(marked.text)
        rows = [{place: 1.0} for place in range(len(units))]
        same.append((marked.text, UnitAlignment(units, units, rows)))
    assert plain(document.with_translations(same)) == plain(source)
    assert tags(document.with_translations(same)) >= tags(source)
