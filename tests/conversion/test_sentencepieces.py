"""Fast tokenizers made of Marian's: SentencePiece itself says which pieces are right."""

import itertools
import random

import pytest

from tests.conversion.marian_tokenizers import marian_tokenizer_of
from vaswani_hf.conversion.sentencepieces import (
    NotTheSameError,
    fast_tokenizers,
    marian_tokenizer,
)
from vaswani_hf.text.lines import read_lines
from vaswani_hf.translation.tokenizer_file import TokenizerFile


ODD = [  # of letters that both sides know, or none does
    *("", "   ", " fee  gef ", "fee\tef\u00a0gef", "\ufb01g \uff25\uff26", "gee\u0301"),
    *("fe \u4e00\u4e8c eg", "\u4e00", "e\u4e00g", "gef\u00adgef", "\U0001f600 ge", "12 %"),
    "\u00a0fee\u2028",
]


def lines(letters, seed):
    chooser = random.Random(seed)
    words = ["".join(chooser.choices(letters, k=chooser.randint(1, 6))) for _ in range(60)]
    return [" ".join(chooser.choices(words, k=6)) for _ in range(200)]


SOURCES, TARGETS = lines("abcdefg.", 0), lines("efghijkß", 1)


@pytest.mark.parametrize(
    ("model_type", "separate_vocabs", "normalization_rule_name"),
    [
        *(("unigram", False, "nmt_nfkc"), ("unigram", True, "nmt_nfkc_cf")),
        *(("bpe", False, "nmt_nfkc"), ("bpe", True, "identity"), ("unigram", False, "identity")),
    ],
)
def test_pieces_and_text_are_marians_and_come_back(
    tmp_path, separate_vocabs, model_type, normalization_rule_name
):
    rules = {"model_type": model_type, "normalization_rule_name": normalization_rule_name}
    marian = marian_tokenizer_of(tmp_path, SOURCES, TARGETS, separate_vocabs, **rules)
    tokenizer, target_tokenizer = fast_tokenizers(marian)
    sources, targets = (
        lines("abcdefgß", 2) + ODD,
        lines("efghijkß", 3) + ODD,
    )
    assert tokenizer(sources)["input_ids"] == marian(sources)["input_ids"]
    ids = marian(text_target=targets)["input_ids"]
    assert target_tokenizer(targets)["input_ids"] == ids
    both = marian, target_tokenizer
    written, found = (each.batch_decode(ids, skip_special_tokens=True) for each in both)
    assert found == written

    back = marian_tokenizer(tokenizer, target_tokenizer)
    back.save_pretrained(tmp_path / "back")
    names = ["source.spm", "target.spm", "vocab.json"] + separate_vocabs * ["target_vocab.json"]
    for name in names[:2]:
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / name).read_bytes()
    assert (back.encoder, back.separate_vocabs) == (marian.encoder, separate_vocabs)
    assert not separate_vocabs or back.target_encoder == marian.target_encoder


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    return marian_tokenizer_of(tmp_path_factory.mktemp("joint"), SOURCES, TARGETS)


def test_one_model_for_both_sides_is_one_tokenizer(tmp_path):
    marian = marian_tokenizer_of(tmp_path, SOURCES, SOURCES)
    tokenizer, target_tokenizer = fast_tokenizers(marian)
    assert target_tokenizer is None
    assert tokenizer(TARGETS)["input_ids"] == marian(text_target=TARGETS)["input_ids"]
    assert not marian_tokenizer(tokenizer).separate_vocabs


def test_text_cannot_name_special_pieces(marian):
    tokenizer, _ = fast_tokenizers(marian)
    special = {marian.eos_token_id, marian.pad_token_id}
    for text in ("a </s> b", "<pad>", "\uff1c/s\uff1e"):
        assert special.isdisjoint(tokenizer(text)["input_ids"][:-1]), text
    assert tokenizer("a b")["input_ids"][-1] == marian.eos_token_id


