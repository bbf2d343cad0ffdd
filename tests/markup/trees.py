"""Random text with markup, and random alignments, for property tests."""

import re

from hypothesis import strategies as st

from vaswani_hf.markup.units import UnitAlignment, units_of


WORDS = st.sampled_from(["a", "dog", "runs", "42", "H2O", "ﬁ", "日本", "won't", "&", "<", "."])
SPACES = st.sampled_from(["", " ", "\n "])


@st.composite
def html(draw, depth=3, count=None):
    """A fragment without block elements, whose tags are balanced; each has its own `class`."""
    count = iter(range(1000)) if count is None else count
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["word", "word", "word", "element", "point", "placeholder"]))
        if kind == "word" or not depth:
            part = draw(WORDS).replace("&", "&amp;").replace("<", "&lt;")
        elif kind == "point":
            name = draw(st.sampled_from(["img", "br", "wbr"]))
            part = f"<{name} class=c{next(count)}>"
        elif kind == "placeholder":
            part = f"{{n{next(count)}}}"
        else:
            name, place = draw(st.sampled_from(["b", "i", "a", "span", "q"])), next(count)
            inner = draw(html(depth - 1, count))
            part = f'<{name} class=c{place} id="n{place}">{inner}</{name}>'
        parts.append(draw(SPACES) + part)
    return "".join(parts) + draw(SPACES)


TARGETS = st.lists(WORDS, max_size=8).map(" ".join)


@st.composite
def alignments(draw, source, target):
    """Any alignment of two texts, also with units that come from nowhere or are not known."""
    columns = len(units_of(source))
    row = st.dictionaries(st.integers(0, columns - 1), st.floats(0.05, 1), max_size=3)
    units = [unit for unit in units_of(target) if draw(st.integers(0, 9))]
    rows = [draw(row) if columns else {} for _ in units]
    return UnitAlignment(units_of(source), units, rows)


def balanced(markup, empty=("img", "br", "wbr")):
    """Whether every start tag has its end tag, and they are nested."""
    opened = []
    for end, name in re.findall(r"<(/?)(\w+)[^>]*>", markup):
        if name in empty:
            continue
        if not end:
            opened.append(name)
        elif not opened or opened.pop() != name:
            return False
    return not opened
