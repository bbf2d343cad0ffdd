"""Scores and their confidence, against sacrebleu's own."""

import pytest
import sacrebleu

from tests.evaluation.texts import made_up_texts
from vaswani_hf.evaluation import Metric, metrics


REFERENCES, BETTER, WORSE = made_up_texts()
OF_SACREBLEU = {
    "bleu": lambda: sacrebleu.BLEU(),
    "chrf++": lambda: sacrebleu.CHRF(word_order=2),
    "ter": lambda: sacrebleu.TER(),
}


def score(name, hypotheses, references, num_resamples=1000, **options):
    metric = Metric(name, **options)
    return metric.score(metric.statistics(hypotheses, references), num_resamples)


@pytest.mark.parametrize("name", metrics.METRICS)
@pytest.mark.parametrize("sentences", [1, 37, 60])
def test_score_confidence_and_signature_are_sacrebleus(name, sentences, monkeypatch):
    # Chunks that the sentences do not fill.
    monkeypatch.setattr(metrics, "_CHUNK_SENTENCES", 8)
    texts = WORSE[:sentences], [REFERENCES[:sentences], BETTER[:sentences]]
    theirs = OF_SACREBLEU[name]()
    expected = theirs.corpus_score(*texts, n_bootstrap=1000)
    found = score(name, *texts)
    assert (found.score, found.mean, found.ci) == (expected.score, expected._mean, expected._ci)
    assert (found.name, found.signature) == (expected.name, str(theirs.get_signature()))


def test_the_seed_of_sacrebleu_is_heeded(monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    theirs = sacrebleu.BLEU()
    expected = theirs.corpus_score(BETTER, [REFERENCES], n_bootstrap=1000)
    found = score("bleu", BETTER, [REFERENCES])
    assert (found.mean, found.signature) == (expected._mean, str(theirs.get_signature()))
    assert "|seed:7|" in found.signature


@pytest.mark.parametrize(("name", "mean"), [("chrf++", 75), ("ter", 50)])
def test_resamples_of_which_some_have_no_reference_have_a_mean_too(name, mean):
    # By hand: of four resamples, one has the first sentence alone, which has nothing to match (0
    # and 100), one the second (100 and 0), and two have both (100 and 50). sacrebleu fails here.
    found = score(name, ["x", "a b"], [["", "a b"]])
    # Three standard deviations of the mean of a thousand.
    assert found.mean == pytest.approx(mean, abs=4.1)
    assert found.ci == 50


def test_details_of_bleu_are_those_of_the_definition():
    # By hand: 4 tokens of 5; 3 pairs, 2 triples and 1 quadruple, and all match.
    found = score("bleu", ["a b c d"], [["a b c d e"]], 0)
    details = found.details
    assert (details["counts"], details["totals"]) == ([4, 3, 2, 1], [4, 3, 2, 1])
    assert (details["sys_len"], details["ref_len"]) == (4, 5)
    assert details["bp"] == pytest.approx(2.718281828459045 ** (1 - 5 / 4))
    assert (found.mean, found.ci) == (None, None) and "bs:" not in found.signature


@pytest.mark.parametrize(("name", "before", "after"), [("bleu", 0, 100), ("chrf++", 0, 100)])
def test_case_can_count_for_nothing(name, before, after):
    texts = ["XYZW ABCD EFG HIJ"], [["xyzw abcd efg hij"]]
    assert score(name, *texts, 0).score == pytest.approx(before)
    lowered = score(name, *texts, 0, lowercase=True)
    assert lowered.score == pytest.approx(after) and "case:lc" in lowered.signature


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["a", "b"], [["a"]], "2 hypotheses and 1 references"),
        (["a"], [["a"], ["a", "b"]], "1 hypotheses and 1 and 2 references"),
        (["a"], [], "1 hypotheses and no references"),
        ([], [[]], "0 hypotheses and 0 references"),
    ],
)
def test_texts_that_do_not_fit_are_refused(hypotheses, references, message):
    with pytest.raises(ValueError, match=message):
        Metric("bleu").statistics(hypotheses, references)


def test_an_unknown_metric_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"bleu, chrf\+\+, ter; got 'chrf'"):
        Metric("chrf")
