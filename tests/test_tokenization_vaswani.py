import copy
import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from vaswani_hf import train_tokenizer
from vaswani_hf.tokenization_vaswani import (
    add_source_tags,
    normalize,
    tokenizer_of_segmented_text,
)
from vaswani_hf.translation.tokenizer_file import TokenizerFile


TEXT = [
    "Two young men stand near the house.",
    "Zwei junge Männer stehen vor dem Haus.",
    "Am 3. März 2031 um 17:42 Uhr.",
] * 20


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXT, 400, are_files=False, show_progress=False)


@pytest.fixture(scope="module")
def reloaded(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


# Text that breaks tokenizers: spaces at the ends, special tokens and byte names spelled out,
# letters never seen, combining marks, control characters, halves of emoji sequences.
HARD = [
    "",
    " ",
    "  a  b ",
    "</s>",
    "a </s> b <pad> <unk>",
    "<0x41><0xC3>",
    "日本語 😀 👩‍👩‍👧",
    "x\ny\tz\r\n",
    "\x00\u0301e\u0301",
    "\ufffd",
    "@@ ",
    "\u00a0\u202f\u2009",
]


@pytest.mark.parametrize("text", HARD)
def test_hard_text_comes_back_as_it_was(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_any_text_comes_back_after_normalization(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text.replace("\u2581", " ")
    assert tokenizer.unk_token_id not in ids
    assert ids[-1] == tokenizer.eos_token_id


def test_normalization_turns_the_word_mark_into_a_space():
    assert normalize("a\u2581b  c") == "a b  c"


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_a_reloaded_tokenizer_is_the_same(tokenizer, reloaded, text):
    assert reloaded(text)["input_ids"] == tokenizer(text)["input_ids"]


def test_source_and_target_end_in_eos(tokenizer):
    batch = tokenizer(["Two men", "house"], text_target=["Zwei", "Haus"])
    ends = {ids[-1] for side in ("input_ids", "labels") for ids in batch[side]}
    assert ends == {tokenizer.eos_token_id}


def test_special_pieces_have_the_ids_of_the_config(tokenizer):
    from vaswani_hf import VaswaniConfig

    config = VaswaniConfig()
    assert tokenizer.pad_token_id == config.pad_token_id
    assert tokenizer.eos_token_id == config.eos_token_id
    assert tokenizer.unk_token_id == 0


def test_frequent_words_become_one_piece(tokenizer):
    assert tokenizer.tokenize("stehen") == ["\u2581stehen"]


def test_no_piece_spans_two_words(tokenizer):
    inner = [piece for piece in tokenizer.get_vocab() if "\u2581" in piece[1:]]
    assert inner == []


def test_the_vocabulary_has_at_most_the_size_asked_for(tokenizer):
    assert len(tokenizer) <= 400
    assert max(tokenizer.get_vocab().values()) == len(tokenizer) - 1


def test_digits_can_be_pieces_of_their_own():
    text = ["2031 2031 2031"] * 50
    split = train_tokenizer(text, 400, are_files=False, split_digits=True, show_progress=False)
    assert split.tokenize("2031")[-4:] == ["2", "0", "3", "1"]
    joined = train_tokenizer(text, 400, are_files=False, show_progress=False)
    assert joined.tokenize("2031") == ["\u25812031"]


def test_a_corpus_that_spells_out_bytes_stays_lossless():
    text = ["<0x41> <0x41> <0x42>"] * 50
    tokenizer = train_tokenizer(text, 500, are_files=False, show_progress=False)
    for sentence in (text[0], "A B é"):
        ids = tokenizer(sentence)["input_ids"]
        assert tokenizer.decode(ids, skip_special_tokens=True) == sentence


def test_files_are_read_plain_or_gzipped(tmp_path, tokenizer):
    plain, packed = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    plain.write_text("\n".join(TEXT[:30]), encoding="utf-8")
    packed.write_bytes(gzip.compress("\n".join(TEXT[30:]).encode()))
    of_files = train_tokenizer([plain, str(packed)], 400, show_progress=False)
    assert of_files.get_vocab() == tokenizer.get_vocab()


def test_too_small_a_vocabulary_is_refused():
    with pytest.raises(ValueError, match="vocab_size=259"):
        train_tokenizer(TEXT, 259, are_files=False)


def test_an_empty_corpus_is_refused():
    with pytest.raises(ValueError, match="no text"):
        train_tokenizer([], 400, are_files=False, show_progress=False)


def test_segmented_text_is_joined_when_decoded(tmp_path):
    text = ["ein@@ und@@ zwanzig häuser", "zwei häuser"]
    tokenizer = tokenizer_of_segmented_text(text, are_files=False)
    tokenizer.save_pretrained(tmp_path)
    for each in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        ids = each(text[0])["input_ids"]
        assert each.convert_ids_to_tokens(ids) == ["ein@@", "und@@", "zwanzig", "häuser", "</s>"]
        assert each.decode(ids, skip_special_tokens=True) == "einundzwanzig häuser"


def test_published_segmentation_round_trips(shared_data):
    path = shared_data / "multi30k" / "published_bpe" / "en-de" / "valid.de.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    tokenizer = tokenizer_of_segmented_text([path])
    decoded = tokenizer.batch_decode(tokenizer(lines)["input_ids"], skip_special_tokens=True)
    assert decoded == [line.replace("@@ ", "") for line in lines]


def test_real_text_comes_back_as_it_was(shared_data):
    path = shared_data / "newstest" / "en-de" / "newstest2013.de.gz"
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    tokenizer = train_tokenizer([path], 2000, show_progress=False)
    ids = tokenizer(lines)["input_ids"]
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == lines
    assert not any(tokenizer.unk_token_id in each for each in ids)


def test_nothing_decodes_to_an_empty_text():
    learned = train_tokenizer(["a b c"] * 5, 300, are_files=False, show_progress=False)
    segmented = tokenizer_of_segmented_text(["ein@@ und zwei"], are_files=False)
    for tokenizer in (learned, segmented):
        assert tokenizer.decode([]) == ""
        assert tokenizer.decode([tokenizer.eos_token_id], skip_special_tokens=True) == ""


def ids_by_every_way(tokenizer, text, folder):
    """The ids of a text by the tokenizer, by `AutoTokenizer`, and by the `tokenizers` library."""
    tokenizer.save_pretrained(folder)
    bare = Tokenizer.from_file(str(folder / "tokenizer.json"))
    bare.encode_special_tokens = True
    loaded = AutoTokenizer.from_pretrained(folder)
    return tokenizer(text)["input_ids"], loaded(text)["input_ids"], bare.encode(text).ids


SPECIAL_WORDS = ["</s>", "<pad>", "<unk>", "\\</s>", "\\\\<pad>", "</s>x", "x</s>", "<unk></s>"]
WORDS = st.lists(st.sampled_from(SPECIAL_WORDS) | st.text("a\\</s>", min_size=1), min_size=1)
SPACES = st.sampled_from([" ", "  ", "\t", "\u00a0", "\u3000", "\n"])


@given(WORDS, SPACES)
@settings(max_examples=100, deadline=None)
def test_no_word_of_segmented_text_has_the_id_of_a_special_piece(tmp_path_factory, words, space):
    tokenizer = tokenizer_of_segmented_text([" ".join(words)], are_files=False)
    text = space.join(words)
    for ids in ids_by_every_way(tokenizer, text, tmp_path_factory.mktemp("tokenizer")):
        assert ids[-1] == tokenizer.eos_token_id
        assert len(ids) == len(words) + 1
        assert not set(ids[:-1]) & {0, 1, 2}
        assert tokenizer.decode(ids, skip_special_tokens=True) == " ".join(words)


def test_special_words_of_segmented_text_that_were_never_seen_are_unknown(tmp_path):
    tokenizer = tokenizer_of_segmented_text(["ein@@ und"], are_files=False)
    for ids in ids_by_every_way(tokenizer, "ein@@ </s> <pad>", tmp_path):
        assert ids == [tokenizer.convert_tokens_to_ids("ein@@"), 0, 0, 2]


@given(st.lists(st.sampled_from([*SPECIAL_WORDS, "the", "cat"])), SPACES)
@settings(max_examples=50, deadline=None)
def test_no_text_has_the_id_of_a_special_piece(tokenizer, tmp_path_factory, words, space):
    text = space.join(words)
    for ids in ids_by_every_way(tokenizer, text, tmp_path_factory.mktemp("tokenizer")):
        assert ids[-1] == tokenizer.eos_token_id
        assert not set(ids[:-1]) & {0, 1, 2}


@pytest.mark.parametrize("kind", ["learned", "segmented"])
def test_no_text_has_the_id_of_a_source_tag(kind, tokenizer, tmp_path):
    if kind == "segmented":
        tokenizer = tokenizer_of_segmented_text(["the cat"], are_files=False)
    tagged, size = copy.deepcopy(tokenizer), len(tokenizer)
    add_source_tags(tagged, ["<bt>", "<ft>"])
    add_source_tags(tagged, ["<ft>"])  # which it has
    assert tagged.get_vocab() == tokenizer.get_vocab() | {"<bt>": size, "<ft>": size + 1}
    for text in ("<bt>", "the <bt> cat", "<bt>the", "the<ft><bt> </s>", "the cat"):
        expected = tokenizer(text)["input_ids"]
        for ids in ids_by_every_way(tagged, text, tmp_path):
            assert ids == expected
    ids = [size, *tokenizer("the cat")["input_ids"]]
    for each in (tagged, AutoTokenizer.from_pretrained(tmp_path), TokenizerFile.load(tmp_path)):
        assert each.batch_decode([ids], skip_special_tokens=True) == ["the cat"]


def test_a_tag_that_text_could_come_to_is_refused(tokenizer):
    corpus = ["5<bt> 6<bt>"] * 50
    frequent = train_tokenizer(corpus, 300, are_files=False, show_progress=False)
    with pytest.raises(ValueError, match="<bt> is a piece of text in the vocabulary"):
        add_source_tags(frequent, ["<bt>"])
    loose = copy.deepcopy(tokenizer)
    loose.split_special_tokens = False
    with pytest.raises(ValueError, match="<bt> needs a fast tokenizer that never takes text"):
        add_source_tags(loose, ["<bt>"])


def test_a_corpus_that_spells_out_special_pieces_stays_lossless():
    text = ["x</s> y</s> z</s> <pad></s> x<unk>"] * 50
    tokenizer = train_tokenizer(text, 500, are_files=False, show_progress=False)
    for sentence in (text[0], "q</s>", "q<unk>q<pad>"):
        ids = tokenizer(sentence)["input_ids"]
        assert not set(ids[:-1]) & {0, 1, 2}
        assert tokenizer.decode(ids, skip_special_tokens=True) == sentence


def test_the_tokenizers_library_alone_leaves_out_special_pieces_in_decoding(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    bare = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert bare.decode(bare.encode("Two men").ids, skip_special_tokens=True) == "Two men"


def test_a_word_of_any_length_teaches_no_more_than_its_slices():
    # Merges double: 5,000 equal letters in one word would teach pieces of 1,024 letters and more.
    corpus = ["a" * 5000] * 2
    tokenizer = train_tokenizer(corpus, 320, are_files=False, show_progress=False)
    lengths = [len(piece) for piece in tokenizer.get_vocab()]
    assert 512 in lengths
    assert max(lengths) <= 1000
    ids = tokenizer(corpus[0])["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == corpus[0]
