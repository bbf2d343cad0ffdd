"""Comparisons of systems. tests/cli/test_compare.py has their figures against sacrebleu's."""

import pytest

from vaswani_hf.evaluation import Metric, compare


def test_a_system_alone_is_refused():
    with pytest.raises(ValueError, match="two systems or more, got 1"):
        compare({"a": ["x"]}, [["x"]], [Metric("bleu")])


@pytest.mark.parametrize("references", [[], [["x", "y"]], [["x"], []]])
def test_texts_that_do_not_fit_are_refused(references):
    with pytest.raises(ValueError, match="equally many sentences"):
        compare({"a": ["x"], "b": ["y"]}, references, [Metric("bleu")])


def test_what_bleu_does_before_sacrebleu_is_done_here_too():
    pytest.importorskip("sacremoses")
    metric = Metric("bleu", tokenize="moses-de")
    # sacrebleu's 13a leaves the typographic quotation mark at its word; Moses makes it plain.
    hypotheses, references = ["Sie sagt: \u201cJa\u201d!"] * 3, ['Sie sagt: "Ja"!'] * 3
    (found,) = compare({"a": hypotheses, "b": ["Nein."] * 3}, [references], [metric])
    assert found.systems[0].score == pytest.approx(100)
    assert "|tok:moses-de-sacremoses-" in found.bootstrap_signature
    assert "|ar:10000|" in found.randomization_signature
