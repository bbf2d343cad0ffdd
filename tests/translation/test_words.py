import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from vaswani_hf.conversion.fairseq.codes import Codes
from vaswani_hf.conversion.fairseq.tokenizer import make_tokenizer
from vaswani_hf.tokenization_vaswani import tokenizer_of_segmented_text, train_tokenizer
from vaswani_hf.translation.words import segment, word_spans


CORPUS = ["the cat sat on the mat in 1234 </s> <unk> ▁ naïve café שלום"] * 5
TOKENIZERS = {
    split: train_tokenizer(CORPUS, 330, are_files=False, show_progress=False, split_digits=split)
    for split in (False, True)
}
SEGMENTED = tokenizer_of_segmented_text(["ein@@ und zwan@@ zig </s> \\</s> ,"], are_files=False)
SPACES = " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2003\u2028\u202f\u205f\u3000\u200b\ufeff"
ODD = [
    *("</s>", "<unk>", "<pad>", "<0x41>", "▁", "▁▁", "\\</s>", "@@", "ein@@", "und", "the", "cat"),
    *(
        "👩‍👩‍👧",
        "🇩🇪",
        "e\u0301",
        "\u0301",
        "שלום",
        "مرحبا\u200f",
        "日本語",
        "2024",
        "½",
        "\x00",
        "ﬁ",
        "İ",
    ),
]
texts = st.lists(
    st.one_of(st.text(max_size=5), st.sampled_from(ODD), st.sampled_from(SPACES)), max_size=12
).map("".join)


def spelled(pieces):
    """What pieces of `train_tokenizer` say, by hand: each is characters, or one byte."""
    return b"".join(
        bytes([int(piece[3:5], 16)]) if piece.startswith("<0x") else piece.encode()
        for piece in pieces
    )


@settings(max_examples=200, deadline=None)
@given(text=texts, split_digits=st.booleans())
@example(text="", split_digits=True)
@example(text=" ", split_digits=True)
@example(text="▁ 12 </s>\xa0日本語", split_digits=True)
def test_spans_lead_from_pieces_to_characters_and_words_and_back(text, split_digits):
    tokenizer = TOKENIZERS[split_digits]
    found = segment(tokenizer, tokenizer(text)["input_ids"], text)
    *ordinary, last = found.spans
    assert last is None and found.pieces[-1] == "</s>"
    # The spans follow each other and leave out no character.
    groups = {}
    for piece, span in zip(found.pieces, ordinary, strict=False):
        groups.setdefault(span, []).append(piece)
    assert "".join(text[slice(*span)] for span in groups) == text
    # What the pieces of a span spell is what stands there; the first mark is not in the text.
    for place, (span, pieces) in enumerate(groups.items()):
        stands = text[slice(*span)].replace(" ", "▁").encode()
        mark = "▁".encode()
        assert spelled(pieces) in ([stands, mark + stands] if place == 0 else [stands])
    assert found.words == text.split()
    for (start, end), pieces in zip(found.word_spans, found.pieces_of_words, strict=True):
        # The pieces of a word are those that have one of its characters.
        assert pieces == [
            place
            for place, span in enumerate(ordinary)
            if set(range(*span)) & set(range(start, end))
        ]
        assert {c for piece in pieces for c in range(*ordinary[piece])} >= set(range(start, end))
    for piece, words in enumerate(found.words_of_pieces):
        assert words == [w for w, pieces in enumerate(found.pieces_of_words) if piece in pieces]


@settings(max_examples=200, deadline=None)
@given(text=texts)
@example(text="\\</s> </s> <unk> ein@@")
@example(text="ein@@ nichts\x1cda")
def test_words_of_segmented_text_are_its_own(text):
    found = segment(SEGMENTED, SEGMENTED(text)["input_ids"], text)
    assert found.words == text.split()
    assert all(found.pieces_of_words)
    for piece, span in zip(found.pieces, found.spans, strict=True):
        stands = text[slice(*span)].strip() if span else "</s>"
        assert piece in (stands, f"\\{stands}", "<unk>")


