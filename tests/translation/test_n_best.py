import copy
import math
import threading

import pytest
import torch
from transformers import MarianConfig, MarianMTModel

from tests.searching import CLOSE
from tests.small_models import small_model
from tests.translation.ctranslate2_models import EOS, PAD, V, random_sentences, words
from vaswani_hf import CTranslate2Translator, Translator
from vaswani_hf.translation import LongPrefixError, LongSourceError, PairError, Translation


SENTENCES = [*random_sentences(5, longest=6), "", *random_sentences(3, longest=9, seed=1)]
BLANK = SENTENCES.index("")
PREFIXES = ["t3", None, "t4 t1", "", "t5 t3", "t9", "t3", "t0 t1 t2", None]


@pytest.fixture(scope="module")
def translator(talkative):
    return Translator.from_pretrained(talkative[0], device="cpu", num_beams=4)


@pytest.fixture(scope="module")
def engine(talkative):
    pytest.importorskip("ctranslate2")
    return CTranslate2Translator(talkative[1], device="cpu", num_beams=4, threads=1)


BOTH = pytest.mark.parametrize("name", ["translator", "engine"])


def by_generate(translator, sentence, **options):
    """What the model's own `generate()` finds for a sentence alone: ids, and what it returns."""
    batch = translator.tokenizer(sentence, return_tensors="pt")
    outputs = translator.model.generate(**batch, return_dict_in_generate=True, **options)
    found = []
    for row in outputs.sequences.tolist():
        ids = row[1:]
        length = ids.index(EOS) + 1 if EOS in ids else len(ids)
        while ids[length - 1] == PAD:
            length -= 1
        found.append(ids[:length])
    return found, outputs


def close(found, expected):
    """The same translations, with the same scores up to rounding."""
    for several, others in zip(found, expected, strict=True):
        assert [one.ids for one in several] == [one.ids for one in others]
        assert [one.text for one in several] == [one.text for one in others]
        for which in ("score", "log_prob"):
            numbers, expected_numbers = (
                [getattr(t, which) for t in ts] for ts in (several, others)
            )
            assert numbers == pytest.approx(expected_numbers, **CLOSE)


@pytest.mark.parametrize("kind", ["wu", "power"])
def test_the_n_best_are_those_of_generate_with_its_scores(talkative, kind):
    options = {"num_beams": 4, "length_penalty_type": kind}
    translator = Translator.from_pretrained(talkative[0], device="cpu", **options)
    found = translator.n_best(SENTENCES, num_return_sequences=3)
    for sentence, several in zip(SENTENCES, found, strict=True):
        if not sentence:
            continue
        ids, outputs = by_generate(translator, sentence, num_return_sequences=3, **options)
        assert [one.ids for one in several] == ids
        scores = outputs.sequences_scores.tolist()
        assert [one.score for one in several] == pytest.approx(scores, **CLOSE)
        penalties = [
            ((5 + len(one)) / 6) ** 0.6 if kind == "wu" else len(one) ** 0.6 for one in ids
        ]
        expected = [score * penalty for score, penalty in zip(scores, penalties, strict=True)]
        assert [one.log_prob for one in several] == pytest.approx(expected, **CLOSE)
        decode = translator.target_tokenizer.decode
        assert [one.text for one in several] == [
            decode(one[:-1] if one[-1] == EOS else one) for one in ids
        ]
    assert any(one.ids[-1] != EOS for several in found for one in several if one.ids)


def test_both_engines_find_the_same(translator, engine):
    options = {"num_return_sequences": 3}
    close(engine.n_best(SENTENCES, **options), translator.n_best(SENTENCES, **options))


@BOTH
def test_the_best_is_what_a_call_gives(name, request):
    asked = request.getfixturevalue(name)
    found = asked.n_best(SENTENCES, num_return_sequences=2)
    assert [several[0].text for several in found] == asked(SENTENCES)


