import math

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache, MarianConfig, MarianMTModel

from tests import references
from tests.searching import CLOSE, EOS, PAD, batch_of, draw_model, draw_sources, pieces_of
from tests.small_models import close
from tests.translation.ctranslate2_models import random_sentences, save, talkative_model, words
from vaswani_hf import CTranslate2Translator, Translator, VaswaniEnsemble, generation_vaswani
from vaswani_hf.translation.ensemble import check_tokenizers, first_difference
from vaswani_hf.translation.forcing import forced_log_probs


SOURCES = draw_sources(4, 7, 2)
WEIGHTS = [2, 1, 1]
SHARES = [0.5, 0.25, 0.25]  # of the sum, 4
# Of other numbers and widths of layers and of heads than the first, and with other positions.
SHAPES = (
    {},
    {"d_model": 24, "num_heads": 3, "encoder_layers": 2, "decoder_layers": 1},
    {"d_ff": 40, "d_v": 6, "position_encoding": "learned", "max_position_embeddings": 30},
)


@pytest.fixture(scope="module")
def models():
    made = [draw_model(seed, scale=1.8, **shape) for seed, shape in enumerate(SHAPES)]
    for model in made:
        model.lm_head.bias.data[EOS] = 1.5  # so that many translations have some length
    return made


@pytest.fixture(scope="module")
def ensemble(models):
    return VaswaniEnsemble(models, WEIGHTS)


@torch.no_grad()
def mean_probabilities(models, source, prefix):
    """Of the next piece: the sum by hand, each model by itself, no cache, no beam."""
    start = torch.tensor([[PAD, *prefix]])
    total = 0.0
    for model, share in zip(models, SHARES, strict=True):
        logits = model(input_ids=torch.tensor([source]), decoder_input_ids=start).logits
        total = total + share * logits[0, -1].double().softmax(-1)
    return total


def beam_by_hand(models, source, extra):
    def next_log_probs(prefix):
        return dict(enumerate(mean_probabilities(models, source, prefix).log().tolist()))

    return references.beam_search(next_log_probs, 4, 0.6, len(source) + extra, EOS)


@pytest.fixture(scope="module")
def expected(models):
    return [beam_by_hand(models, source, 3) for source in SOURCES]


@pytest.fixture(params=["steps", "shared cache", "cache by rows", "no cache", "static cache"])
def way(request, ensemble, monkeypatch):
    """Options of `generate()` for each way that a search computes its steps."""
    if request.param == "steps":
        return {}
    monkeypatch.setattr(generation_vaswani, "decoder_steps", lambda *arguments: None)
    if request.param == "cache by rows":
        # The search then believes that somebody looks into the cache.
        empty = (DynamicCache(config=ensemble.config) for _ in range(2))
        return {"past_key_values": EncoderDecoderCache(*empty)}
    return {
        "shared cache": {},
        "no cache": {"use_cache": False},
        "static cache": {"cache_implementation": "static"},
    }[request.param]


def three_best(model, **options):
    return model.generate(
        **batch_of(SOURCES),
        num_return_sequences=3,
        max_extra_tokens=3,
        return_dict_in_generate=True,
        **options,
    )


def test_beam_search_is_that_of_the_mean_probabilities(ensemble, expected, way):
    found = three_best(ensemble, **way)
    for number, best in enumerate(expected):
        rows = slice(3 * number, 3 * number + 3)
        assert [pieces_of(row) for row in found.sequences[rows]] == [p for _, p in best[:3]]
        assert found.sequences_scores[rows].tolist() == pytest.approx(
            [score for score, _ in best[:3]], **CLOSE
        )


def test_one_of_the_models_or_equal_weights_would_find_others(models, ensemble):
    """The models and the sources can tell a mean from its parts."""
    others = [three_best(other).sequences for other in (*models, VaswaniEnsemble(models))]
    assert three_best(ensemble).sequences.tolist() not in [other.tolist() for other in others]


def test_sentences_that_are_done_leave_the_batch(ensemble, expected, way):
    if "past_key_values" in way:
        return  # whose rows somebody counts on
    found = ensemble.generate(**batch_of(SOURCES), max_extra_tokens=3, **way)
    assert [pieces_of(row) for row in found] == [best[0][1] for best in expected]


@pytest.fixture(scope="module")
def greedy(models):
    found = []
    for source in SOURCES:
        pieces = []
        while len(pieces) < len(source) + 3 and pieces[-1:] != [EOS]:
            pieces.append(int(mean_probabilities(models, source, pieces).argmax()))
        found.append(tuple(pieces))
    return found


def test_greedy_search_takes_the_piece_of_the_largest_mean(ensemble, greedy, way):
    found = ensemble.generate(**batch_of(SOURCES), num_beams=1, max_extra_tokens=3, **way)
    assert [pieces_of(row) for row in found] == greedy


