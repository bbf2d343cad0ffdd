"""The steps that a search makes by itself: the numbers of the modules, wherever those are plain."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    GenerationMixin,
    LogitsProcessorList,
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
)
from transformers.modeling_outputs import BaseModelOutput

from tests.searching import batch_of, draw_model, draw_sources, endless
from vaswani_hf.decoding_vaswani import DecoderSteps, decoder_steps, processed
from vaswani_hf.layers_vaswani import use_torch_layers


MODELS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "heads of two widths": {"d_k": 6, "d_v": 10},
    "learned positions": {"position_encoding": "learned", "max_position_embeddings": 40},
    "two vocabularies": {"share_embeddings": False, "target_vocab_size": 19},
    "imported": {"attention_bias": True, "final_norm": True, "activation_function": "gelu"},
}
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"num_beams": 1},
    "greedy, forbidden": {"num_beams": 1, "bad_words_ids": [[4], [7]], "min_new_tokens": 3},
    "paper": {"num_beams": 4, "num_return_sequences": 2, "eos_token_id": [2, 5]},
    "library": {"num_beams": 4, "length_penalty_type": "power", "early_stopping": False},
    "at once": {"num_beams": 3, "early_stopping": True, "no_repeat_ngram_size": 2},
}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of every step that was made without the modules."""
    rows: list[int] = []
    states = DecoderSteps._states

    def count(self: DecoderSteps, ids: Tensor) -> Tensor:
        rows.append(len(ids))
        return states(self, ids)

    monkeypatch.setattr(DecoderSteps, "_states", count)
    return rows


def by_modules(model: nn.Module, **plan: Any) -> Any:
    """What `generate()` finds where somebody listens to the decoder."""
    with model.model.decoder.register_forward_hook(lambda *_: None):
        return model.generate(**plan)


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_a_search_finds_what_it_finds_by_the_modules(fields, search, counted):
    chooser = random.Random(0)
    for seed in range(3):
        # In float64: in float32 two pieces may be as good as equal.
        model = draw_model(seed, scale=1.8, **fields).double()
        lengths = [chooser.randint(2, 9) for _ in range(6)]
        batch = batch_of(draw_sources(*lengths, seed=seed), ("right", "left")[seed % 2])
        start = torch.full((6, 1 + seed), 1).masked_fill(torch.arange(1 + seed) > 0, 6)
        plan = {**batch, **search, "decoder_input_ids": start, "max_extra_tokens": 5}
        found = model.generate(**plan)
        num_steps = len(counted)
        assert num_steps > 1
        assert torch.equal(found, by_modules(model, **plan))
        assert len(counted) == num_steps
        counted.clear()


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_steps_have_the_logits_of_the_whole_target_read_at_once(fields):
    model, batch = draw_model(3, scale=1.5, **fields), batch_of(draw_sources(4, 9, 3))
    with torch.no_grad():
        memory = model.get_encoder()(**batch).last_hidden_state
        target = torch.randint(3, 12, (3, 25), generator=torch.Generator().manual_seed(0))
        expected = model(**batch, decoder_input_ids=target).logits
        steps = DecoderSteps(model, memory, batch["attention_mask"], 1)
        for length in (2, *range(3, 26)):
            found = steps.logits(target[:, :length])
            torch.testing.assert_close(found, expected[:, length - 1], atol=1e-4, rtol=1e-5)