@settings(max_examples=200, deadline=None)
@given(
    ids=st.lists(st.integers(0, len(TOKENIZERS[True]) - 1), max_size=12),
    tokenizer=st.sampled_from([*TOKENIZERS.values(), SEGMENTED]),
)
def test_ids_of_a_model_are_segmented_as_they_are_decoded(ids, tokenizer):
    ids = [token % len(tokenizer) for token in ids]
    found = segment(tokenizer, ids)
    assert found.text == tokenizer.decode(ids, skip_special_tokens=True)
    spans = [span for span in found.spans if span]
    assert spans == sorted(spans)
    letters = {place for place, letter in enumerate(found.text) if not letter.isspace()}
    assert {place for span in spans for place in range(*span)} >= letters


def test_a_piece_is_part_of_each_word_that_it_spells():
    vocabulary = {"<unk>": 0, "a b": 1, "c": 2}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>")),
        unk_token="<unk>",
    )
    found = segment(tokenizer, [1], "a b")
    assert found.words_of_pieces == [[0, 1]]
    assert found.pieces_of_words == [[0], [0]]


def fast_tokenizer(normalizer):
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1, "cafe": 2}, unk_token="<unk>"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def test_what_a_fast_tokenizer_changes_is_found_by_its_offsets():
    tokenizer = fast_tokenizer(normalizers.Lowercase())
    found = segment(tokenizer, tokenizer("CAFE  A")["input_ids"], "CAFE  A")
    assert found.spans == [(0, 4), (6, 7)]


def test_a_tokenizer_that_loses_letters_is_refused():
    tokenizer = fast_tokenizer(normalizers.Replace("é", ""))
    with pytest.raises(ValueError, match=r"does not tell which characters .* 'é a'"):
        segment(tokenizer, tokenizer("é a")["input_ids"], "é a")


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    from tests.conversion.test_marian import make_marian_tokenizer

    return make_marian_tokenizer(tmp_path_factory.mktemp("marian"))


@pytest.mark.parametrize("end", ["</w>", "\ue000"])
def test_pieces_that_end_a_word_are_followed(end):
    # fairseq's dictionaries: `l o@@ w` is a word of three pieces, and z is unknown.
    merges = [("l", "o"), ("w", f"e{end}") if end == "</w>" else ("e", end)]
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *("l@@", "o@@", "lo@@", "w@@", "w", "e", "we")]
    tokenizer = make_tokenizer(pieces, Codes(merges, end), 100)
    text = "low  lowe z\t"
    found = segment(tokenizer, tokenizer(text)["input_ids"], text)
    letters = [
        "".join(text[slice(*found.spans[piece])] for piece in pieces)
        for pieces in found.pieces_of_words
    ]
    assert found.words == text.split()
    assert [word.strip() for word in letters] == text.split()
    ids = tokenizer("low  lowe")["input_ids"]
    assert segment(tokenizer, ids).words == ["low", "lowe"]
    assert all(segment(tokenizer, ids).pieces_of_words)


def test_a_slow_tokenizer_is_followed_through_its_spaces(marian):
    text = " ab  cd\ta "
    found = segment(marian, marian(text)["input_ids"], text)
    assert found.words == ["ab", "cd", "a"]
    for word, pieces in zip(found.words, found.pieces_of_words, strict=True):
        assert "".join(found.pieces[piece] for piece in pieces).strip("▁") == word
        assert all(found.spans[piece] for piece in pieces)


def test_a_slow_tokenizer_that_changes_letters_is_refused(marian):
    text = "ａb ａ"  # full width letters, which NFKC makes plain ones
    with pytest.raises(ValueError, match="MarianTokenizer does not tell which characters"):
        segment(marian, marian(text)["input_ids"], text)


def test_words_are_those_of_split():
    text = SPACES.join("abc")
    assert [text[start:end] for start, end in word_spans(text)] == text.split()
