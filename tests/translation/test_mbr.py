import dataclasses
import random
from collections import Counter

import pytest

from tests.translation.ctranslate2_models import random_sentences
from vaswani_hf import CTranslate2Translator, Translator
from vaswani_hf.translation.mbr import Utility, matching


sacrebleu = pytest.importorskip("sacrebleu")

SCORES = {"chrf": sacrebleu.sentence_chrf, "bleu": sacrebleu.sentence_bleu}
# Texts without n-grams of some orders or of any, repeated n-grams, punctuation, other scripts.
ODD = [
    "",
    " ",
    "a",
    "ab",
    "a a a a b a a",
    "Ein Mann, der (laut) singt.",
    "Ein Mann  der singt",
    "ein mann der singt .",
    "Zwei Männer singen laut.",
    "二人の男",
    "Ein Mann, der (laut) singt.",
]


def by_hand(name, texts):
    """A plain double loop, each text against all others."""
    return [
        sum(SCORES[name](text, [other]).score for j, other in enumerate(texts) if j != i)
        / (len(texts) - 1)
        for i, text in enumerate(texts)
    ]


def random_texts(seed):
    chooser = random.Random(seed)
    words = ["the", "man", "men", "sings", "singing", "a", "song", ".", "loudly"]
    return [" ".join(chooser.choices(words, k=chooser.randint(1, 12))) for _ in range(12)] * 2


@pytest.mark.parametrize("name", SCORES)
def test_every_utility_is_that_of_sacrebleu(name):
    for texts in (ODD, random_texts(0)):
        found = Utility(name).matrix(texts)
        assert found == [[SCORES[name](text, [other]).score for other in texts] for text in texts]


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("seed", range(3))
def test_the_mean_is_that_of_a_double_loop(name, seed):
    for texts in (ODD, random_texts(seed), ["the same"] * 3, ["one", "other"]):
        expected, found = by_hand(name, texts), Utility(name).expected(texts)
        assert found == pytest.approx(expected, rel=1e-12)
        best = max(range(len(texts)), key=expected.__getitem__)
        assert texts[found.index(max(found))] == texts[best]


def test_what_was_sampled_twice_weighs_twice():
    # Alone, the first two are each other's only likeness; the copies outweigh them.
    utility = Utility("chrf")
    once = utility.expected(["abcdef", "abcdeg", "xyz"])
    twice = utility.expected(["abcdef", "abcdeg", "xyz", "xyz", "xyz"])
    assert once.index(max(once)) == 0
    assert twice.index(max(twice)) == 2


def test_one_candidate_is_the_best_and_none_is_none():
    assert Utility("chrf").expected(["a"]) == [100.0]
    assert Utility("bleu").expected([]) == []


def test_an_unknown_utility_is_refused_by_name():
    with pytest.raises(ValueError, match='"chrf" or "bleu", got \'ter\''):
        Utility("ter")


def test_matching_ngrams_are_counted_as_often_as_both_have_them():
    # By hand: min(3, 2) of a, min(1, 0) of b, min(0, 1) of c.
    assert matching([Counter("aaab"), Counter("aac")]) == [[4, 2], [2, 3]]


# The translators


SAMPLES = {"num_candidates": 6, "sampling_topk": 0, "seed": 3}


@pytest.fixture(scope="module")
def translator(talkative):
    return Translator.from_pretrained(talkative[0], device="cpu", num_beams=4)


@pytest.mark.parametrize("options", [{}, {"num_candidates": 3}, SAMPLES])
@pytest.mark.parametrize("utility", SCORES)
def test_the_choice_is_the_candidate_with_the_largest_mean(translator, utility, options):
    sentences = [*random_sentences(5, 6), ""]
    chosen = translator.mbr(sentences, utility=utility, **options)
    options = dict(options)
    count = options.pop("num_candidates", 4)
    candidates = translator.n_best(sentences, num_return_sequences=count, **options)
    for one, several in zip(chosen, candidates, strict=True):
        means = by_hand(utility, [candidate.text for candidate in several])
        best = several[means.index(max(means))]
        assert (one.text, one.score, one.ids) == (best.text, best.score, best.ids)
        assert one.utility == pytest.approx(max(means), rel=1e-12)


def test_a_text_a_list_and_an_iterator_are_answered_alike(translator):
    sentences = random_sentences(3, 6)
    expected = translator.mbr(sentences)
    assert list(translator.mbr(iter(sentences))) == expected
    alone = translator.mbr(sentences[0])
    # A product of fewer rows may round differently, as it does on processors without AVX-512.
    assert alone.score == pytest.approx(expected[0].score, rel=1e-6)
    assert alone.log_prob == pytest.approx(expected[0].log_prob, rel=1e-6)
    same = {"score": expected[0].score, "log_prob": expected[0].log_prob}
    assert dataclasses.replace(alone, **same) == expected[0]


def test_the_other_engine_chooses_too(talkative):
    engine = CTranslate2Translator(talkative[1], device="cpu", num_beams=3)
    sentences = random_sentences(3, 6)
    for one, several in zip(
        engine.mbr(sentences), engine.n_best(sentences, num_return_sequences=3), strict=True
    ):
        means = by_hand("chrf", [candidate.text for candidate in several])
        assert one.text == several[means.index(max(means))].text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampling_topk": 0}, "num_candidates is missing"),
        ({"num_candidates": 0}, "num_candidates must be at least 1, got num_candidates=0"),
        ({"num_candidates": 5}, "got num_candidates=5 and num_beams=4"),
    ],
)
def test_numbers_that_cannot_be_are_refused(translator, options, message):
    with pytest.raises(ValueError, match=message):
        translator.mbr("s1", **options)
