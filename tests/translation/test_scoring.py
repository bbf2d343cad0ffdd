import itertools
import math

import pytest
import torch

from tests.searching import (
    CLOSE,
    EOS,
    PAD,
    batch_of,
    draw_model,
    draw_sources,
    endless,
    log_probability,
    pieces_of,
)
from tests.translation.ctranslate2_models import random_sentences
from vaswani_hf import CTranslate2Translator, Translator, VaswaniForConditionalGeneration
from vaswani_hf.translation.forcing import forced_log_probs, start_id_of
from vaswani_hf.translation.pairs import PairError, PairReader
from vaswani_hf.translation.scoring import (
    PairScore,
    ctranslate2_log_probs,
    perplexity,
    score_pairs,
)


SOURCES = draw_sources(4, 7, 2, 5, 9, 3)


class Pieces:
    """A tokenizer of ids alone."""

    def convert_ids_to_tokens(self, ids):
        return [f"piece {token}" for token in ids]


def reader(**options):
    defaults = {"end_ids": [EOS], "max_positions": None, "batch_tokens": 40}
    return PairReader(Pieces(), Pieces(), **defaults | {"max_batch_sentences": 64} | options)


def scores_of(model, sources, targets, penalty=lambda num_tokens: 1.0, **options):
    def log_probs(*sides):
        return forced_log_probs(model, PAD, *sides)

    return list(score_pairs(reader(**options), sources, targets, log_probs, penalty))


@pytest.mark.parametrize("name", ["wu", "power"])
@pytest.mark.parametrize("make", [draw_model, endless], ids=["ends", "is cut off"])
def test_the_score_of_what_beam_search_finds_is_its_own(name, make):
    model = make(seed=3) if make is draw_model else make()
    found = model.generate(
        **batch_of(SOURCES),
        num_beams=4,
        num_return_sequences=4,
        length_penalty=0.7,
        length_penalty_type=name,
        max_extra_tokens=3,
        return_dict_in_generate=True,
    )
    targets = [list(pieces_of(row)) for row in found.sequences]
    assert (make is endless) != any(target[-1] == EOS for target in targets)
    sources = [source for source in SOURCES for _ in range(4)]
    penalty = (lambda n: ((5 + n) / 6) ** 0.7) if name == "wu" else (lambda n: n**0.7)
    scores = scores_of(model, sources, targets, penalty)
    assert [one.score for one in scores] == pytest.approx(found.sequences_scores.tolist(), **CLOSE)


def test_log_probabilities_are_those_of_a_loop_by_hand():
    model, target = draw_model(1), (5, 9, 4, EOS)
    (score,) = scores_of(model, SOURCES[:1], [target])
    # The log-probability of a target is that of one piece less, and its last one's.
    whole = [log_probability(model, SOURCES[0], target[:n]) for n in range(1, 5)]
    apart = [whole[0], *(b - a for a, b in itertools.pairwise(whole))]
    assert score.log_probs == pytest.approx(apart, **CLOSE)
    assert score.log_prob == pytest.approx(whole[-1], **CLOSE)
    assert score.perplexity == pytest.approx(math.exp(-whole[-1] / 4), rel=1e-5)
    assert score.tokens == ["piece 5", "piece 9", "piece 4", "piece 2"]


@pytest.mark.parametrize("options", [{"batch_tokens": 1}, {"chunk_pairs": 2}, {}])
def test_batches_and_padding_change_nothing_and_keep_the_order(options):
    model = draw_model(2)
    targets = draw_sources(3, 1, 8, 2, 5, 6, seed=1)
    scores = scores_of(model, SOURCES, targets, **options)
    expected = [
        log_probability(model, source, tuple(target))
        for source, target in zip(SOURCES, targets, strict=True)
    ]
    assert [one.log_prob for one in scores] == pytest.approx(expected, **CLOSE)
    assert [one.ids for one in scores] == targets


def test_scores_come_as_they_are_asked_for():
    model = draw_model(2)
    read = []

    def sources():
        for source in SOURCES:
            read.append(source)
            yield source

    def log_probs(*sides):
        return forced_log_probs(model, PAD, *sides)

    found = score_pairs(reader(chunk_pairs=2), sources(), SOURCES, log_probs, lambda n: 1.0)
    next(found)
    assert len(read) == 2


def test_the_perplexity_of_several_counts_tokens_not_sentences():
    # By hand: exp((1 + 2 + 3) / 3) of all tokens; neither average of exp(1.5) and exp(3).
    scores = [
        PairScore([4, EOS], ["a", "</s>"], [-1.0, -2.0], -3.0),
        PairScore([EOS], ["</s>"], [-3.0], -3.0),
    ]
    assert perplexity(scores) == pytest.approx(math.exp(2))
    assert scores[0].perplexity == pytest.approx(math.exp(1.5))
    assert PairScore([4], ["a"], [-1e4], -1e4).perplexity == math.inf
    with pytest.raises(ValueError, match="score at least one target"):
        perplexity([])


def test_a_model_that_computes_nan_is_told():
    model = draw_model(0)
    with torch.no_grad():
        model.lm_head.bias[7] = math.nan
    with pytest.raises(ValueError, match="The model computes NaN"):
        scores_of(model, SOURCES[:1], [[4, EOS]])


def test_a_model_without_a_start_is_told():
    model = draw_model(0)
    model.generation_config.decoder_start_token_id = model.config.decoder_start_token_id = None
    with pytest.raises(ValueError, match="VaswaniForConditionalGeneration name no decoder_start"):
        start_id_of(model)


# CTranslate2


@pytest.fixture(scope="module")
def engine(talkative):
    return CTranslate2Translator(talkative[1], device="cpu", num_beams=3, threads=1)


