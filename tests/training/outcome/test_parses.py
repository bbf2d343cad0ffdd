import pytest
import torch

from training.outcome.metrics import EvalbF1
from training.outcome.parses import details_of, figures_of, parse_of
from vaswani_hf.parsing import TreePieces, score_parse, tree_of_text


SENTENCE, GOLD = "a b , c", "(S (NP DT NN )NP , (VP VBZ )VP )S"
PIECES = TreePieces(dict(enumerate(["DT", "NN", ",", "VBZ"])), {}, {}, 9, torch.zeros(10))


def test_a_sequence_is_scored_with_the_punctuation_of_the_right_tree():
    # By hand: of S, NP and VP the label of the last is wrong; of the tags those of `,` and `c`, and
    # `,` is no word that counts. EVALB alone would leave the sentence out.
    parse = parse_of(SENTENCE, "(S (NP DT NN )NP NN (NP NN )NP )S", GOLD, PIECES)
    assert not parse.repairs
    score = parse.score
    assert (score.matched, score.gold_brackets, score.test_brackets) == (2, 3, 3)
    assert (score.words, score.correct_tags) == (3, 2)


def test_figures_and_details_are_those_of_all_sentences():
    parses = [
        parse_of(SENTENCE, GOLD, GOLD, PIECES),
        parse_of(SENTENCE, "(S (NP DT NN )NP , (VP VBZ", GOLD, PIECES),
        parse_of("a", "", "(NP NN )NP", PIECES),
    ]
    # By hand: 6 of 7 brackets are found (the last tree has none); 6 of 7 words have their tag.
    figures = figures_of(parses)
    assert figures["recall"] == pytest.approx(600 / 7)
    assert figures["precision"] == 100
    assert figures["tagging_accuracy"] == pytest.approx(600 / 7)
    assert figures["well_formed"] == pytest.approx(1 / 3)
    details = details_of(parses)
    assert details["repairs"]["missing_brackets"] == 2
    assert details["repairs"]["missing_words"] == 1
    assert [(one["max_words"], one["sentences"]) for one in details["by_words"]] == [(10, 3)]


def test_the_metric_gives_evalbs_figures():
    # By hand: 1 of 2 brackets of either tree, and all tags.
    gold, test = "(S (NP (NN a)) (NN b))", "(S (VP (NN a)) (NN b))"
    found = EvalbF1().compute(predictions=[test], references=[gold])
    assert (found["f1"], found["tagging_accuracy"]) == (50.0, 100.0)
    assert (found["sentences"], found["errors"], found["skipped"]) == (1, 0, 0)
    comma = test.replace("(NN b)", "(, b)")
    found = EvalbF1().compute(predictions=[comma], references=[gold])
    assert (found["errors"], found["f1"]) == (1, 0.0)
    found = EvalbF1().compute(predictions=[comma], references=[gold], gold_tags=True)
    assert (found["errors"], found["f1"], found["tagging_accuracy"]) == (0, 50.0, 50.0)


def test_trees_over_other_words_are_refused():
    with pytest.raises(ValueError, match="not over the same words"):
        score_parse(tree_of_text("(NN a)"), tree_of_text("(NN b)"))
