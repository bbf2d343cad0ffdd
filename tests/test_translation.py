import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_hf import Translator


def test_translations_come_in_the_order_of_the_sentences(copier):
    model, tokenizer = copier
    sentences = ["c d e f g h", "a", "b a", "h g f e d c b a", "c"]
    assert Translator(model, tokenizer, max_batch_sentences=2)(sentences) == sentences


def test_an_empty_line_stays_empty(copier):
    assert Translator(*copier)(["a b", "", "  ", "c"]) == ["a b", "", "", "c"]


def test_one_sentence_may_stand_alone(copier):
    assert Translator(*copier)("b c") == ["b c"]


def test_nothing_in_gives_nothing_out(copier):
    assert Translator(*copier)([]) == []


def test_batch_mates_change_no_translation(copier):
    sentences = ["a b c", "h", "d e f g a b"]
    together = Translator(*copier)(sentences)
    alone = [Translator(*copier)([sentence])[0] for sentence in sentences]
    assert together == alone


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_batches_hold_each_sentence_once_within_the_budget(copier, lengths, most):
    translator = Translator(*copier, batch_tokens=40, max_batch_sentences=most)
    batches = translator.batches(lengths)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or (len(batch) * longest <= 40 and len(batch) <= most)


def test_a_translation_has_at_most_so_many_tokens_more_than_its_source(copier):
    model, tokenizer = copier
    endless = Translator(model, tokenizer, max_extra_tokens=3, num_beams=1)
    endless.generation["suppress_tokens"] = [tokenizer.eos_token_id]
    source = tokenizer("a b")["input_ids"]
    (translation,) = endless(["a b"])
    assert len(tokenizer(translation, add_special_tokens=False)["input_ids"]) <= len(source) + 3


@pytest.mark.parametrize("option", ["num_beams", "batch_tokens", "max_batch_sentences"])
def test_options_below_one_are_refused_by_name(copier, option):
    with pytest.raises(ValueError, match=f"{option}=0"):
        Translator(*copier, **{option: 0})
