"""The search of the grammar, against nltk's own."""

import pytest

from tests.parsing.treebank import SENTENCES


MORE = [
    "(S (NP (NP (DT the) (NN cat)) (PP (IN by) (NP (NNP John)))) (VP (VBZ sleeps)) (. .))",
    "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat)) (PP (IN by) (NP (NN it)))))",
]


@pytest.fixture(scope="module")
def grammar(tmp_path_factory):
    pytest.importorskip("nltk")
    from benchmarks.parsing_floor import Grammar

    path = tmp_path_factory.mktemp("floor") / "trees"
    path.write_text("".join(f"{line}\n" for line in [*SENTENCES, *MORE] * 2))
    return Grammar(path, siblings=2, parents=0, beam=100.0)


@pytest.mark.parametrize(
    "sentence",
    ["the cat sees the dog by John .", "John sleeps .", "dog", "the dog by John sees the cat"],
)
def test_the_most_likely_tree_is_the_one_that_nltk_finds(grammar, sentence):
    from nltk import ViterbiParser

    from benchmarks.parsing_floor import nltk_tree, our_tree

    words = sentence.split()
    (expected,) = ViterbiParser(grammar.pcfg).parse([grammar.form(word) for word in words])
    expected.un_chomsky_normal_form()
    found = grammar.parse(words)
    assert found.words() == words
    assert nltk_tree(found, grammar.form) == nltk_tree(our_tree(expected[0]), str)


def test_unknown_words_are_known_by_their_class(grammar):
    assert grammar.form("cat") == "cat"
    assert [grammar.form(word) for word in ("12.5", "p53", "Running", "b-c")] == [
        *("<number>", "<digits>", "<Capital>", "<hyphen>")
    ]
