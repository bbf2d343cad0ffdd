import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.markup.trees import TARGETS, alignments
from vaswani_hf.markup.units import align_by_place
from vaswani_hf.markup.xliff import read_xliff


VERSION_1 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file original="a" source-language="en" target-language="de" datatype="plaintext"><body>
  <trans-unit id="1">
    <source>A <g id="1">red</g> car &amp; <x id="2"/>bus</source>
  </trans-unit>
  <trans-unit id="2"><source>to do</source><target state="new"/></trans-unit>
  <trans-unit id="3"><source>done</source><target>fertig</target></trans-unit>
  <trans-unit id="4" translate="no"><source>Brand</source></trans-unit>
  <group translate="no"><trans-unit id="5"><source>none</source></trans-unit></group>
  <trans-unit id="6"><source><![CDATA[if <b> & c]]> {n}</source>
    <alt-trans><source>old</source><target>alt</target></alt-trans></trans-unit>
  <trans-unit id="7"><source>One. Two.</source>
    <seg-source><mrk mtype="seg" mid="0">One.</mrk> <mrk mtype="seg" mid="1">Two.</mrk></seg-source>
  </trans-unit>
  <trans-unit id="8"><source>{n} %s</source></trans-unit>
  <trans-unit id="9">
<source>a <bpt id="1">&lt;b></bpt>c<ept id="1">&lt;/b></ept></source></trans-unit>
 </body></file>
</xliff>
"""
VERSION_2 = """<xliff version="2.0" srcLang="en" xmlns="urn:oasis:names:tc:xliff:document:2.0">
<file id="f"><unit id="u">
<segment>
<source>A <pc id="1">red <ph id="2"/></pc> <sc id="3"/>car<ec startRef="3"/></source></segment>
<ignorable><source> </source></ignorable>
<segment><source>Call <mrk id="m" translate="no">Brand &amp; Co</mrk> now</source>
<target></target></segment>
</unit></file></xliff>
"""


def texts(source):
    return [marked.text for marked in read_xliff(source).marked]


def upper(source):
    """The document with its texts in capitals."""
    document = read_xliff(source)
    return document.with_translations(
        (one.text.upper(), align_by_place(one.text, one.text)) for one in document.marked
    )


def test_units_of_version_1_get_their_targets_and_the_rest_stays_byte_for_byte():
    assert texts(VERSION_1) == ["A red car & bus", "to do", "if & c", "One.", "Two.", "a c"]
    expected = VERSION_1
    for before, after in [
        (
            "bus</source>",
            'bus</source>\n    <target>A <g id="1">RED</g> CAR &amp; <x id="2"/>BUS</target>',
        ),
        ('<target state="new"/>', "<target>TO DO</target>"),
        (
            "{n}</source>\n",
            "{n}</source><target>IF &lt;b&gt; &amp; C {n}</target>\n",
        ),
        (
            "</seg-source>",
            '</seg-source><target><mrk mtype="seg" mid="0">ONE.</mrk> '
            '<mrk mtype="seg" mid="1">TWO.</mrk></target>',
        ),
        ("{n} %s</source>", "{n} %s</source><target>{n} %s</target>"),
        (
            "/b></ept></source>",
            '/b></ept></source>\n<target>A <bpt id="1">&lt;b></bpt>C<ept id="1">&lt;/b></ept>'
            "</target>",
        ),
    ]:
        assert before in expected
        expected = expected.replace(before, after)
    assert upper(VERSION_1) == expected


@pytest.mark.parametrize(
    ("unit", "target", "is_kept"),
    [
        ("", "", False),
        ("", ' state="translated"', True),
        ("", ' state="needs-translation"', False),
        (' approved="yes"', "", True),
        (' approved="no"', "", False),
    ],
)
def test_a_target_like_its_source_is_kept_where_somebody_has_approved_it(unit, target, is_kept):
    source = (
        f'<xliff version="1.2"><file><body><trans-unit id="1"{unit}><source>Email</source>'
        f"<target{target}>Email</target></trans-unit></body></file></xliff>"
    )
    assert (upper(source) == source) == is_kept


def test_segments_of_version_2_get_their_targets():
    assert texts(VERSION_2) == ["A red car", "Call now"]
    targets = re.findall("<target>.*?</target>", upper(VERSION_2), re.DOTALL)
    assert targets == [
        '<target>A <pc id="1">RED <ph id="2"/></pc> <sc id="3"/>CAR<ec startRef="3"/></target>',
        '<target>CALL <mrk id="m" translate="no">Brand &amp; Co</mrk> NOW</target>',
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('<!DOCTYPE x [<!ENTITY a "b">]><xliff version="1.2">&a;</xliff>', "A DTD is not allowed"),
        ("<xliff>&a;</xliff>", "not well-formed XML: undefined entity"),
        ("<xliff><file></xliff>", "not well-formed XML: mismatched tag"),
        ("<html/>", "not XLIFF: its first element is <html>"),
        ('<xliff version="3.0"/>', "version=3.0"),
        ('<?xml version="1.0" encoding="latin1"?><xliff/>', "got encoding=latin1"),
        # Whose declaration would be wrong of a target with an umlaut.
        ('<?xml version="1.0" encoding="US-ASCII"?><xliff/>', "got encoding=US-ASCII"),
    ],
)
def test_what_is_no_xliff_is_refused(source, message):
    with pytest.raises(ValueError, match=message):
        read_xliff(source)


@st.composite
def inline(draw, depth=3, count=None):
    """Inline content of XLIFF 1.2, also with tags that are written as text, across the others."""
    count = iter(range(1000)) if count is None else count
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["word", "word", "g", "x", "bpt", "&lt;b&gt;", "&lt;/b&gt;"]))
        if kind == "word" or not depth:
            parts.append(draw(st.sampled_from(["dog ", "runs", " &amp; ", "42"])))
        elif kind == "g":
            parts.append(f'<g id="{next(count)}">{draw(inline(depth - 1, count))}</g>')
        elif kind == "x":
            parts.append(f'<x id="{next(count)}"/>')
        elif kind == "bpt":
            place = next(count)
            inner = draw(inline(depth - 1, count))
            parts.append(f'<bpt id="{place}">b</bpt>{inner}<ept id="{place}">/b</ept>')
        else:
            parts.append(kind)
    return "".join(parts)


@settings(max_examples=200, deadline=None)
@given(inline(), TARGETS, st.data())
def test_any_alignment_gives_xml_with_each_inline_element_once(content, target, data):
    head = '<xliff version="1.2"><file><body><trans-unit id="1">'
    text = f"{head}<source>{content}</source></trans-unit></body></file></xliff>"
    document = read_xliff(text)
    written = document.with_translations(
        (target, data.draw(alignments(marked.text, target))) for marked in document.marked
    )
    assert f"<source>{content}</source>" in written
    unit = ElementTree.fromstring(written).find(".//trans-unit")
    sides = [
        sorted((one.tag, one.get("id")) for one in side.iter() if one.get("id")) for side in unit
    ]
    assert sides[-1] == sides[0]