@BOTH
def test_one_several_and_any_number_of_sentences_are_answered_alike(name, request):
    asked, read = request.getfixturevalue(name), []

    def lines():
        for sentence in SENTENCES:
            read.append(sentence)
            yield sentence

    expected = asked.n_best(SENTENCES, num_return_sequences=2)
    found = asked.n_best(lines(), num_return_sequences=2, chunk_sentences=4)
    assert read == []
    first = next(found)
    assert len(read) == 4
    close([first, *found], expected)
    assert len(read) == len(SENTENCES)
    close([asked.n_best(SENTENCES[0], num_return_sequences=2)], expected[:1])
    assert asked.n_best([]) == []


@BOTH
def test_a_blank_sentence_has_as_many_empty_translations(name, request):
    found = request.getfixturevalue(name).n_best(["s1", "  "], num_return_sequences=2)
    assert found[1] == [Translation("", 0.0, 0.0, [])] * 2


@BOTH
def test_more_translations_than_beams_are_refused_by_both_names(name, request):
    asked = request.getfixturevalue(name)
    with pytest.raises(ValueError, match=r"num_return_sequences=5 and num_beams=4; take as many"):
        asked.n_best("s1", num_return_sequences=5)
    with pytest.raises(ValueError, match="num_return_sequences=0"):
        asked.n_best("s1", num_return_sequences=0)
    with pytest.raises(ValueError, match="chunk_sentences=0"):
        asked.n_best(iter(["s1"]), chunk_sentences=0)


def test_the_place_of_a_long_sentence_is_that_in_all_of_them(engine):
    found = engine.n_best(iter(["s1", "s2", "s3", "s4 " * 40]), chunk_sentences=2)
    next(found), next(found)
    with pytest.raises(LongSourceError, match="41 tokens") as refused:
        list(found)
    assert refused.value.place == 3


def test_what_is_far_beyond_the_training_is_refused(translator):
    assert translator.max_extra_tokens == 9
    with pytest.raises(LongSourceError, match="1102 tokens is longer than the 1024") as refused:
        translator(["s1", "s1 " * 1101])
    assert refused.value.place == 1
    with pytest.raises(PairError, match=r"target 0 .* 1102 tokens are more than the 1033"):
        translator.score("s1", "t1 " * 1101)
    with pytest.raises(LongPrefixError, match="1101 tokens is longer than the 1033"):
        translator("s1", prefixes="t1 " * 1101)


def test_how_long_a_sentence_may_be_can_be_chosen(talkative):
    folder, converted = talkative
    for make, place in ((Translator.from_pretrained, folder), (CTranslate2Translator, converted)):
        short = make(place, device="cpu", num_beams=1, max_source_tokens=3)
        assert short("s1 s2")
        with pytest.raises(LongSourceError, match="4 tokens is longer than the 3"):
            short("s1 s2 s3")
        with pytest.raises(PairError, match=r"source 0 .* 4 tokens are more than the 3"):
            short.score("s1 s2 s3", "t1")


def test_what_split_cuts_is_not_refused(talkative):
    pytest.importorskip("sentencex")
    short = Translator.from_pretrained(talkative[0], device="cpu", max_source_tokens=3)
    split = {"split": "sentences", "language": "en"}
    assert short("s1 s2 s3", **split)  # cut at 3
    assert short("s1 s2 s3", **split, max_source_tokens=4)


@pytest.mark.parametrize("trained", [3, 2000])
def test_the_first_sentence_beyond_the_training_is_told(talkative, caplog, trained):
    translator = Translator.from_pretrained(talkative[0], device="cpu", num_beams=1)
    tokenizer = copy.copy(translator.tokenizer)
    tokenizer.model_max_length = trained
    translator = Translator(translator.model, tokenizer, num_beams=1)
    assert translator.source_limit == max(1024, trained)
    translator(["s1 s2", "s1 s2 s3", "s1 s2 s3 s4"])
    translator("s1 s2 s3 s4 s5")
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (trained == 3)
    assert all("5 tokens is longer than any that the model was trained with (3)" in m for m in told)


def test_without_beams_the_score_is_the_models(talkative):
    translator = Translator.from_pretrained(talkative[0], device="cpu", num_beams=1)
    found = translator.n_best(SENTENCES[:3])
    targets = [several[0].ids for several in found]
    scores = translator.score(translator.encode(SENTENCES[:3]), targets)
    for (one,), score in zip(found, scores, strict=True):
        assert (one.score, one.log_prob) == pytest.approx((score.score, score.log_prob), **CLOSE)


