import evaluate
import pytest
import sacrebleu

from training.metrics import SacreBleu, exact_match


HYPOTHESES = ["The cat sat on the mat .", "A dog runs through the snow."]
REFERENCES = ["The cat sat on the mat.", "A brown dog runs through deep snow."]


@pytest.mark.parametrize("options", [{}, {"tokenize": "none"}, {"lowercase": True}])
def test_the_score_and_signature_are_sacrebleus(options):
    expected = sacrebleu.BLEU(force=True, **options)
    score = expected.corpus_score(HYPOTHESES, [REFERENCES]).score
    ours = SacreBleu().compute(predictions=HYPOTHESES, references=REFERENCES, **options)
    assert ours["score"] == pytest.approx(score, abs=1e-9)
    assert ours["signature"] == str(expected.get_signature())


def test_several_references_count_as_such():
    references = [[one, hypothesis] for one, hypothesis in zip(REFERENCES, HYPOTHESES, strict=True)]
    ours = SacreBleu().compute(predictions=HYPOTHESES, references=references)
    assert ours["score"] == pytest.approx(100)  # each hypothesis is among its references
    assert "nrefs:2" in ours["signature"]


def test_it_is_a_metric_of_evaluate_that_needs_no_network():
    metric = SacreBleu()
    assert isinstance(metric, evaluate.Metric)
    for prediction, reference in zip(HYPOTHESES, REFERENCES, strict=True):
        metric.add(prediction=prediction, reference=reference)
    whole = SacreBleu().compute(predictions=HYPOTHESES, references=REFERENCES)
    assert metric.compute()["score"] == pytest.approx(whole["score"])


def test_exact_match_counts_equal_lines():
    assert exact_match(["a", "b", "c", "d "], ["a", "x", "c", "d"]) == 0.5