def test_a_saved_tokenizer_needs_neither_class_nor_library(marian, tmp_path):
    tokenizer, _ = fast_tokenizers(marian)
    tokenizer.save_pretrained(tmp_path)
    loaded = TokenizerFile.load(tmp_path)
    assert loaded(SOURCES)["input_ids"] == marian(SOURCES)["input_ids"]


def test_a_piece_that_only_the_other_side_makes_is_read_but_not_cut(marian):
    tokenizer, _ = fast_tokenizers(marian)
    pieces = marian.spm_target.encode("ijk", out_type=str)
    ids = [marian.encoder[piece] for piece in pieces]
    assert tokenizer.decode(ids) == "ijk"
    assert tokenizer("ijk")["input_ids"] == marian("ijk")["input_ids"]


def test_a_code_of_the_wanted_language_stays_whole(tmp_path):
    marian = marian_tokenizer_of(tmp_path, SOURCES, TARGETS, others=[">>deu<<", ">>fra<<"])
    tokenizer, _ = fast_tokenizers(marian)
    texts = [f">>deu<< {SOURCES[0]}", f">>fra<<{SOURCES[1]}", SOURCES[2]]
    assert tokenizer(texts)["input_ids"] == marian(texts)["input_ids"]
    assert tokenizer(texts[0])["input_ids"][0] == marian.encoder[">>deu<<"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"byte_fallback": True, "vocab_size": 330},
            r"it cuts \d+ of 1000 lines otherwise, such as",
        ),
        ({"user_defined_symbols": ["abc"]}, "source.spm has symbols that its user defined"),
        ({"model_type": "char"}, "source.spm is a model neither of unigrams nor of byte pairs"),
        ({"treat_whitespace_as_suffix": True}, "it cuts"),
        ({"model_type": "bpe", "left_out": ["ab"]}, "merges byte pairs into pieces that have no"),
    ],
)
def test_other_models_are_told_apart(tmp_path, settings, reason):
    if "left_out" in settings:
        from tests.conversion.marian_tokenizers import train_sentencepiece

        pieces = train_sentencepiece(SOURCES, tmp_path / "probe.spm", model_type="bpe")
        settings = {**settings, "left_out": [pieces[3]]}
    marian = marian_tokenizer_of(tmp_path, SOURCES, TARGETS, **settings)
    with pytest.raises(NotTheSameError, match=reason):
        fast_tokenizers(marian)


def test_a_sample_of_ones_own_decides(tmp_path):
    # To Marian unknown characters in a row are looked up as one: here they are a piece.
    marian = marian_tokenizer_of(tmp_path, SOURCES, TARGETS, others=["xyz"])
    fast_tokenizers(marian, [("ab", "ef"), ("ab xy", "ef")])
    with pytest.raises(NotTheSameError, match="it cuts 1 of 2 lines otherwise, such as 'ab xyz'"):
        fast_tokenizers(marian, [("ab", "ef"), ("ab xyz", "ef")])


def test_unigrams_without_an_id_are_counted(tmp_path, caplog):
    caplog.set_level("INFO", "vaswani_hf")
    pieces = marian_tokenizer_of(tmp_path, SOURCES, TARGETS).encoder
    longest = max((piece for piece in pieces if piece.strip("\u2581abcdefg.") == ""), key=len)
    fast_tokenizers(marian_tokenizer_of(tmp_path, SOURCES, TARGETS, left_out=[longest]))
    assert "1 of the" in caplog.text and "pieces of source.spm have no id" in caplog.text


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_pieces_of_real_text_are_the_same(shared_data, tmp_path, model_type):
    text = {
        side: list(itertools.islice(read_lines(shared_data / f"multi30k/train.{side}.gz"), 1000))
        for side in ("en", "de")
    }
    marian = marian_tokenizer_of(
        tmp_path, text["en"][:500], text["de"][:500], model_type=model_type, vocab_size=500
    )
    sample = list(zip(text["en"], text["de"], strict=True))
    tokenizer, target_tokenizer = fast_tokenizers(marian, sample)
    assert tokenizer.is_fast and target_tokenizer.is_fast
