import math
import random
from collections import Counter

import evaluate
import pytest
import sacrebleu

from training.outcome.metrics import SacreBleu, exact_match


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


# Tokenised, compound-split BLEU


def unsmoothed_bleu(hypotheses, references):
    """Corpus BLEU as Papineni et al. (2002) define it, of tokens with a space between."""
    logs = 0.0
    for n in range(1, 5):
        matches = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            found, wanted = (
                Counter(tuple(words[place : place + n]) for place in range(len(words) - n + 1))
                for words in (hypothesis.split(), reference.split())
            )
            matches += sum(min(count, wanted[ngram]) for ngram, count in found.items())
            total += sum(found.values())
        if not matches:
            return 0.0
        logs += math.log(matches / total) / 4
    length = sum(len(hypothesis.split()) for hypothesis in hypotheses)
    wanted = sum(len(reference.split()) for reference in references)
    return 100 * math.exp(min(0.0, 1 - wanted / length) + logs)


SPLIT = {"tokenize": "none", "split_compounds": True}


def test_a_compound_split_score_worked_out_by_hand():
    # Both are cut into nine tokens, which differ in the fourth: 8 of 9 words are right, 6 of 8
    # pairs, 4 of 7 triples and 2 of 6 quadruples.
    ours = SacreBleu().compute(
        predictions=["die Rad-Tour war sehr sch\u00f6n und lang"],
        references=["die Rad-Reise war sehr sch\u00f6n und lang"],
        **SPLIT,
    )
    assert ours["score"] == pytest.approx(100 * (8 / 9 * 6 / 8 * 4 / 7 * 2 / 6) ** 0.25)
    assert (ours["counts"], ours["totals"]) == ([8, 6, 4, 2], [9, 8, 7, 6])


def test_the_compound_split_signature_says_so_after_sacrebleus():
    ours = SacreBleu().compute(predictions=HYPOTHESES, references=REFERENCES, **SPLIT)
    version = sacrebleu.__version__
    assert ours["signature"] == (
        f"nrefs:1|case:mixed|eff:no|tok:none|smooth:none|version:{version}|compounds:split"
    )


@pytest.mark.parametrize("drop", [0.0, 0.1, 0.3])
def test_the_compound_split_score_is_that_of_the_formula_without_smoothing(drop):
    chooser = random.Random(0)
    whole = ["a", "b", "c-d", "e-f-g", "h"]  # and by hand, in the same order, what they are cut to
    cut = ["a", "b", "c ##AT##-##AT## d", "e ##AT##-##AT## f-g", "h"]
    references = [chooser.choices(range(5), k=chooser.randint(4, 9)) for _ in range(20)]
    hypotheses = [
        [word if chooser.random() > 0.2 else 4 - word for word in row if chooser.random() >= drop]
        for row in references
    ]
    texts = [
        [[" ".join(spelling[word] for word in row) for row in side] for spelling in (whole, cut)]
        for side in (hypotheses, references)
    ]
    ours = SacreBleu().compute(predictions=texts[0][0], references=texts[1][0], **SPLIT)
    assert ours["score"] == pytest.approx(unsmoothed_bleu(texts[0][1], texts[1][1]), abs=1e-9)
    assert 1 < ours["score"] < 99


def test_without_a_common_quadruple_the_compound_split_score_is_zero():
    # multi-bleu.perl does not smooth; sacrebleu does unless told otherwise.
    texts = {"predictions": ["a b c x y z"], "references": ["a b c d e f"]}
    assert SacreBleu().compute(**texts, **SPLIT)["score"] == 0
    assert SacreBleu().compute(**texts, tokenize="none")["score"] > 0


def test_each_reference_of_several_is_cut():
    references = [["x y z w", hypothesis] for hypothesis in HYPOTHESES]
    hyphened = [[text.replace(" ", "-", 1) for text in row] for row in references]
    ours = SacreBleu().compute(
        predictions=[row[1] for row in hyphened], references=hyphened, **SPLIT
    )
    assert ours["score"] == pytest.approx(100)
    assert ours["sys_len"] == 15  # 7 and 6 tokens, of which a hyphen each made a third


# What the rules of Moses make of it, by hand: marks are cut off, but for the points of a known
# abbreviation and of a number; typographic quotation marks become plain, and match plain ones.
RAW = ["Der Rad-Weg ist da, z.B. am 3. Mai.", "Sie sagt: \u201cJa\u201d!"]
TOKENISED = ["Der Rad-Weg ist da , z.B. am 3. Mai .", 'Sie sagt : " Ja " !']
RAW_REFERENCES = ["Der Rad-Pfad ist da, z.B. am 3. Mai.", 'Sie sagt: "Nein"!']
TOKENISED_REFERENCES = ["Der Rad-Pfad ist da , z.B. am 3. Mai .", 'Sie sagt : " Nein " !']


@pytest.mark.parametrize("is_split", [False, True])
def test_moses_tokenises_before_compounds_are_cut(is_split):
    pytest.importorskip("sacremoses")
    metric = SacreBleu()
    expected = metric.compute(
        predictions=TOKENISED,
        references=TOKENISED_REFERENCES,
        tokenize="none",
        split_compounds=is_split,
    )
    ours = metric.compute(
        predictions=RAW,
        references=RAW_REFERENCES,
        tokenize="moses-de",
        split_compounds=is_split,
    )
    for figure in ("score", "counts", "totals", "ref_len"):
        assert ours[figure] == expected[figure]
    assert "|tok:moses-de-sacremoses-" in ours["signature"]
    assert "tok:none" not in ours["signature"]


@pytest.mark.parametrize("tokenize", ["13a", "intl"])
def test_cutting_before_another_tokenizer_is_refused(tokenize):
    with pytest.raises(ValueError, match=f"tokenize='{tokenize}' would come after it"):
        SacreBleu().compute(
            predictions=HYPOTHESES,
            references=REFERENCES,
            tokenize=tokenize,
            split_compounds=True,
        )


def test_an_unknown_tokenizer_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"\(none, .*13a.*got tokenize='mosses-de'"):
        SacreBleu().compute(predictions=HYPOTHESES, references=REFERENCES, tokenize="mosses-de")


def test_a_language_that_moses_does_not_know_is_refused():
    pytest.importorskip("sacremoses")
    with pytest.raises(ValueError, match=r"tokenize='moses-xx'.*cs, de"):
        SacreBleu().compute(predictions=HYPOTHESES, references=REFERENCES, tokenize="moses-xx")
