import json
import random
import shutil

import pytest
import torch
from transformers import AutoTokenizer

from tests.translation.ctranslate2_models import (
    EOS,
    PAD,
    V,
    disturbed_model,
    ids_of_generate,
    random_sentences,
    save,
    talkative_model,
    words,
)
from vaswani_hf import Translator, VaswaniForConditionalGeneration
from vaswani_hf.conversion.ctranslate2 import to_ctranslate2
from vaswani_hf.translation.ctranslate2 import (
    CTranslate2Translator,
    Hypothesis,
    warn_of_ranking_again,
)


pytest.importorskip("ctranslate2")


@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 1},
        {"num_beams": 3},
        {"num_beams": 4, "length_penalty": 1.5},
        {"num_beams": 3, "length_penalty": 0.0},
    ],
    ids=str,
)
def test_translations_are_those_of_generate(talkative, options):
    ours, theirs = talkative
    model = VaswaniForConditionalGeneration.from_pretrained(ours)
    tokenizer = AutoTokenizer.from_pretrained(ours)
    sentences = random_sentences(60, longest=9)
    found = CTranslate2Translator(theirs, **options).target_ids(tokenizer(sentences)["input_ids"])
    assert found == ids_of_generate(model, tokenizer, sentences, **options)
    # Else the comparison would say little.
    assert len({tuple(target) for target in found}) > 10
    assert 10 < sum(target[-1] == EOS for target in found) < 60


def test_a_search_that_may_not_stop_early_finds_more(talkative, tmp_path):
    theirs = shutil.copytree(talkative[1], tmp_path / "theirs")
    path = theirs / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"early_stopping": "never"}))
    sources = words("s", V)(random_sentences(20, longest=9))["input_ids"]
    num_found = {}
    for folder in (talkative[1], theirs):
        found = CTranslate2Translator(folder, num_beams=3).search(sources, 30)
        num_found[folder] = {len(hypotheses) for hypotheses in found}
    assert num_found[talkative[1]] == {3}
    assert max(num_found[theirs]) == 6


def test_the_copier_copies_as_generate_does(copier, copier_folder, tmp_path):
    to_ctranslate2(copier_folder, tmp_path / "theirs")
    chooser = random.Random(1)
    sentences = [" ".join(chooser.choices("abcdefgh", k=chooser.randint(1, 10))) for _ in range(99)]
    sentences[5] = " "
    translator = CTranslate2Translator(tmp_path / "theirs", batch_tokens=64)
    assert (translator.num_beams, translator.length_penalty_type) == (2, "wu")  # the copier's
    found = translator(sentences)
    assert found == Translator(*copier)(sentences)
    assert found[5] == ""


# log(p) / ((5 + n) / 6)^alpha of Wu et al., and log(p) / n^alpha, by hand.
@pytest.mark.parametrize(
    ("kind", "alpha", "best"),
    [
        ("wu", 1.0, 0),  # -2.0 / (7 / 6) = -1.714; -4.0 / (13 / 6) = -1.846
        ("power", 1.0, 1),  # -2.0 / 2 = -1; -4.0 / 8 = -0.5
        ("power", 0.0, 0),
        ("wu", 2.0, 1),  # -2.0 / 1.361 = -1.469; -4.0 / 4.694 = -0.852
    ],
)
def test_hypotheses_are_ranked_by_the_length_penalty(talkative, kind, alpha, best):
    found = [Hypothesis([7, EOS], -2.0), Hypothesis([5] * 7 + [EOS], -4.0)]
    translator = CTranslate2Translator(
        talkative[1], length_penalty_type=kind, length_penalty=alpha, num_beams=2
    )
    assert max(found, key=translator.rank) == found[best]
    cut_off = Hypothesis([5, 5], -0.1)  # by a limit; what the library's search thinks of it differs
    expected = found[best] if kind == "wu" else cut_off
    assert max([cut_off, *found], key=translator.rank) == expected


