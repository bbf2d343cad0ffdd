from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given

from tests.parsing.random_trees import trees
from vaswani_hf.parsing import Parameters, Summary, Tree, read_parameters, score_trees
from vaswani_hf.parsing.evalb import ERROR, SKIPPED, VALID, score_tree


PAIRS = Path(__file__).with_name("evalb")
# EVALB's README, section 5, with a label of the test tree that is wrong.
MONDAY = (
    "(TOP (S (INTJ (RB No)) (, ,) (NP (PRP it)) (VP (VBD was) (RB n't) (NP (NNP Black) "
    "(NNP Monday))) (. .)))"
)


def lines_of(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def summary_lines(gold, test, parameters):
    summary = Summary(list(score_trees(gold, test, parameters)))
    most = parameters.cutoff_words
    return [*summary.lines("All"), *summary.up_to(most).lines(f"len<={most}")]


def test_a_sentence_is_counted_as_by_hand():
    # Counted by hand: S, INTJ, NP, VP and NP are brackets; 6 words are no punctuation.
    score = score_tree(MONDAY, MONDAY.replace("INTJ", "NP").replace("(RB n't)", "(NN n't)"))
    assert (score.length, score.status) == (8, VALID)
    assert (score.matched, score.gold_brackets, score.test_brackets) == (4, 5, 5)
    assert (score.words, score.correct_tags, score.crossing) == (6, 5, 0)


@pytest.mark.parametrize(
    ("gold", "test", "matched"),
    [
        # Section 7 of EVALB's README: equal brackets are matched one to one.
        ("(NP (NP (DT a)))", "(NP (NP (NP (DT a))))", 2),
        ("(S (PRT (RP up)))", "(S (ADVP (RP up)))", 2),  # EQ_LABEL
        ("(S (NP-SBJ (NN a)))", "(S (NP (NN a)))", 2),  # functions
        ("(TOP (S (NN a)))", "(S (NN a))", 1),  # DELETE_LABEL TOP
        ("(S (NP (-NONE- *)) (NN a))", "(S (NN a))", 1),  # nothing but a trace
    ],
)
def test_brackets_are_matched_by_the_rules_of_collins(gold, test, matched):
    score = score_tree(gold, test)
    assert (score.status, score.matched, score.gold_brackets) == (VALID, matched, matched)


@pytest.mark.parametrize(
    ("test", "status", "problem"),
    [
        ("", SKIPPED, ""),
        ("FAILED", ERROR, "the test tree: 'FAILED' stands where a bracket should"),
        ("(NN b c)", ERROR, "the test tree: the bracket 'NN' has more than a word"),
        ("(S (NN a))", ERROR, "2 words in the gold tree, 1 in the test tree"),
        ("(S (NN a) (NN c))", ERROR, "'b' in the gold tree is 'c' in the test tree"),
        ("(S (NN a) (NN b)", ERROR, "the test tree: it has 1 more bracket"),
        ("(S (NN a) (NN b)))", ERROR, "the test tree: it has more brackets that close"),
        ("(S (NN a) (NN b c))", ERROR, "the test tree: the bracket 'NN' has more than a word"),
    ],
)
def test_what_does_not_fit_is_an_error_and_what_is_empty_skipped(test, status, problem):
    score = score_tree("(S (NN a) (NN b))", test)
    assert score.status == status
    assert problem in score.problem


def test_a_quotation_mark_that_one_side_deletes_is_put_back():
    gold, test = "(S (`` ') (NN a))", "(S (POS ') (NN a))"
    assert score_tree(gold, test).status == ERROR
    score = score_tree(gold, test, Parameters(quote_labels=("POS", "``")))
    assert (score.status, score.words, score.correct_tags, score.matched) == (VALID, 2, 1, 1)


def test_random_pairs_are_scored_as_evalb_scores_them():
    expected = [line for line in lines_of(PAIRS / "random.rsl") if line][1:]
    gold, test = (lines_of(PAIRS / f"random.{side}") for side in ("gld", "tst"))
    assert summary_lines(gold, test, Parameters()) == expected


def test_the_sample_of_evalb_is_reproduced(shared_data):
    folder = shared_data / "evalb"
    parameters = read_parameters(str(folder / "sample.prm"))
    gold, test = (
        (folder / f"sample.{side}").read_text().removesuffix("\n").split("\n")
        for side in ("gld", "tst")
    )
    found = summary_lines(gold, test, parameters)
    expected = [line for line in lines_of(folder / "sample.rsl") if " = " in line]
    # The version that printed the sample's result knew no F1.
    assert [line for line in found if " = " in line and "FMeasure" not in line] == expected
    scores = list(score_trees(gold, test, parameters))
    rows = [line.split() for line in lines_of(folder / "sample.rsl")]
    rows = [row for row in rows if len(row) == 12 and row[0].isdecimal()]
    for score, row in zip(scores, rows, strict=True):
        assert [score.length, score.status] == [int(row[1]), int(row[2])]
        assert [score.matched, score.gold_brackets] == [int(row[5]), int(row[6])]


def test_mistaken_quotation_marks_are_mended_as_in_the_sample_of_evalb(shared_data):
    folder = shared_data / "evalb"
    gold, test = (
        (folder / f"bug.{side}").read_text().removesuffix("\n").split("\n")
        for side in ("gld", "tst")
    )
    found = summary_lines(gold, test, read_parameters(folder / "nk.prm"))
    expected = [line for line in lines_of(folder / "bug.rsl-new") if " = " in line]
    assert [line for line in found if " = " in line] == expected


def test_the_defaults_are_those_of_collins(shared_data):
    assert read_parameters(shared_data / "evalb" / "COLLINS.prm") == Parameters()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("DELETE_LABELS TOP", "f.prm, line 2: unknown keyword 'DELETE_LABELS'; there are DELETE_L"),
        ("EQ_LABEL ADVP", r"f.prm, line 2: EQ_LABEL takes 2 value\(s\), got 'EQ_LABEL ADVP'"),
        ("LABELED yes", "f.prm, line 2: LABELED takes a whole number"),
    ],
)
def test_a_line_of_a_parameter_file_that_cannot_be_read_is_named(tmp_path, line, message):
    path = tmp_path / "f.prm"
    path.write_text(f"# a comment\n{line}\n")
    with pytest.raises(ValueError, match=message):
        read_parameters(path)


def spans(tree):
    """The label and span of each constituent, and the tags: slowly, for trees without traces."""
    place, found, tags = 0, [], []

    def visit(node):
        nonlocal place
        begin = place
        if node.word is not None:
            if node.label not in Parameters().delete_labels:
                tags.append(node.label)
                place += 1
            return
        for child in node.children:
            visit(child)
        if place > begin and node.label != "TOP":
            found.append(("ADVP" if node.label == "PRT" else node.label, begin, place))

    visit(tree)
    return Counter(found), tags


def relabelled(tree):
    """The tree with every NP a VP, and every constituent of a constituent alone left out."""
    if tree.word is not None:
        return tree
    children = [relabelled(child) for child in tree.children]
    if len(children) == 1 and children[0].word is None:
        children = list(children[0].children)
    return Tree("VP" if tree.label == "NP" else tree.label, tuple(children))


@given(trees)
def test_counts_are_those_of_multisets_of_spans(gold):
    test = relabelled(gold)
    (right, tags), (found, _) = spans(gold), spans(test)
    score = score_tree(str(gold), str(test))
    if not tags:
        assert score.status == SKIPPED
        return
    assert score.matched == (right & found).total()
    assert (score.gold_brackets, score.test_brackets) == (right.total(), found.total())
    assert score.words == score.correct_tags == len(tags)
