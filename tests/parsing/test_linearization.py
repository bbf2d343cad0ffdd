import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parsing.random_trees import LABELS, TAGS, trees
from vaswani_hf.parsing import Repairs, Tree, linearize, repair_tree, tree_of, tree_of_text
from vaswani_hf.parsing.linearization import only_numbers, with_marks, with_numbers
from vaswani_hf.parsing.words import numbers_of


# Vinyals et al. 2015, figure 2.
DOG = "(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))"
DOG_TOKENS = "(S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S"
DOG_WITH_WORDS = "(S (NP John /NNP )NP (VP has /VBZ (NP a /DT dog /NN )NP )VP . /. )S"


def test_the_example_of_the_paper_becomes_its_sequence():
    tree = tree_of_text(DOG)
    assert linearize(tree) == DOG_TOKENS.split()
    assert tree_of(DOG_TOKENS.split(), "John has a dog .".split()) == tree


def test_words_and_brackets_may_have_numbers():
    tree, words = tree_of_text(DOG), "John has a dog .".split()
    john, has, a, dog, stop = numbers_of(words)
    expected = (
        f"(0S (1NP {john} John /NNP )1 (1VP {has} has /VBZ (2NP {a} a /DT {dog} dog /NN )2 )1 "
        f"{stop} . /. )0"
    )
    assert with_numbers(linearize(tree, has_words=True), words) == expected.split()
    alone = "(0S (1NP -5) NNP )1 (1VP -4) VBZ (2NP -3) DT -2) NN )2 )1 -1) . )0"
    found = with_numbers(linearize(tree), words, has_words=False, from_end=True)
    assert found == alone.split()


@pytest.mark.parametrize("depth", [10, 36, 100])
def test_brackets_of_any_depth_may_have_numbers(depth):
    tree = Tree("NN", word="x")
    for _ in range(depth):
        tree = Tree("NP", (tree, Tree("NN", word="x")))
    tokens = linearize(tree, has_words=True)
    assert _read_numbered(with_numbers(tokens, tree.words()), tree.words()) == (tree, Repairs())


def _read_numbered(tokens, words, has_words=True, from_end=False):
    numbers = numbers_of(words, from_end=from_end)
    leaves = only_numbers if has_words else with_marks
    how = {"tags": set(TAGS) | {"NN"}, "has_words": True, "has_depths": True}
    found, repairs = repair_tree(leaves(tokens), numbers, **how)
    return found.with_words(words), repairs


def test_each_word_may_stand_before_its_tag():
    tree, words = tree_of_text(DOG), "John has a dog .".split()
    assert linearize(tree, has_words=True) == DOG_WITH_WORDS.split()
    assert tree_of(DOG_WITH_WORDS.split(), words, has_words=True) == tree


@pytest.mark.parametrize(
    ("tokens", "expected", "repairs"),
    [
        ("(S a /A b /B )S", "(S (A a) (B b))", {}),
        ("(S a /A c /B )S", "(S (A a) (B b))", {"changed_words": 1}),  # another word
        ("(S a /A b )S", "(S (A a) (XX b))", {"changed_words": 1}),  # no tag
        ("(S a (NP b /B )NP )S", "(S (XX a) (NP (B b)))", {"changed_words": 1}),
        ("(S a /C b /B )S", "(S (XX a) (B b))", {"changed_words": 1}),  # no such tag
        ("(S a /A )S", "(S (A a) (XX b))", {"missing_words": 1}),
        ("(S a /A b /B c /A )S", "(S (A a) (B b))", {"extra_words": 1}),
        ("(S a /A b /B", "(S (A a) (B b))", {"missing_brackets": 1}),
    ],
)
def test_a_sequence_with_words_is_mended_and_counted(tokens, expected, repairs):
    tree, found = repair_tree(tokens.split(), ["a", "b"], tags={"A", "B"}, has_words=True)
    assert (str(tree), found) == (expected, Repairs(**repairs))


def test_words_that_look_like_tags_are_words():
    tree = tree_of_text("(S (A /A) (B /) (A A))")
    tokens = linearize(tree, has_words=True)
    assert tokens == "(S /A /A / /B A /A )S".split()
    assert tree_of(tokens, tree.words(), has_words=True) == tree


