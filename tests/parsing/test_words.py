from collections import Counter

import pytest

from vaswani_hf.parsing.words import (
    numbered,
    numbers_of,
    sentence_of,
    treebank_words,
    words_of,
)


def test_words_that_are_cut_keep_their_characters_but_brackets():
    assert words_of(" a\tb\u00a0c  ( f(x) ] ") == "a b\u00a0c -LRB- f-LRB-x-RRB- -RSB-".split(" ")


def test_a_word_stays_one_for_the_model():
    assert sentence_of(["a b", "c\u2581d", "e"]) == "a_b c_d e"


def test_numbers_count_on_from_one_that_follows_from_the_sentence():
    words = ["w"] * 60
    first = int(numbers_of(words)[0].removesuffix(")"))
    assert numbers_of(words) == [f"{(first + place) % 100})" for place in range(60)]
    firsts = [numbers_of([str(number)])[0] for number in range(10_000)]
    counts = Counter(firsts)
    assert len(counts) == 100
    assert max(counts.values()) < 160  # 100 on average; six standard deviations


def test_a_numbered_sentence_has_its_words_behind_their_numbers():
    first, second = numbers_of(["a b", "c"])
    assert numbered(["a b", "c"]) == f"{first} a_b {second} c"


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        # Section "Tokenization" of the treebank's guidelines.
        ("I can't (yet).", "I ca n't -LRB- yet -RRB- ."),
        ("The children's “cat” won't, will it?", "The children 's `` cat '' wo n't , will it ?"),
        ("They'd cost $3.50 [sic]", "They 'd cost $ 3.50 -LSB- sic -RSB-"),
    ],
)
def test_a_sentence_is_cut_as_the_treebanks(sentence, words):
    pytest.importorskip("nltk")
    assert treebank_words(sentence) == words.split()
