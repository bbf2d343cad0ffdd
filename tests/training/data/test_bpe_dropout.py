import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from tests.references import bpe_dropout_law
from training.data.bpe_dropout import BPEDropout
from training.data.encoding import encode_words
from vaswani_hf import train_tokenizer
from vaswani_hf.tokenization_vaswani import normalize


# "banana" has merges that overlap, and equal ones in two places.
MERGES = [("a", "n"), ("b", "a"), ("an", "a"), ("n", "a"), ("ba", "n"), ("ban", "ana")]


@pytest.fixture(scope="module")
def banana():
    pieces = dict.fromkeys([*"abn", *("".join(merge) for merge in MERGES)])
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    return Tokenizer(models.BPE(vocab=vocabulary, merges=MERGES))


@pytest.fixture(scope="module")
def tokenizer():
    corpus = ["ein Haus im Wald", "zwei Häuser am Waldrand", "three houses by the wood"] * 3
    return train_tokenizer(corpus, 340, are_files=False, show_progress=False)


@pytest.mark.parametrize("dropout", [0.1, 0.6])
def test_each_cut_of_a_word_comes_as_often_as_the_algorithm_says(banana, dropout):
    count, chooser = 20000, random.Random(0)
    cut = BPEDropout(banana, dropout)
    plain = banana.encode("banana").ids
    found = Counter(
        tuple(banana.id_to_token(piece) for piece in cut(plain, [0] * len(plain), chooser))
        for _ in range(count)
    )
    law = bpe_dropout_law(tuple("banana"), MERGES, dropout)
    assert set(found) <= set(law)
    for pieces, share in law.items():
        # Five standard deviations of a binomial, and one for those that hardly come.
        assert abs(found[pieces] - count * share) < 5 * (count * share) ** 0.5 + 1


@given(st.lists(st.text(alphabet="abdehinorsuwzäHW 3€", max_size=30), min_size=1, max_size=3))
def test_text_stays_the_same_and_without_drops_so_do_its_pieces(tokenizer, texts):
    never, often = (BPEDropout(tokenizer.backend_tokenizer, p) for p in (1e-12, 0.5))
    for text, (ids, words) in zip(texts, encode_words(texts, tokenizer), strict=True):
        assert ids == tokenizer(text)["input_ids"]
        assert never(ids, words, random.Random(0)) == ids
        cut = often(ids, words, random.Random(0))
        assert tokenizer.decode(cut, skip_special_tokens=True) == normalize(text)
        assert cut[-1] == tokenizer.eos_token_id and len(cut) >= len(ids)


def test_a_seed_decides_whatever_was_cut_before_and_forgotten(tokenizer, monkeypatch):
    ((ids, words),) = encode_words(["zwei Häuser am Waldrand"], tokenizer)
    fresh, used = (BPEDropout(tokenizer.backend_tokenizer, 0.4) for _ in range(2))
    for seed in range(20):
        used(ids, words, random.Random(seed))
    drawn = [fresh(ids, words, random.Random(seed)) for seed in range(5)]
    assert drawn == [used(ids, words, random.Random(seed)) for seed in range(5)]
    assert len(set(map(tuple, drawn))) > 1
    monkeypatch.setattr("training.data.bpe_dropout.MOST_KEPT_PIECES", 0)
    assert drawn == [used(ids, words, random.Random(seed)) for seed in range(5)]


def test_a_word_may_be_long(tokenizer):
    ((ids, words),) = encode_words(["Haus" * 400], tokenizer)
    cut = BPEDropout(tokenizer.backend_tokenizer, 0.1)(ids, words, random.Random(0))
    assert tokenizer.decode(cut, skip_special_tokens=True) == "Haus" * 400


def test_a_tokenizer_without_merges_is_refused():
    tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    with pytest.raises(ValueError, match=r"bpe_dropout=0\.1 .* is of type WordLevel"):
        BPEDropout(tokenizer, 0.1)