def test_scores_are_the_logarithms_of_the_mean_and_those_of_the_beam(models, ensemble, expected):
    targets = [list(best[0][1]) for best in expected]
    found = forced_log_probs(ensemble, PAD, SOURCES, targets)
    for source, target, row, best in zip(SOURCES, targets, found, expected, strict=True):
        by_hand = [
            math.log(mean_probabilities(models, source, target[:place])[piece])
            for place, piece in enumerate(target)
        ]
        assert row == pytest.approx(by_hand, **CLOSE)
        score = references.wu_score(math.fsum(row), len(target), 0.6)
        assert score == pytest.approx(best[0][0], **CLOSE)


@pytest.mark.parametrize("options", [{}, {"num_beams": 1}, {"num_beams": 1, "do_sample": True}])
def test_one_model_twice_is_the_model(models, options):
    twice = VaswaniEnsemble([models[0], models[0]], [3, 1])
    found = []
    for model in (models[0], twice):
        torch.manual_seed(0)
        found.append(
            model.generate(
                **batch_of(SOURCES), num_return_sequences=1, output_scores=True, **options,
                return_dict_in_generate=True, max_extra_tokens=3,
            )
        )  # fmt: skip
    assert found[0].sequences.tolist() == found[1].sequences.tolist()
    if "num_beams" not in options:
        close(found[1].sequences_scores, found[0].sequences_scores)


def test_samples_are_drawn_from_the_mean(models, ensemble):
    drawn = 20_000
    torch.manual_seed(0)
    found = ensemble.generate(
        **batch_of([SOURCES[0]]),
        num_beams=1,
        do_sample=True,
        top_k=0,
        num_return_sequences=drawn,
        max_new_tokens=1,
    )
    rates = found[:, 1].bincount(minlength=12) / drawn
    # A rate of p has a standard deviation of sqrt(p (1 - p) / drawn), at most 0.0036.
    torch.testing.assert_close(
        rates.double(), mean_probabilities(models, SOURCES[0], ()), atol=0.015, rtol=0
    )


def test_the_cache_of_the_steps_goes_on_as_the_whole_target_would(ensemble):
    batch, target = batch_of(SOURCES), torch.tensor([[PAD, 4, 5, 6, 7]] * len(SOURCES))
    empty = (DynamicCache(config=ensemble.config) for _ in range(2))
    with torch.no_grad():
        asked = {
            "encoder_outputs": ensemble.encoder(**batch),
            "attention_mask": batch["attention_mask"],
            "past_key_values": EncoderDecoderCache(*empty),
        }
        steps = ensemble.decoder_steps(1, False, asked)
        third = steps.logits(target[:, :3])
        rest = {"past_key_values": steps.as_librarys(), "use_cache": True}
        found = ensemble(**batch, decoder_input_ids=target[:, 3:], **rest)
        whole = ensemble(**batch, decoder_input_ids=target)
    close(third, whole.logits[:, 2])
    close(found.logits, whole.logits[:, 3:])
    assert len(found.past_key_values) == 5  # 2 + 1 + 2 layers


def test_the_translator_takes_an_ensemble(talkative, tmp_path):
    model = talkative_model()  # which seeds what is drawn next
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape))
    other = save(model, tmp_path / "other")
    folders, sentences = [talkative[0], other], random_sentences(12, 7)
    translator = Translator.from_pretrained(folders, weights=[1, 3], device="cpu")
    members = [Translator.from_pretrained(folder, device="cpu") for folder in folders]
    by_hand = VaswaniEnsemble([member.model for member in members], [0.25, 0.75])
    assert translator.model.log_weights == by_hand.log_weights
    same = Translator(by_hand, members[0].tokenizer, target_tokenizer=members[0].target_tokenizer)
    found = translator(sentences)
    assert found == same(sentences)
    assert all(found != member(sentences) for member in members)
    assert Translator.from_pretrained([other], device="cpu")(sentences) == members[1](sentences)
    # The score of what the search found is its own.
    sources = translator.encode(sentences)
    scores = translator.score(sources, translator.target_ids(sources))
    outputs = translator.model.generate(
        **batch_of(sources), return_dict_in_generate=True, max_extra_tokens=9
    )
    assert [one.score for one in scores] == pytest.approx(
        outputs.sequences_scores.tolist(), **CLOSE
    )
    with pytest.raises(ValueError, match=r"An ensemble has no attentions .*ask one of its models"):
        translator.align(sentences[0], found[0])


def test_the_fewest_learned_positions_are_the_most_tokens(models):
    tokenizer = words("s", 12)
    assert Translator(VaswaniEnsemble(models), tokenizer).max_positions == 30
    assert Translator(VaswaniEnsemble(models[:2]), tokenizer).max_positions is None


