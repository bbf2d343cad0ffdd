import pytest

from vaswani_hf.parsing.words import sentence_of, treebank_words, words_of


def test_words_that_are_cut_keep_their_characters_but_brackets():
    assert words_of(" a\tb\u00a0c  ( f(x) ] ") == "a b\u00a0c -LRB- f-LRB-x-RRB- -RSB-".split(" ")


def test_a_word_stays_one_for_the_model():
    assert sentence_of(["a b", "c\u2581d", "e"]) == "a_b c_d e"


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