def test_the_returned_cache_and_scores_are_those_of_the_modules():
    model, batch = draw_model(2, scale=1.8), batch_of(draw_sources(4, 9, 3))
    plan = {**batch, "return_dict_in_generate": True, "output_logits": True, "max_new_tokens": 7}
    found, expected = model.generate(**plan), by_modules(model, **plan)
    torch.testing.assert_close(found.sequences_scores, expected.sequences_scores)
    torch.testing.assert_close(found.logits, expected.logits, atol=1e-4, rtol=1e-5)
    for name in ("self_attention_cache", "cross_attention_cache"):
        layers = (getattr(kept.past_key_values, name).layers for kept in (found, expected))
        for ours, theirs in zip(*layers, strict=True):
            torch.testing.assert_close(ours.keys, theirs.keys, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(ours.values, theirs.values, atol=1e-5, rtol=1e-4)


def test_entries_that_no_beam_needs_are_written_over(monkeypatch):
    kept = []
    reorder = DecoderSteps.reorder

    def note(self: DecoderSteps, rows: Tensor) -> None:
        kept.append((self.num_tokens, self.num_entries))
        reorder(self, rows)

    monkeypatch.setattr(DecoderSteps, "reorder", note)
    endless().generate(**batch_of(draw_sources(9, 9)), max_new_tokens=40)
    num_tokens, num_entries = kept[-1]
    # One of the start and four of each later step, less what only beams that were dropped had.
    assert num_tokens < num_entries < 1 + 4 * (num_tokens - 1)


# When the modules are called


def plain_arguments(model: nn.Module) -> dict[str, Any]:
    memory = torch.zeros(2, 5, model.config.d_model, dtype=model.dtype)
    empty = EncoderDecoderCache(DynamicCache(), DynamicCache())
    return {"encoder_outputs": BaseModelOutput(memory), "past_key_values": empty}


def layer_of(model: nn.Module) -> Any:
    return model.model.decoder.layers[1]


class Adapted(nn.Linear):
    """Stands for what an adapter or a quantizer puts in a layer's place."""


def adapt(model: nn.Module) -> None:
    layer_of(model).feed_forward.inner = Adapted(16, 24)


def wrap(model: nn.Module) -> None:
    layer_of(model).forward = layer_of(model).forward  # as accelerate does


TOUCHES = {
    "hook": lambda model: layer_of(model).register_forward_hook(lambda *_: None),
    "hook on a projection": lambda model: layer_of(
        model
    ).cross_attention.key_proj.register_forward_pre_hook(lambda *_: None),
    "adapter": adapt,
    "forward of its own": wrap,
    "training": lambda model: model.train(),
    "dropout switched on": lambda model: layer_of(model).dropout.train(),
    "attention of another kind": lambda model: model.set_attn_implementation("eager"),
    "bfloat16": lambda model: model.bfloat16(),
    "head in another dtype": lambda model: model.lm_head.double(),
}
REQUESTS: dict[str, dict[str, Any]] = {
    "padded start": {"decoder_attention_mask": torch.ones(2, 3)},
    "mask of three dimensions": {"attention_mask": torch.ones(2, 1, 5)},
    "source of padding alone": {"attention_mask": torch.tensor([[1] * 5, [0] * 5])},
    "no cache": {"past_key_values": None},
    "attentions": {"output_attentions": True},
}


@torch.no_grad()
def test_a_plain_model_needs_no_modules():
    model = draw_model(0)
    assert decoder_steps(model, 4, False, plain_arguments(model)) is not None
    use_torch_layers(model)
    assert decoder_steps(model, 4, False, plain_arguments(model)) is not None


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
@torch.no_grad()
def test_a_model_that_was_touched_is_called(touch):
    model = draw_model(0)
    touch(model)
    assert decoder_steps(model, 4, False, plain_arguments(model)) is None


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
@torch.no_grad()
def test_what_asks_for_more_than_logits_calls_the_model(request_):
    model = draw_model(0)
    assert decoder_steps(model, 4, False, plain_arguments(model) | request_) is None


def test_a_given_cache_gradients_autocast_and_hooks_everywhere_call_the_model():
    model = draw_model(0)
    arguments = plain_arguments(model)
    assert decoder_steps(model, 4, False, arguments) is None  # with gradients
    with torch.no_grad():
        assert decoder_steps(model, 4, True, arguments) is None
        with torch.autocast("cpu"):
            assert decoder_steps(model, 4, False, arguments) is None
        with nn.modules.module.register_module_forward_hook(lambda *_: None):
            assert decoder_steps(model, 4, False, arguments) is None


# Between steps


def test_least_lengths_are_heeded_as_by_the_library():
    ids, scores = torch.ones(2, 5, dtype=torch.long), torch.randn(2, 9)
    for least in range(3, 8):
        for processor in (
            MinLengthLogitsProcessor(least, [2, 4]),
            MinNewTokensLengthLogitsProcessor(2, least - 2, [2, -1, 9]),  # of which one is a piece
        ):
            found = processed(LogitsProcessorList([processor]), ids, scores.clone())
            assert torch.equal(found, processor(ids, scores))


def test_scores_that_a_processor_keeps_are_not_written_over():
    model, batch, kept = draw_model(2), batch_of(draw_sources(4, 9)), []

    def keep(ids: Tensor, scores: Tensor) -> Tensor:
        kept.append((scores, scores.clone()))
        return scores

    model.generate(**batch, logits_processor=LogitsProcessorList([keep]))
    assert all(torch.equal(scores, before) for scores, before in kept)


# Greedy search


def test_sentences_that_end_leave_the_batch_of_greedy_search(counted):
    model, sources = draw_model(2), draw_sources(*range(2, 18))
    plan = {"num_beams": 1, "max_extra_tokens": 5}
    found = model.generate(**batch_of(sources), **plan)
    assert counted[0] == 16 and 0 < counted[-1] < 8
    library = model.generate(**batch_of(sources), **plan, custom_generate=GenerationMixin._sample)
    assert torch.equal(found, library)


def test_a_limit_does_not_count_the_start_that_the_library_adds(counted):
    batch = batch_of(draw_sources(3, 5)) | {"decoder_input_ids": torch.tensor([[7], [8]])}
    for more in ({}, {"return_dict_in_generate": True}):  # ours, and the library's
        found = endless().generate(**batch, **more, num_beams=1, max_extra_tokens=2)
        ids = found.sequences if more else found
        assert ids.ne(1).sum(dim=1).tolist() == [1 + 5, 1 + 7]  # the piece that was given
        assert bool(counted) != bool(more)
        counted.clear()