@pytest.fixture(scope="module")
def marian():
    """A translator by a model of the library's own, whose numbers are drawn."""
    torch.manual_seed(0)
    sizes = {f"{side}_{what}": 16 for side in ("encoder", "decoder") for what in ("ffn_dim",)}
    sizes |= {f"{side}_layers": 1 for side in ("encoder", "decoder")}
    sizes |= {f"{side}_attention_heads": 2 for side in ("encoder", "decoder")}
    config = MarianConfig(
        vocab_size=V,
        d_model=16,
        init_std=0.5,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        **sizes,
    )
    return Translator(MarianMTModel(config), words("s", V), num_beams=3, max_extra_tokens=4)


def test_other_models_have_the_librarys_scores(marian):
    found = marian.n_best(SENTENCES[0], num_return_sequences=3)
    most = len(marian.encode(SENTENCES[:1])[0]) + 4
    options = {"num_beams": 3, "num_return_sequences": 3, "max_new_tokens": most}
    ids, outputs = by_generate(marian, SENTENCES[0], output_scores=True, **options)
    assert [one.ids for one in found] == ids
    scores = outputs.sequences_scores.tolist()
    assert [one.score for one in found] == pytest.approx(scores, **CLOSE)


# Prefixes


@pytest.mark.parametrize("name", ["translator", "engine", "marian"])
def test_a_forced_prefix_changes_nothing_for_others(name, request):
    asked = request.getfixturevalue(name)
    letter = "s" if name == "marian" else "t"
    prefixes = [prefix and prefix.replace("t", letter) for prefix in PREFIXES]
    asked.max_batch_sentences, before = 3, asked.max_batch_sentences
    options = {"num_return_sequences": 2}
    found = asked.n_best(SENTENCES, prefixes=prefixes, **options)
    asked.max_batch_sentences = before
    alone = [
        asked.n_best(sentence, prefixes=prefix, **options)
        for sentence, prefix in zip(SENTENCES, prefixes, strict=True)
    ]
    if name != "marian":  # whose length limit is that of the batch
        close(found, alone)
    for several, sentence, prefix in zip(alone, SENTENCES, prefixes, strict=True):
        if sentence and prefix:
            assert all(f"{one.text} ".startswith(f"{prefix} ") for one in several)
    none = asked.n_best(SENTENCES[1], **options)
    assert alone[1] == none  # `None` is as without
    texts = asked(SENTENCES, prefixes=prefixes)
    assert texts[BLANK] == ""
    if name != "marian":
        assert texts == [several[0].text for several in found]
        streamed = asked.stream(iter(SENTENCES), prefixes=iter(prefixes), chunk_sentences=2)
        assert list(streamed) == texts


def test_what_follows_a_prefix_is_what_generate_finds(translator):
    for sentence, prefix in zip(SENTENCES, PREFIXES, strict=True):
        if not (sentence and prefix):
            continue
        start = [[PAD, *translator.target_tokenizer(prefix)["input_ids"][:-1]]]
        options = {"num_beams": 4, "num_return_sequences": 2}
        options |= {"decoder_input_ids": torch.tensor(start)}
        ids, outputs = by_generate(translator, sentence, **options)
        found = translator.n_best(sentence, num_return_sequences=2, prefixes=prefix)
        assert [one.ids for one in found] == ids
        scores = outputs.sequences_scores.tolist()
        assert [one.score for one in found] == pytest.approx(scores, **CLOSE)


@BOTH
def test_the_log_probability_is_that_of_what_follows_the_prefix(name, request):
    asked = request.getfixturevalue(name)
    (found,) = asked.n_best("s4 s5 s6", prefixes="t0 t1 t2")
    (score,) = asked.score(asked.encode(["s4 s5 s6"]), [found.ids])
    assert score.tokens[:3] == ["t0", "t1", "t2"]
    assert found.log_prob == pytest.approx(math.fsum(score.log_probs[3:]), **CLOSE)
    assert found.score == pytest.approx(found.log_prob / (len(found.ids) - 3) ** 0.6, **CLOSE)


