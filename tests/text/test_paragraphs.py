import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_hf.text.paragraphs import (
    WINDOW_CHARACTERS,
    SplitText,
    cut_long_segments,
    join_segments,
    language_code,
    split_sentences,
)


pytest.importorskip("sentencex")

# What separates, closes, joins and turns, in several scripts, and letters between which to do so.
MARKS = list(
    "\t\n\r\v\f\x1c\x1e\x85\u2028\u2029\x01\x7f \xa0\u3000\u200b\ufeff.!?,;:-—…\"'«»()[]"
    "。！？，、「」؟،؛।\u200d\u200f\u202e\u2067\u2069\u0301\U0001f468\U0001f1e9"
)
WORDS = "Hello Dr a Straße 你好 東京 مرحبا שלום नमस्ते ไทย 42 e\u0301".split()
ANY = st.one_of(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    st.sampled_from([*MARKS, "\r\n", "\n\n", " -- "]),
    st.sampled_from(WORDS),
)
TEXTS = st.lists(ANY, max_size=60).map("".join)
LANGUAGES = st.sampled_from(["en", "de", "ja", "zh-CN", "ar", "hi", "th", "xx"])


def num_characters(texts):
    """Stands for a tokenizer: a token a character, and the end."""
    return [len(text) + 1 for text in texts]


def cut(text, most):
    (result,), lengths = cut_long_segments([text], num_characters, most)
    return result, lengths


def in_place(text):
    """What is left of a text when its segments are taken for their own translations."""
    written = [text.separators[0]]
    for segment, separator in zip(text.segments, text.separators[1:], strict=True):
        written += [segment, separator]
    return "".join(written)


@given(TEXTS, LANGUAGES)
@settings(max_examples=200, deadline=None)
def test_a_split_text_rejoins_exactly_and_a_model_can_read_its_segments(text, language):
    split = split_sentences(text, language)
    assert in_place(split) == text
    assert join_segments(split, split.segments) == text
    for segment in split.segments:
        assert any(character.isalnum() for character in segment)
        assert segment == segment.strip()
        assert len(segment.splitlines()) == 1
        assert "\t" not in segment


@given(TEXTS, LANGUAGES, st.integers(2, 30))
@settings(max_examples=200, deadline=None)
def test_a_cut_text_rejoins_exactly_and_no_segment_is_above_the_limit(text, language, most):
    split, _ = cut(split_sentences(text, language), most)
    assert in_place(split) == text
    assert join_segments(split, split.segments) == text
    assert all(tokens <= most for tokens in num_characters(split.segments))


def test_line_breaks_blank_lines_and_tabs_are_separators():
    text = "\ufeffOne.  Two!\r\n\r\n \tThree\tfour?\u2028* * *\n"
    split = split_sentences(text, "en")
    assert split.segments == ["One.", "Two!", "Three", "four?"]
    assert split.separators == ["\ufeff", "  ", "\r\n\r\n \t", "\t", "\u2028* * *\n"]
    assert join_segments(split, ["1", "2", "3", "4"]) == "\ufeff1  2\r\n\r\n \t3\t4\u2028* * *\n"


def test_sentences_are_those_of_the_language():
    # The German date and abbreviations end no sentence; by English rules "Am 3." is one.
    text = "Das ist z.B. gut. Am 3. Mai kam Dr. Müller. Er blieb."
    expected = ["Das ist z.B. gut.", "Am 3. Mai kam Dr. Müller.", "Er blieb."]
    assert split_sentences(text, "de").segments == expected
    assert split_sentences(text, "de-AT").segments == expected


def test_a_line_of_any_length_is_split_into_its_sentences():
    # Two hundred times what sentencex is given at once; it alone takes minutes for this.
    sentences = [f"这是第{number}句话。" for number in range(WINDOW_CHARACTERS // 10)]
    assert split_sentences("".join(sentences * 4), "zh").segments == sentences * 4


def test_a_line_without_an_end_is_split_between_its_words():
    words = [f"word{number}" for number in range(3 * WINDOW_CHARACTERS // 5)]
    split = split_sentences(" ".join(words), "en")
    assert " ".join(split.segments).split() == words
    assert max(map(len, split.segments)) <= WINDOW_CHARACTERS


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        # The clause nearest to the middle, not the first.
        ("Yes, we saw it, and then we left.", 25, ["Yes, we saw it,", "and then we left."]),
        ("It was 1,000 or 1:30; he went.", 26, ["It was 1,000 or 1:30;", "he went."]),
        ("one -- two three four", 15, ["one --", "two three four"]),
        ("他说，我们走吧", 6, ["他说，", "我们走吧"]),
        ("قال لنا، نحن نذهب", 12, ["قال لنا،", "نحن نذهب"]),
        ("eins zwei drei vier", 11, ["eins zwei", "drei vier"]),
        ("abcdefgh", 5, ["abcd", "efgh"]),
        ("abce\u0301fgh", 5, ["abc", "e\u0301", "fgh"]),
    ],
)
def test_a_long_sentence_is_cut_at_clauses_then_words_then_graphemes(text, most, expected):
    split, lengths = cut(SplitText([text], ["", ""]), most)
    assert split.segments == expected
    assert lengths == [len(text) + 1]


def test_a_sentence_within_the_limit_is_not_cut():
    split = SplitText(["a, b, c"], ["", "\n"])
    assert cut(split, 8) == (split, [])


def test_a_text_of_three_limits_is_cut_into_three_pieces():
    text = " ".join(["abcdefg"] * 12)
    split, _ = cut(SplitText([text], ["", ""]), 33)
    assert split.segments == [" ".join(["abcdefg"] * 4)] * 3


@pytest.mark.parametrize(
    ("translations", "expected"),
    [
        (["Hello.", "World."], "Hello. World."),
        (["안녕.", "세계."], "안녕. 세계."),
        (["今日は。", "世界。"], "今日は。世界。"),
    ],
)
def test_sentences_that_touch_in_chinese_stand_apart_in_a_script_of_words(translations, expected):
    assert join_segments(split_sentences("你好。世界。", "zh"), translations) == expected


def test_pieces_of_one_word_are_joined_without_a_space():
    split, _ = cut(SplitText(["abcdef"], ["", ""]), 4)
    assert join_segments(split, ["ABC", "DEF"]) == "ABCDEF"


def test_a_line_break_in_a_translation_breaks_no_line():
    assert join_segments(SplitText(["a", "b"], ["", "\n", ""]), ["A\nA", "B"]) == "A A\nB"


@pytest.mark.parametrize("language", ["", "English", "e", "*"])
def test_what_is_no_code_of_a_language_is_refused_by_name(language):
    with pytest.raises(
        ValueError, match=f"language must be a code.*got language='{language}'"[:40]
    ):
        language_code(language)


def test_a_missing_sentencex_is_told_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(ImportError, match=r'sentencex is needed.*"vaswani-hf\[sentences\]"'):
        split_sentences("a", "en")