def test_ids_that_one_of_the_models_lacks_are_refused(models):
    apart = {"share_embeddings": False, "tie_word_embeddings": False, "target_vocab_size": 12}
    fewer = draw_model(0, vocab_size=10, **apart)
    translator = Translator(VaswaniEnsemble([models[0], fewer]), words("s", 12))
    with pytest.raises(ValueError, match="11"):
        translator.score([[11, EOS]], [[EOS]])
    with pytest.raises(ValueError, match="12"):
        translator.score([[3, EOS]], [[12, EOS]])
    assert len(translator.score([[9, EOS]], [[11, EOS]])) == 1


# What is refused


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1], r"as many as the models, 2, got weights=\[1\] \(1\)"),
        ([1, 0], r"positive numbers, got weights=\[1, 0\]"),
        ([1, -2.0], "positive numbers"),
        ([1, math.nan], "positive numbers"),
        ([1, math.inf], "positive numbers"),
    ],
)
def test_weights_that_weigh_nothing_are_refused(models, weights, message):
    with pytest.raises(ValueError, match=message):
        VaswaniEnsemble(models[:2], weights)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocab_size": 13}, "target pieces: 12 and 13"),
        ({"eos_token_id": 3}, "eos_token_id: 2 and 3"),
        ({"decoder_start_token_id": 5}, "decoder_start_token_id: 1 and 5"),
    ],
)
def test_models_that_say_other_pieces_are_refused(models, fields, message):
    other = draw_model(0, **fields)
    other.name_or_path = "b"
    with pytest.raises(ValueError, match=f"^model 0 .* and b cannot be an ensemble; .*{message}"):
        VaswaniEnsemble([models[0], other])


def test_models_of_another_kind_or_type_are_refused(models):
    with pytest.raises(ValueError, match="at least one model"):
        VaswaniEnsemble([])
    with pytest.raises(ValueError, match=r"float32 and torch.bfloat16"):
        VaswaniEnsemble([models[0], draw_model(0).bfloat16()])
    marian = MarianMTModel(
        MarianConfig(vocab_size=12, d_model=16, encoder_layers=1, decoder_layers=1, pad_token_id=1)
    )
    with pytest.raises(ValueError, match=r"model 1 .* is a MarianMTModel; .* of Vaswani models"):
        VaswaniEnsemble([models[0], marian])


def test_what_an_ensemble_does_not_have_is_refused(ensemble, tmp_path):
    with pytest.raises(ValueError, match="save its models one by one"):
        ensemble.save_pretrained(tmp_path)
    batch = batch_of(SOURCES[:1])
    for name in ("output_attentions", "output_hidden_states"):
        with pytest.raises(ValueError, match=rf"no attentions or states of its own \({name}"):
            ensemble.generate(**batch, return_dict_in_generate=True, **{name: True})
    cache = EncoderDecoderCache(*(DynamicCache(config=ensemble.config) for _ in range(2)))
    cache.self_attention_cache.offloading = True  # which needs a GPU
    with pytest.raises(ValueError, match='"offloaded" is for one model'):
        ensemble(**batch, decoder_input_ids=torch.tensor([[PAD]]), past_key_values=cache)


def test_tokenizers_that_differ_are_refused_by_the_first_difference():
    shared, longer, other = ((words(*which), None) for which in (("s", 9), ("s", 10), ("t", 9)))
    apart = (shared[0], other[0])  # the target has one of its own
    check_tokenizers(["a", "b"], [shared, (words("s", 9), None)])
    check_tokenizers(["a", "b"], [apart, (words("s", 9), words("t", 9))])
    with pytest.raises(
        ValueError, match=r"^a and b cannot .* the source's tokenizer, piece 9: None and 's6'"
    ):
        check_tokenizers(["a", "b"], [shared, longer])
    with pytest.raises(
        ValueError, match=r"^a and c cannot .* the target's tokenizer, piece 3: 's0' and 't0'"
    ):
        check_tokenizers(["a", "b", "c"], [shared, shared, apart])
    # The same pieces by other rules; where a text is cut changes nothing.
    rules = words("s", 9)
    rules.backend_tokenizer.enable_truncation(5)
    check_tokenizers(["a", "b"], [shared, (rules, None)])
    rules.backend_tokenizer.pre_tokenizer = None
    with pytest.raises(ValueError, match=r"source's tokenizer, pre_tokenizer: \{.*\} and null"):
        check_tokenizers(["a", "b"], [shared, (rules, None)])


@pytest.mark.parametrize(
    ("first", "other", "difference"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "a[1].b: 2 and 3"),
        ({"a": 1}, {"a": 1, "b": "x"}, 'b: null and "x"'),
        ({"a": [1]}, {"a": [1, 2]}, "a: [1] and [1, 2]"),
        ({"a": [1]}, {"a": [1]}, None),
    ],
)
def test_the_first_difference_of_two_files_has_its_place(first, other, difference):
    assert first_difference(first, other) == difference


def test_ctranslate2_refuses_several_folders(talkative):
    with pytest.raises(ValueError, match="by one model; an ensemble needs Translator"):
        CTranslate2Translator.from_pretrained([talkative[1], talkative[1]])