def test_both_engines_go_on_alike(translator, engine):
    options = {"num_return_sequences": 1, "prefixes": [prefix or "t11" for prefix in PREFIXES]}
    found, expected = (asked.n_best(SENTENCES, **options) for asked in (engine, translator))
    # Right behind a prefix CTranslate2 ends only where that is the most probable piece.
    both = [pair for pair in zip(found, expected, strict=True) if len(pair[1][0].ids) > 4]
    assert len(both) >= 4
    close(*map(list, zip(*both, strict=True)))


@BOTH
@pytest.mark.parametrize(
    ("sentences", "prefixes", "message"),
    [
        (["s1", "s2"], ["t1"], "There are 1 prefixes, and more sentences"),
        (["s1"], ["t1", "t2"], "There are 1 sentences, and more prefixes"),
        (["s1", "s2"], "t1", "Each sentence needs a prefix of its own, or None, got prefixes='t1'"),
    ],
)
def test_each_sentence_needs_its_prefix(name, request, sentences, prefixes, message):
    asked = request.getfixturevalue(name)
    with pytest.raises(ValueError, match=message):
        asked(sentences, prefixes=prefixes)
    with pytest.raises(ValueError, match=message):
        list(asked.n_best(iter(sentences), prefixes=prefixes))


@BOTH
def test_a_prefix_beyond_the_positions_is_refused(name, request, talkative, monkeypatch):
    asked = request.getfixturevalue(name)
    monkeypatch.setattr(asked, "max_positions", 4)
    assert asked("s1", prefixes="t1 t1 t1")[0].startswith("t1 t1 t1")
    with pytest.raises(LongPrefixError, match="4 tokens leaves nothing of the 4 positions"):
        asked(["s1", "s1"], prefixes=["t1", "t1 t1 t1 t1"])


def test_the_limit_leaves_room_for_the_prefix_in_a_table_of_positions():
    model = small_model(position_encoding="learned", max_position_embeddings=12)
    start = torch.tensor([[PAD, *[5] * 8]])
    found = model.generate(
        torch.tensor([[4, 5, EOS]]), decoder_input_ids=start, num_beams=1, suppress_tokens=[EOS]
    )
    # The last of 12 positions reads the 12th token and predicts the 13th.
    assert found.shape[1] == 13


# Samples


def test_the_same_seed_draws_the_same_whatever_the_batch(talkative, translator):
    options = {"sampling_topk": 0, "seed": 11}
    expected = translator(SENTENCES, **options)
    assert translator(SENTENCES[::-1], **options) == expected[::-1]
    small = Translator.from_pretrained(
        talkative[0], device="cpu,cpu", num_beams=4, max_batch_sentences=2
    )
    assert small(SENTENCES, **options) == expected
    assert [small(sentence, **options)[0] for sentence in SENTENCES] == expected
    assert list(small.stream(iter(SENTENCES), chunk_sentences=3, **options)) == expected
    assert [several[0].text for several in small.n_best(SENTENCES, **options)] == expected
    assert small(SENTENCES, sampling_topk=0, seed=12) != expected
    assert small(SENTENCES, sampling_topk=0) != small(SENTENCES, sampling_topk=0)


def test_several_samples_differ_and_have_the_models_scores(translator):
    options = {"sampling_topk": 5, "temperature": 1.3, "seed": 0}
    found = translator.n_best(SENTENCES[:3], num_return_sequences=6, **options)
    for source, several in zip(translator.encode(SENTENCES[:3]), found, strict=True):
        assert len({tuple(one.ids) for one in several}) > 2
        assert [one.score for one in several] == sorted(
            (one.score for one in several), reverse=True
        )
        scores = translator.score([source] * 6, [one.ids for one in several])
        log_probs = [one.log_prob for one in several]
        assert log_probs == pytest.approx([score.log_prob for score in scores], **CLOSE)
    alone = translator.n_best(SENTENCES[1], num_return_sequences=6, **options)
    close([alone], found[1:2])