def ctranslate2_scores(engine, sources, targets):
    return ctranslate2_log_probs(
        engine.model,
        "</s>",
        [[engine.source_pieces[token] for token in source] for source in sources],
        [[engine.target_pieces[token] for token in target] for target in targets],
        max_batch_size=2,
    )


def test_both_engines_say_the_same(engine, talkative):
    model = VaswaniForConditionalGeneration.from_pretrained(talkative[0])
    sources = draw_sources(4, 7, 1, 5, vocab_size=23)
    # Whole ones, one of </s> alone, one that is cut off, and one with </s> inside and <unk>.
    targets = [[4, 5, EOS], [EOS], [7, 8, 9], [4, EOS, 0, EOS]]
    expected = forced_log_probs(model, PAD, sources, targets)
    found = ctranslate2_scores(engine, sources, targets)
    for row, expected_row in zip(found, expected, strict=True):
        assert row == pytest.approx(expected_row, **CLOSE)


def test_the_score_of_what_ctranslate2_finds_is_its_own(engine):
    sources = engine.tokenizer(random_sentences(8, 7))["input_ids"]
    most = 6
    found = [
        (source, hypothesis)
        for source, hypotheses in zip(sources, engine.search(sources, most), strict=True)
        for hypothesis in hypotheses
    ]
    ends = [hypothesis.ids[-1] == EOS for _, hypothesis in found]
    assert any(ends) and not all(ends)
    rows = ctranslate2_scores(engine, [s for s, _ in found], [h.ids for _, h in found])
    assert [math.fsum(row) for row in rows] == pytest.approx(
        [hypothesis.log_prob for _, hypothesis in found], **CLOSE
    )


# The translators


@pytest.fixture(scope="module")
def translator(talkative):
    return Translator.from_pretrained(talkative[0], device="cpu")


@pytest.mark.parametrize("name", ["translator", "engine"])
def test_a_text_a_list_and_an_iterator_are_answered_alike(name, request):
    asked = request.getfixturevalue(name)
    sources, targets = ["s0 s1 s2", "s3", ""], ["t0", "t1 t2 t3 nonsense", ""]
    scores = asked.score(sources, targets)
    assert [score.tokens for score in scores] == [
        ["t0", "</s>"],
        ["t1", "t2", "t3", "<unk>", "</s>"],
        ["</s>"],
    ]
    for source, target, expected in zip(sources, targets, scores, strict=True):
        alone = asked.score(source, target)
        assert alone.tokens == expected.tokens
        assert alone.log_probs == pytest.approx(expected.log_probs, **CLOSE)
    found = asked.score(iter(sources), iter(targets), chunk_sentences=1)
    assert iter(found) is found
    assert [score.ids for score in found] == [score.ids for score in scores]


@pytest.mark.parametrize("name", ["translator", "engine"])
def test_the_length_penalty_is_that_of_the_search_unless_given(name, request):
    asked = request.getfixturevalue(name)  # `power` with 0.6
    score = asked.score("s0 s1", "t0 t1")
    assert score.score == pytest.approx(score.log_prob / 3**0.6)
    given = asked.score("s0 s1", "t0 t1", length_penalty=0.6, length_penalty_type="wu")
    assert given.score == pytest.approx(score.log_prob / (8 / 6) ** 0.6)
    assert asked.score("s0 s1", "t0 t1", length_penalty=0).score == score.log_prob
    with pytest.raises(ValueError, match="length_penalty_type='other'"):
        asked.score("s0", "t0", length_penalty_type="other")


@pytest.mark.parametrize("name", ["translator", "engine"])
@pytest.mark.parametrize("token", [-1, 23])
def test_ids_that_the_vocabulary_lacks_are_named(name, request, token):
    asked = request.getfixturevalue(name)
    message = f"no piece of id {token}, for its vocabulary has 23 pieces, 0 to 22"
    with pytest.raises(PairError, match=rf"target 1 .* {message}"):
        asked.score([[3, EOS], [3, EOS]], [[4, EOS], [4, token, EOS]])
    with pytest.raises(PairError, match=rf"source 0 .* {message}"):
        asked.score([[token, EOS]], [[4, EOS]])


def test_a_cut_off_target_needs_a_position_more_of_ctranslate2(engine):
    # The table has 32 positions.
    assert len(engine.score([[3, EOS]], [[4] * 31 + [EOS]])[0].log_probs) == 32
    assert len(engine.score([[3, EOS]], [[4] * 31])[0].log_probs) == 31
    with pytest.raises(PairError, match="its 32 tokens need 33 positions, but the model has 32"):
        engine.score([[3, EOS]], [[4] * 32])


def test_threads_of_ctranslate2_change_nothing(talkative, engine):
    several = CTranslate2Translator(talkative[1], device="cpu", threads=3)
    sources, targets = draw_sources(4, 7, 1, 5, 2, vocab_size=23), [[4], [5, EOS], [EOS], [6], [7]]
    for score, other in zip(
        several.score(sources, targets), engine.score(sources, targets), strict=True
    ):
        assert score.log_probs == pytest.approx(other.log_probs, **CLOSE)


def test_ctranslate2_refuses_to_align_and_names_the_engine_that_can(engine):
    with pytest.raises(ValueError, match="--engine transformers, and the folder that was conver"):
        engine.align("s0", "t0")


def test_a_translator_aligns(translator):
    found = translator.align(["s0 s1", ""], ["t0 t1 t2", "t1"], layer=0, head=1)
    assert [one.target.words for one in found] == [["t0", "t1", "t2"], ["t1"]]
    assert sorted(target for _, target in found[0].pairs) == [0, 1, 2]
    assert translator.align("s0 s1", "t0 t1 t2", layer=0, head=1).pharaoh == found[0].pharaoh