@pytest.mark.parametrize(
    ("tokens", "expected", "repairs"),
    [
        ("(S (NP A B )NP )S", "(S (NP (A a) (B b)))", {}),
        ("(S (NP A B", "(S (NP (A a) (B b)))", {"missing_brackets": 2}),
        ("(S (NP A B )S", "(S (NP (A a) (B b)))", {"missing_brackets": 1}),
        ("(S A )NP B )S", "(S (A a) (B b))", {"surplus_brackets": 1}),
        ("(S A (NP )NP B )S", "(S (A a) (B b))", {"surplus_brackets": 2}),
        ("(S A B (NP", "(S (A a) (B b))", {"missing_brackets": 1, "surplus_brackets": 1}),
        ("(NP A )NP (VP B )VP", "(TOP (NP (A a)) (VP (B b)))", {"missing_brackets": 2}),
        ("(S A )S", "(S (A a) (XX b))", {"missing_words": 1}),
        ("", "(TOP (XX a) (XX b))", {"missing_words": 2, "missing_brackets": 2}),
        ("(S A B (NP A )NP )S", "(S (A a) (B b))", {"extra_words": 1, "surplus_brackets": 2}),
        ("(S A cat )S", "(S (A a) (XX b))", {"changed_words": 1}),
        ("(S A (B) )S", "(S (A a))", None),
    ],
)
def test_what_is_no_tree_is_mended_and_counted(tokens, expected, repairs):
    tree, found = repair_tree(tokens.split(), ["a", "b"], tags={"A", "B"})
    if repairs is not None:
        assert (str(tree), found) == (expected, Repairs(**repairs))
    assert tree.words() == ["a", "b"]


def test_a_sequence_that_is_no_tree_is_refused():
    with pytest.raises(ValueError, match=r"'\(S A' is no tree over 1 words.*missing_brackets=1"):
        tree_of(["(S", "A"], ["a"])
    with pytest.raises(ValueError, match="at least one word"):
        repair_tree(["(S"], [])


@pytest.mark.parametrize("has_words", [False, True])
@given(tree=trees)
def test_a_tree_needs_no_repair(has_words, tree):
    tokens = linearize(tree, has_words=has_words)
    found, repairs = repair_tree(tokens, tree.words(), tags=set(TAGS), has_words=has_words)
    assert found == tree
    assert not repairs


NUMBERED_FORMS = [{"has_words": words, "from_end": end} for words in (0, 1) for end in (0, 1)]


@pytest.mark.parametrize("form", NUMBERED_FORMS)
@given(tree=trees)
def test_a_tree_with_numbers_needs_no_repair(form, tree):
    tokens, words = linearize(tree, has_words=form["has_words"]), tree.words()
    tokens = with_numbers(tokens, words, **form)
    assert _read_numbered(tokens, words, **form) == (tree, Repairs())


TOKENS = [f"{side}{label}" for side in "()" for label in LABELS]
TOKENS += [*TAGS, *(f"/{tag}" for tag in TAGS), "(", ")", "/", "word"]


@pytest.mark.parametrize("has_words", [False, True])
@given(tree=trees, data=st.data())
def test_a_damaged_tree_becomes_one_over_exactly_its_words(has_words, tree, data):
    tokens, words = linearize(tree, has_words=has_words), tree.words()
    _damage(tokens, data, TOKENS)
    found, repairs = repair_tree(tokens, words, tags=set(TAGS), has_words=has_words)
    assert found.words() == words
    # What has been mended is a tree, and a sequence that needed no repair is that tree's.
    assert tree_of_text(str(found)) == found
    if not repairs:
        assert linearize(found, has_words=has_words) == tokens
    assert all(count >= 0 for count in dataclasses.asdict(repairs).values())


def _damage(tokens, data, others):
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(tokens)))
        kind = data.draw(st.sampled_from(["put in", "take out", "replace"]))
        new = [] if kind == "take out" else [data.draw(st.sampled_from(others))]
        tokens[place : place + (kind != "put in")] = new


NUMBERED = [*TOKENS, *(f"({digit}{label}" for digit in "019a" for label in LABELS)]
NUMBERED += [*(f"){digit}" for digit in "019a"), "(0", "0)", "7)", "-1)"]


@pytest.mark.parametrize("form", NUMBERED_FORMS)
@given(tree=trees, data=st.data())
def test_a_damaged_tree_with_numbers_becomes_one_over_exactly_its_words(form, tree, data):
    words = tree.words()
    tokens = with_numbers(linearize(tree, has_words=form["has_words"]), words, **form)
    _damage(tokens, data, NUMBERED)
    found, repairs = _read_numbered(tokens, words, **form)
    assert found.words() == words
    assert tree_of_text(str(found)) == found
    assert all(count >= 0 for count in dataclasses.asdict(repairs).values())
