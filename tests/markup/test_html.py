import html
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vaswani_hf.markup.html import _TOKEN, read_html
from vaswani_hf.markup.units import align_by_place


def texts(source):
    return [marked.text for marked in read_html(source).marked]


def itself(source):
    """A document in which each text is its own translation."""
    document = read_html(source)
    same = [(one.text, align_by_place(one.text, one.text)) for one in document.marked]
    return document.with_translations(same)


PAGE = """<!DOCTYPE html>
<html lang="en"><head><title>A &amp; B</title>
<style>p > a { color: red }</style><script>if (a < b && "</p>") go()</script></head>
<body class='x>y'>
<!-- a <b>comment</b> -->
<h1>Head <small>line</small></h1>
\t<p>One <a href="?a=1&b=2">link</a>.
Two lines.</p>
<ul><li>First<li>Second</ul>
<table><tr><td>Cell</td><th>42</th></tr></table>
<pre>  keep   this </pre><p translate="no">nor <i>this</i></p>
<p>Not <span class="x notranslate">Brand <span>Name</span></span>, but this &copy;&nbsp;2017</p>
first line<br><br>second line
</body></html>
"""


def test_blocks_are_translated_one_by_one():
    assert texts(PAGE) == [
        "A & B",
        "Head line",
        "One link. Two lines.",
        "First",
        "Second",
        "Cell",
        "42",
        "Not, but this ©\xa02017",
        "first line",
        "second line",
    ]


def test_what_is_not_translated_stays_byte_for_byte():
    expected = PAGE.replace(".\nTwo", ". Two").replace("&copy;", "©")
    assert itself(PAGE) == expected


@pytest.mark.parametrize(
    "broken",
    [
        "<p>a <b>c</p><p>d</b> e</p>",
        "a <b>c <i>d</b> e</i> f",
        "a </b> c",
        "a <b c",
        "a <a href='x>c</a> d",
        "a <!-- c",
        "a </ c> d <? e ?> f <![CDATA[ g ]]> h",
        "a <script> b < c",
        "a <code> b",
        "<td>a<td>b</table></div>",
        "a < b > c <3 d",
        'a <b =">" <i <u c',
    ],
)
def test_broken_html_loses_nothing(broken):
    assert html.unescape(itself(broken)).split() == html.unescape(broken).split()


def test_a_tag_whose_quotes_do_not_end_is_looked_for_once(monkeypatch):
    tried = []

    class Counted:
        def match(self, text, start):
            tried.append(start)
            return _TOKEN.match(text, start)

    monkeypatch.setattr("vaswani_hf.markup.html._TOKEN", Counted())
    source = "word " + "<a " * 50 + '=">"'
    assert [marked.text for marked in read_html(source).marked] == ["word"]
    assert tried == [5]  # else a request of 100 kB would take minutes


PARTS = st.sampled_from(
    "<b> </b> <p> </p> <br> <i class=x> </i> <code> </code> <script> </script> <!-- --> < > & &lt; "
    "&amp &nbsp; ' \" = a word {x} <a\thref='x'> </a> <img/> <pre> </pre> <x-y> 日 . \n".split(" ")
)


@settings(max_examples=200, deadline=None)
@given(st.lists(PARTS, max_size=25).map(" ".join) | st.lists(PARTS, max_size=25).map("".join))
@example("<b>a<i>b</b>c</i>")
def test_nothing_is_lost_of_any_text(source):
    def characters(text):
        return Counter("".join(html.unescape(text).split()))

    assert characters(itself(source)) == characters(source)
