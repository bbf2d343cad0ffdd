import pytest
import torch

from vaswani_hf.pictures.attention import KINDS, attention_of, in_units


SOURCE, TARGET = "a bead fed cab", "decade bad a"


@pytest.fixture(scope="module")
def ids(translator):
    tokenizer = translator.tokenizer
    return tokenizer(SOURCE)["input_ids"], tokenizer(TARGET)["input_ids"]


def test_weights_between_pieces_are_those_of_the_model(translator, ids):
    source, target = ids
    start = translator.model.config.decoder_start_token_id
    translator.model.set_attn_implementation("eager")
    with torch.no_grad():
        outputs = translator.model(
            input_ids=torch.tensor([source]),
            decoder_input_ids=torch.tensor([[start, *target[:-1]]]),
            output_attentions=True,
        )
    translator.model.set_attn_implementation("sdpa")
    found = attention_of(translator, SOURCE, TARGET, in_pieces=True)
    for kind in KINDS:
        expected = torch.cat(outputs[f"{kind}_attentions"])
        torch.testing.assert_close(found.weights[kind], expected)
    pieces = translator.tokenizer.convert_ids_to_tokens
    assert found.keys["cross"] == found.queries["encoder"] == pieces(source)
    assert found.queries["cross"] == found.keys["decoder"] == ["<start>", *pieces(target[:-1])]


def test_rows_between_words_sum_to_1_and_are_named_by_the_words(translator, ids):
    source, target = ids
    assert len(source) > 5 and len(target) > 4  # some word has several pieces
    found = attention_of(translator, SOURCE, TARGET)
    assert found.keys["encoder"] == found.keys["cross"] == [*SOURCE.split(), "</s>"]
    assert found.queries["decoder"] == found.queries["cross"] == ["<start>", *TARGET.split()]
    for kind in KINDS:
        weights = found.weights[kind]
        assert weights.shape[2:] == (len(found.queries[kind]), len(found.keys[kind]))
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:3]))


def test_what_words_look_at_is_summed_and_from_where_they_look_is_averaged():
    # By hand: the first word has two pieces; as a key it gets their sum, as a query their mean.
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6]])
    shares = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    expected = torch.tensor([[0.5, 0.5], [0.4, 0.6]])
    torch.testing.assert_close(in_units(weights, shares, shares), expected)


def test_steps_can_be_named_by_what_they_predict(translator):
    read = attention_of(translator, SOURCE, TARGET, in_pieces=True)
    predicted = attention_of(translator, SOURCE, TARGET, in_pieces=True, step="predicts")
    assert predicted.queries["cross"] == [*read.queries["cross"][1:], "</s>"]
    assert predicted.keys["decoder"] == read.keys["decoder"]
    torch.testing.assert_close(predicted.weights["cross"], read.weights["cross"])


def test_a_target_that_has_not_ended_predicts_something_unknown(translator, ids):
    found = attention_of(translator, SOURCE, ids[1][:2], in_pieces=True, step="predicts")
    assert found.queries["cross"][-1] == "…"


def test_without_a_target_the_models_own_translation_is_looked_at(translator):
    found = attention_of(translator, SOURCE, in_pieces=True)
    (own,) = translator.target_ids(translator.encode([SOURCE]))
    assert len(found.queries["cross"]) == 1 + sum(piece != 2 for piece in own)
    assert found.target == translator(SOURCE)[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("   ", None), "the sentence has no words"),
        ((SOURCE, TARGET, "looks"), "step must be"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(translator, arguments, message):
    sentence, target, *step = arguments
    with pytest.raises(ValueError, match=message):
        attention_of(translator, sentence, target, **dict(zip(["step"], step, strict=False)))
