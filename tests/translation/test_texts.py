import pytest

from vaswani_hf.translation.texts import Splitter, source_language


pytest.importorskip("sentencex")


def num_characters(sentences):
    """Stands for a tokenizer: a token a character, and the end."""
    return [len(sentence) + 1 for sentence in sentences]


def splitter(most=256):
    return Splitter("en", num_characters, most)


def shouted(sentences):
    return [sentence.upper() for sentence in sentences]


def test_every_text_comes_back_with_its_separators():
    texts = ["One. Two!\n", "", "\n", " * \t", "three\r\n\r\nfour", "one. two."]
    for chunk_sentences in (1, 2, 100):
        translations = splitter().translate(texts, shouted, chunk_sentences)
        assert list(translations) == [text.upper() for text in texts]


def test_texts_are_read_as_they_are_needed():
    read, seen = [], []

    def texts():
        for number in range(1000):
            read.append(number)
            yield f"a {number}."

    for _ in splitter().translate(texts(), shouted, 10):
        seen.append(len(read))
    assert seen[:25] == [10] * 10 + [20] * 10 + [30] * 5


def test_chunks_of_nothing_are_refused_by_name():
    with pytest.raises(ValueError, match="chunk_sentences=0"):
        list(splitter().translate(["a"], shouted, 0))


def test_sentences_are_translated_together():
    sizes = []

    def translate(sentences):
        sizes.append(len(sentences))
        return sentences

    texts = ["Yes one. Yes two. Yes three. Yes four.", "", "Five.", "Yes six. Yes seven."]
    assert list(splitter().translate(texts, translate, 4)) == texts
    assert sizes == [4, 3, 0]  # the blank text counts, too


def test_what_is_too_long_is_cut_and_told_once(caplog):
    received = []

    def translate(sentences):
        received.extend(sentences)
        return sentences

    texts = ["It is, as we know, late.", "It is.", "It is late, so we go home now."]
    assert list(splitter(20).translate(texts, translate, 1)) == texts
    assert received == [
        *("It is,", "as we know, late.", "It is."),
        *("It is late,", "so we go home now."),
    ]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(
        "2 sentences were cut at clauses, for being longer than 20 source tokens; the longest has "
        "31."
    )


def test_nothing_is_told_where_nothing_is_cut(caplog):
    assert list(splitter().translate(["It is late."], shouted, 1)) == ["IT IS LATE."]
    assert not caplog.records


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("language:\n- en\n- de", "en"),
        ("language: de", None),
        ("language:\n- en\n- de\n- fr", None),
        ("license: mit", None),
    ],
)
def test_the_card_says_the_language_of_the_source(tmp_path, metadata, expected):
    (tmp_path / "README.md").write_text(f"---\n{metadata}\n---\n# A model\n")
    assert source_language(tmp_path) == expected


def test_a_folder_without_a_card_names_no_language(tmp_path):
    assert source_language(tmp_path) is None
