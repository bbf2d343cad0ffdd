import pytest

from vaswani_hf.text.pharaoh import format_links, parse_links


def test_sure_links_are_possible_too():
    links = parse_links(" 0-0 2-1  1p1 3?2 0-0")
    assert links.sure == {(0, 0), (2, 1)}
    assert links.possible == {(0, 0), (2, 1), (1, 1), (3, 2)}


def test_a_blank_line_has_no_links():
    assert parse_links("").possible == set()


def test_links_are_read_as_they_are_written():
    links = [(0, 0), (12, 3)]
    assert format_links(links) == "0-0 12-3"
    assert parse_links(format_links(links)).sure == set(links)


@pytest.mark.parametrize("text", ["1-x", "1", "1-2-3", "-1-2", "1:2", "¹-2"])
def test_what_is_no_link_is_refused(text):
    with pytest.raises(ValueError, match="is no link; one is written 1-2") as error:
        parse_links(f"0-0 {text}")
    assert repr(text) in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"), [("2-0", "word 2 of the source"), ("0-3", "word 3 of t")]
)
def test_a_word_that_is_not_there_is_refused(text, told):
    with pytest.raises(ValueError, match=f"{text} links {told}"):
        parse_links(text, (2, 3))
