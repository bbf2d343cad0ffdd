import itertools

import pytest
from hypothesis import given

from tests.parsing.random_trees import trees
from vaswani_hf.parsing import Tree, linearize, read_trees, tree_of, tree_of_text, without_traces
from vaswani_hf.parsing.trees import trees_of_lines
from vaswani_hf.text.lines import read_lines


CAT = Tree("NP", (Tree("DT", word="The"), Tree("NN", word="cat")))
SENTENCE = Tree("S", (CAT, Tree("VP", (Tree("VBZ", word="sleeps"),)), Tree(".", word=".")))
LINE = "(S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .))"
# In the form of the treebank's files, with what they have: a header, an outer bracket without a
# label, function tags, traces and what holds nothing else.
MRG = """*x*x*x*x*x*x*x*x*x*x*x*x*x*
*x* a header

( (S
    (NP-SBJ-1 (PRP He) )
    (VP (VBZ seems)
      (S
        (NP-SBJ (-NONE- *-1) )
        (VP (TO to)
          (VP (VB sleep) ))))
    (. .) ))
# another one
( (S (NP=2 (-LRB- -LRB-) (NNP Al) (-RRB- -RRB-)) (VP-TPC (-NONE- *?*) )))
"""
CLEAN = [
    "(S (NP (PRP He)) (VP (VBZ seems) (S (VP (TO to) (VP (VB sleep))))) (. .))",
    "(S (NP (-LRB- -LRB-) (NNP Al) (-RRB- -RRB-)))",
]


def test_a_tree_may_get_other_words():
    assert str(SENTENCE.with_words(["A", "dog", "eats", "!"])) == (
        "(S (NP (DT A) (NN dog)) (VP (VBZ eats)) (. !))"
    )


def test_brackets_become_a_tree_and_brackets_again():
    assert tree_of_text(LINE) == SENTENCE
    assert str(SENTENCE) == LINE
    assert SENTENCE.words() == ["The", "cat", "sleeps", "."]


def test_a_file_of_the_treebank_is_read_and_cleaned(tmp_path):
    path = tmp_path / "wsj_0001.mrg"
    path.write_text(MRG)
    found = list(read_trees(str(path)))
    assert found[0].label == "S" and found[0].words() == ["He", "seems", "*-1", "to", "sleep", "."]
    assert [str(without_traces(tree)) for tree in found] == CLEAN


def test_a_tree_of_traces_alone_has_nothing_left():
    assert without_traces(tree_of_text("(S (NP (-NONE- *)) (VP (-NONE- *?*)))")) is None


def test_an_outer_bracket_around_several_trees_is_named():
    assert str(tree_of_text("( (S (NN a)) (. .))")) == "(TOP (S (NN a)) (. .))"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NN a)", r"f ends in line 2.*the tree of line 1 has 1 bracket open: \(S"),
        ("(S (NP (NN a)\n(S (NN b))", r"f, line 2 begins a tree.* 2 brackets open: \(S \(NP"),
        ("(S (NN a)))", r"f, line 1: '\)' closes no bracket"),
        ("\n(S (NN a))\nword", "f, line 3: 'word' stands outside of any tree"),
        ("(S (NN a) word)", "f, line 1: 'word' stands beside brackets in the bracket 'S'"),
        ("(S word (NN a))", "f, line 1: a bracket begins behind the word 'word'"),
        ("(S (NP ) (NN a))", "f, line 1: the bracket 'NP' holds nothing"),
        ("(S ((NN a)))", "f, line 1: a bracket inside a tree has no label"),
    ],
)
def test_an_error_names_file_line_and_what_is_wrong(text, message):
    with pytest.raises(ValueError, match=message):
        list(trees_of_lines(f"{text}\n".split("\n")[: text.count("\n") + 2], "f"))


def test_a_tree_deeper_than_the_stack_of_python_is_read():
    text = "(NP " * 5000 + "(NN a" + ")" * 5001
    tree = tree_of_text(text)
    assert str(tree) == text and len(linearize(tree)) == 10001


@given(trees)
def test_every_tree_survives_the_round_trips(tree):
    if tree.word is None or tree.label:
        assert tree_of_text(str(tree)) == tree
        assert tree_of_text(tree.indented(20)) == tree
        assert tree_of(linearize(tree), tree.words()) == tree


def test_a_wide_tree_is_indented():
    # By hand: 24 columns hold the noun phrase, not the sentence.
    assert SENTENCE.indented(24) == ("(S\n  (NP (DT The) (NN cat))\n  (VP (VBZ sleeps))\n  (. .))")
    assert SENTENCE.indented() == LINE


@pytest.mark.parametrize(
    ("split", "count"),
    [
        ("dev", 400),
        pytest.param("dev", 2780, marks=pytest.mark.slow),
        pytest.param("train", 18951, marks=pytest.mark.slow),
    ],
)
def test_every_tree_of_craft_survives_the_round_trips(shared_data, split, count):
    path = shared_data / "parsing" / f"craft.{split}.trees.gz"
    lines = list(itertools.islice(read_lines(path), count))
    assert len(lines) == count
    for line, tree in zip(lines, read_trees(path), strict=False):
        assert str(tree) == line
        assert tree_of(linearize(tree), tree.words()) == tree
        assert without_traces(tree) == tree  # the shared files are clean already