def test_hypotheses_come_in_their_rank_and_the_first_is_the_translation(talkative):
    translator = CTranslate2Translator(talkative[1], num_beams=3, length_penalty=1.0)
    sources = words("s", V)(random_sentences(20, longest=9))["input_ids"]
    found = translator.hypotheses(sources)
    assert {len(hypotheses) for hypotheses in found} == {3}
    for hypotheses in found:
        # By power, and an exponent of 1.
        scores = [hypothesis.log_prob / len(hypothesis.ids) for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
    assert translator.target_ids(sources) == [hypotheses[0].ids for hypotheses in found]


def test_log_probabilities_of_hypotheses_are_sums_over_their_tokens(talkative):
    ours, theirs = talkative
    model = VaswaniForConditionalGeneration.from_pretrained(ours)
    source = [5, 9, 3, EOS]
    for alpha in (0.0, 0.6, 2.0):
        translator = CTranslate2Translator(theirs, num_beams=2, length_penalty=alpha)
        (found,) = translator.search([source], 12)
        assert len(found) == 2
        for hypothesis in found:
            with torch.no_grad():
                logits = model(
                    input_ids=torch.tensor([source]),
                    decoder_input_ids=torch.tensor([[PAD, *hypothesis.ids[:-1]]]),
                ).logits[0]
            log_probs = logits.log_softmax(dim=-1)
            expected = sum(log_probs[n, token].item() for n, token in enumerate(hypothesis.ids))
            assert hypothesis.log_prob == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("num_beams", [1, 2])
def test_each_translation_is_limited_by_its_own_source(tmp_path, num_beams):
    model = talkative_model()
    model.generation_config.suppress_tokens = [EOS]  # which is carried over: none ever ends
    model.generation_config.length_penalty_type = "power"
    model.generation_config.max_extra_tokens = 3
    to_ctranslate2(save(model, tmp_path / "ours"), tmp_path / "theirs")
    tokenizer = words("s", V)
    translator = CTranslate2Translator(tmp_path / "theirs", num_beams=num_beams)
    sources = tokenizer(random_sentences(12, longest=9))["input_ids"]
    found = translator.target_ids(sources)
    assert [len(target) for target in found] == [len(source) + 3 for source in sources]
    assert len(translator.target_ids([[4] * 31 + [EOS]])[0]) == 32  # as many as positions


def test_a_limit_takes_a_translation_that_ends_in_time(talkative):
    ours, theirs = talkative
    model = VaswaniForConditionalGeneration.from_pretrained(ours)
    tokenizer = AutoTokenizer.from_pretrained(ours)
    sentences = random_sentences(60, longest=9)
    options = {"num_beams": 3, "max_extra_tokens": 1}
    found = CTranslate2Translator(theirs, **options).target_ids(tokenizer(sentences)["input_ids"])
    assert found == ids_of_generate(model, tokenizer, sentences, **options)


def test_a_source_of_more_tokens_than_positions_is_refused(talkative):
    translator = CTranslate2Translator(talkative[1])
    with pytest.raises(ValueError, match=r"33 tokens .* has 32.*max_position_embeddings"):
        translator(["s0", " ".join(["s1"] * 32)])


def test_long_sources_are_not_cut(tmp_path):
    model = disturbed_model(max_position_embeddings=1200)
    to_ctranslate2(save(model, tmp_path / "ours"), tmp_path / "theirs")
    long = " ".join(random_sentences(1200, longest=1))
    translator = CTranslate2Translator(tmp_path / "theirs", num_beams=1, max_extra_tokens=0)
    ids = words("s", V)(long)["input_ids"][-1100:]  # CTranslate2 cuts at 1024 unless told
    first = next(number for number in range(3, V) if number != ids[-2])
    changed = [*ids[:-2], first, EOS]
    scores = [translator.search([source], 1)[0][0].log_prob for source in (ids, changed)]
    assert scores[0] != scores[1]


def test_ranking_by_wu_is_told_once(talkative, caplog):
    warn_of_ranking_again.cache_clear()  # an earlier test may have been told
    for options in ({}, {"num_beams": 1, "length_penalty_type": "wu"}):
        CTranslate2Translator(talkative[1], **options)
    assert not caplog.records
    for _ in range(2):
        CTranslate2Translator(talkative[1], length_penalty_type="wu")
    (record,) = caplog.records
    assert "Wu et al." in record.getMessage()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("num_beams", 0),
        ("num_beams", 100_000_000),
        ("threads", 0),
        ("max_extra_tokens", -1),
        ("length_penalty_type", "gnmt"),
    ],
)
def test_options_out_of_range_are_refused_by_name(talkative, option, value):
    with pytest.raises(ValueError, match=f"{option}={value!r}"):
        CTranslate2Translator(talkative[1], **{option: value})


def test_torch_keeps_its_threads(talkative):
    before = torch.get_num_threads()
    try:
        for threads in (3, 1):
            torch.set_num_threads(threads)
            CTranslate2Translator(talkative[1], threads=2)(["a b"])
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_threads_share_sentences_within_their_budgets(talkative, monkeypatch):
    sentences = random_sentences(41, longest=9)
    plan = {"batch_tokens": 20, "max_batch_sentences": 5}
    alone = CTranslate2Translator(talkative[1], threads=1, **plan)
    together = CTranslate2Translator(talkative[1], threads=2, **plan)
    assert together.model.num_translators == 2
    batches = []

    class Noting:
        def translate_batch(self, sources, *, max_batch_size, **named):
            batches.append((sources, max_batch_size))
            return alone.model.translate_batch(sources, max_batch_size=max_batch_size, **named)

    expected = alone(sentences)
    assert together(sentences) == expected
    monkeypatch.setattr(together, "model", Noting())
    assert together(sentences) == expected
    for sources, share in batches:
        longest = max(map(len, sources))
        assert share <= 5 and (share * longest <= 20 or share == 1)
    assert any(len(sources) > share for sources, share in batches)  # both have work
