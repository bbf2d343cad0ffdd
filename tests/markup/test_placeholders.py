from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.markup.trees import TARGETS, alignments
from vaswani_hf.markup.inline import Kind
from vaswani_hf.markup.placeholders import placeholder_tokens, read_placeholders


# By the definitions of Python's format and % operator, printf, gettext, shells and Mustache.
KEPT = (
    "{name} {0} {} {price:.2f} {a.b[0]!r:>10} ${var} {{var}} %{count} {%_if_x_%} %s %d %5.2f %ld "
    "%(name)s %(n)03d %1$s %2$d %% {{ }} https://x.org/a?b=1&c=2 http://localhost:80 "
    "www.x.org/a.html a.b+c@mail.x.org mailto:a@b.c <br/> </b>"
).split()


@pytest.mark.parametrize("placeholder", KEPT)
def test_placeholders_are_hidden_from_the_model(placeholder):
    (marked,) = read_placeholders(f"See {placeholder} now").marked
    assert marked.text == "See now"
    assert [mark.opening for mark in marked.marks] == [placeholder]


@pytest.mark.parametrize(
    "text",
    [
        "50% sure",
        "5%discount",
        "the %age of",
        "a { b",
        "a } b",
        "a @ b",
        "3 < 4 > 2",
        "it's {not one}",
    ],
)
def test_other_text_is_text(text):
    assert [(one.text, one.marks) for one in read_placeholders(text).marked] == [(text, [])]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(see https://x.org/a).", ["https://x.org/a"]),
        ("&lt;https://x.org/?a=1&amp;b&gt;", ["https://x.org/?a=1&amp;b"]),
        ("File '%s' (%d) not 'found {n}'", ["'%s' (%d)", "{n}"]),
        ("'{a}'{b}' c", ["'{a}'{b}"]),
        ("100%% of %s%s", ["%%", "%s%s"]),
        ("%dpx, %x, %5.1e", ["%d", "%x, %5.1e"]),
        ("{a}. See ({b}: {c}/{d}) now", ["{a}", "({b}: {c}/{d})"]),
    ],
)
def test_a_placeholder_ends_where_it_should(text, found):
    tokens = placeholder_tokens(text, str)
    assert [token.raw for token in tokens if token.kind is Kind.POINT] == found
    assert "".join(token.raw for token in tokens) == text


def test_a_byte_order_mark_stays_in_front():
    document = read_placeholders("\ufeffSee {n} now")
    assert [marked.text for marked in document.marked] == ["See now"]
    assert document.pieces[0] == "\ufeff"


def test_a_line_without_words_stays_as_it_is():
    assert read_placeholders("  {count} %s – {x}\r\n").pieces == ["  {count} %s – {x}\r\n"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([*KEPT, "<b>", "word", "42", ",", "."]), max_size=10),
    st.sampled_from([" ", "  ", ""]),
    TARGETS,
    st.data(),
)
def test_each_placeholder_comes_out_once_whatever_the_alignment(parts, space, target, data):
    source = space.join(parts)
    document = read_placeholders(source)
    hidden = [one.opening for marked in document.marked for one in marked.marks]
    written = document.with_translations(
        (target, data.draw(alignments(marked.text, target))) for marked in document.marked
    )
    for marked in document.marked:
        around = marked.before + marked.after
        closing = "".join(mark.closing or "" for mark in marked.marks)
        kept = Counter("".join((*hidden, around, closing, target)))
        assert Counter(written.replace(" ", "")) == Counter(dict(kept - Counter(" " * kept[" "])))
    if not document.marked:
        assert written == source