@pytest.mark.parametrize("name", ["translator", "engine", "marian"])
def test_one_piece_to_draw_from_is_greedy_search(name, request):
    asked = request.getfixturevalue(name)
    greedy = copy.copy(asked)
    if name == "engine":
        greedy.num_beams = 1
    else:
        greedy.generation = asked.generation | {"num_beams": 1}
    for prefixes in (None, ["s3 s1"] * 2):
        options = {"prefixes": prefixes}
        # The end of Marian's search is that of the longest source in the batch.
        sentences = [SENTENCES[0]] * 2 if name == "marian" else SENTENCES[:2]
        assert asked(sentences, sampling_topk=1, **options) == greedy(sentences, **options)


def test_other_models_draw_alike(marian):
    options = {"sampling_topk": 0, "seed": 5}
    found = marian(SENTENCES[:1] * 2, **options)
    assert found[0] == found[1] == marian(SENTENCES[0], **options)[0]
    assert found != marian(SENTENCES[:1] * 2, sampling_topk=0, seed=6)


def test_ctranslate2_draws_without_a_seed(engine):
    found = engine.n_best(SENTENCES[:2], num_return_sequences=8, sampling_topk=0, temperature=0.8)
    for source, several in zip(engine.encode(SENTENCES[:2]), found, strict=True):
        assert len(several) == 8 and len({tuple(one.ids) for one in several}) > 2
        scores = engine.score([source] * 8, [one.ids for one in several])
        log_probs = [one.log_prob for one in several]
        assert log_probs == pytest.approx([score.log_prob for score in scores], **CLOSE)
    with pytest.raises(ValueError, match=r"leave out seed, or sample with Translator"):
        engine("s1", sampling_topk=0, seed=1)


def test_split_texts_may_be_drawn(translator):
    pytest.importorskip("sentencex")
    options = {"split": "sentences", "language": "en", "sampling_topk": 0, "seed": 3}
    assert translator("s1 s2\ns4", **options) == [
        "\n".join(translator(["s1 s2", "s4"], sampling_topk=0, seed=3))
    ]
    with pytest.raises(ValueError, match="prefixes are for sentences"):
        translator("s1 s2", prefixes="t1", **options)


# Devices and types


def test_each_batch_goes_to_a_copy_and_the_order_stays(talkative, monkeypatch):
    expected = Translator.from_pretrained(talkative[0], device="cpu")(SENTENCES)
    translator = Translator.from_pretrained(
        talkative[0], device=["cpu", "cpu", "cpu"], max_batch_sentences=1
    )
    used = {}
    both = threading.Barrier(3)
    generate = Translator._generate

    def note(self, *arguments, **options):
        if threading.get_ident() not in used:
            used[threading.get_ident()] = self._own_model
            both.wait(60)  # until each thread has a batch
        assert used[threading.get_ident()] is self._own_model
        return generate(self, *arguments, **options)

    monkeypatch.setattr(Translator, "_generate", note)
    assert translator(SENTENCES) == expected
    assert {id(model) for model in used.values()} == {id(model) for model in translator.copies}
    assert len(used) == 3
    assert len({model.lm_head.weight.data_ptr() for model in translator.copies}) == 3


def test_devices_are_named_one_by_one(talkative):
    with pytest.raises(ValueError, match="device='abacus' cannot be used here"):
        Translator.from_pretrained(talkative[0], device="cpu, abacus")
    with pytest.raises(ValueError, match="device is an empty list"):
        Translator.from_pretrained(talkative[0], device=[])
    pytest.importorskip("ctranslate2")
    with pytest.raises(ValueError, match=r"several GPUs at most, or one CPU, got device='cpu,cpu'"):
        CTranslate2Translator(talkative[1], device="cpu,cpu")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_model_computes_in_the_type_that_is_asked_for(talkative, dtype):
    translator = Translator.from_pretrained(talkative[0], device="cpu", dtype=dtype)
    assert {parameter.dtype for parameter in translator.model.parameters()} == {
        getattr(torch, dtype)
    }
    (found,) = translator.n_best("s1 s2 s3")
    exact = Translator.from_pretrained(talkative[0], device="cpu").n_best("s1 s2 s3")
    assert found.score == pytest.approx(exact[0].score, abs=0 if dtype == "float32" else 0.05)


def test_another_type_is_refused_by_name(talkative):
    with pytest.raises(ValueError, match=r"float32, bfloat16, float16, got dtype='int8'"):
        Translator.from_pretrained(talkative[0], dtype="int8")
