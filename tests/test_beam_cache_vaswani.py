"""The beams' cache: whatever keeps the past, what is found is the same."""

import random
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    CompileConfig,
)

from tests.searching import (
    CLOSE,
    LIBRARYS,
    PAD,
    batch_of,
    by_the_library,
    draw_model,
    draw_sources,
    endless,
    pieces_of,
)


# Each keeps the past in another way: in a tree, not at all, row by row, in a cache of fixed size.
WAYS: dict[str, dict[str, Any]] = {
    "no cache": {"use_cache": False},
    "rows": {"output_hidden_states": True},
    "static cache": {"cache_implementation": "static"},
}


@pytest.mark.parametrize("padding_side", ["right", "left"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("way", WAYS)
def test_beams_are_the_same_however_their_past_is_kept(way, attention, padding_side):
    # Of these random models one whose beams often change places.
    model = draw_model(2, scale=1.8, d_k=6, d_v=10)
    batch = batch_of(draw_sources(4, 9, 3, 7), padding_side)
    plan: dict[str, Any] = {"num_return_sequences": 3, "return_dict_in_generate": True}
    expected = model.generate(**batch, **plan)
    model.set_attn_implementation(attention)
    for more in ({}, WAYS[way]):
        found = model.generate(**batch, **plan, **more)
        assert torch.equal(found.sequences, expected.sequences)
        assert torch.equal(found.beam_indices, expected.beam_indices)
        assert found.sequences_scores.tolist() == pytest.approx(
            expected.sequences_scores.tolist(), **CLOSE
        )


@pytest.mark.parametrize("plan", [{"length_penalty_type": "power"}, {"num_beams": 1}], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_other_searches_are_the_same_however_the_past_is_kept(way, plan):
    model, batch = draw_model(2, scale=1.8), batch_of(draw_sources(4, 9, 3, 7))
    kept = {"return_dict_in_generate": True, "output_logits": True}
    expected = model.generate(**batch, **plan, **kept)
    found = model.generate(**batch, **plan, **kept, **WAYS[way])
    assert torch.equal(found.sequences, expected.sequences)
    # Sums of another order, which weights that are scaled up make larger from step to step.
    for ours, theirs in zip(found.logits, expected.logits, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("form", ["wu", "power"])
def test_what_the_beams_of_a_sentence_share_is_kept_once(form):
    model, batch = endless(), batch_of(draw_sources(4, 9, 3))
    shapes = []

    def note(module: nn.Module, arguments: Any, outputs: Any) -> None:
        cache = outputs.past_key_values
        own, memory = cache.self_attention_cache.layers[1], cache.cross_attention_cache.layers[1]
        shapes.append((own.keys.shape, memory.keys.shape))

    with model.model.decoder.register_forward_hook(note):
        model.generate(**batch, max_new_tokens=7, length_penalty_type=form)
    assert len(shapes) == 7
    for step, (own, memory) in enumerate(shapes):
        assert own == (3, 2, 1 + 4 * step, 8)  # the start, then a token of each beam
        assert memory == (3, 2, 9, 8)


@pytest.mark.parametrize("more", [{}, {"output_hidden_states": True}], ids=["tree", "rows"])
@pytest.mark.parametrize(
    "kept", [{}, {"cache_implementation": "static"}], ids=["dynamic", "static"]
)
def test_the_returned_cache_is_the_librarys(kept, more):
    model, batch = draw_model(2, scale=1.8), batch_of(draw_sources(4, 9, 3))
    plan = {**LIBRARYS, **kept, **more, "max_new_tokens": 6, "return_dict_in_generate": True}
    ours = model.generate(**batch, **plan).past_key_values
    theirs = model.generate(**batch, **plan, custom_generate=by_the_library).past_key_values
    for name in ("self_attention_cache", "cross_attention_cache"):
        pairs = zip(getattr(ours, name).layers, getattr(theirs, name).layers, strict=True)
        for mine, its in pairs:
            torch.testing.assert_close(mine.keys, its.keys, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(mine.values, its.values, atol=1e-5, rtol=1e-4)
    assert int(ours.get_seq_length()) == int(theirs.get_seq_length()) == 6
    assert len(ours.cross_attention_cache.layers[0].keys) == 12  # a row for each of 3 * 4 beams


def test_the_returned_cache_has_a_row_of_memory_for_each_sample():
    model, batch = draw_model(2), batch_of(draw_sources(4, 9, 3))
    plan = {"num_beams": 1, "do_sample": True, "max_new_tokens": 5, "return_dict_in_generate": True}
    found = model.generate(**batch, **plan, num_return_sequences=2)
    alone = model.generate(**batch, **plan)
    for kept, expected in zip(
        found.past_key_values.cross_attention_cache.layers,
        alone.past_key_values.cross_attention_cache.layers,
        strict=True,
    ):
        assert torch.equal(kept.keys, expected.keys.repeat_interleave(2, dim=0))
        assert torch.equal(kept.values, expected.values.repeat_interleave(2, dim=0))


def test_samples_of_a_sentence_are_those_of_as_many_copies():
    model, batch = draw_model(2, scale=1.8), batch_of(draw_sources(4, 9, 3))
    plan = {"do_sample": True, "num_beams": 1, "max_new_tokens": 8}
    torch.manual_seed(0)
    found = model.generate(**batch, **plan, num_return_sequences=3)
    torch.manual_seed(0)
    copies = {name: rows.repeat_interleave(3, dim=0) for name, rows in batch.items()}
    assert torch.equal(found, model.generate(**copies, **plan))
    assert len({tuple(row) for row in found.tolist()}) > 5


@pytest.mark.parametrize("form", ["wu", "power"])
def test_a_memory_that_is_given_stays_as_it_is(form):
    model, batch = draw_model(2, scale=1.8), batch_of(draw_sources(4, 9, 3))
    expected = model.generate(**batch, length_penalty_type=form)
    memory = model.get_encoder()(**batch)
    for _ in range(2):
        found = model.generate(
            encoder_outputs=memory,
            attention_mask=batch["attention_mask"],
            length_penalty_type=form,
        )
        assert torch.equal(found, expected)
    assert memory.last_hidden_state.shape == (3, 9, 16)


@pytest.mark.parametrize("plan", [{"num_beams": 4}, {"num_beams": 1}], ids=["beam", "greedy"])
def test_a_compiled_step_with_a_static_cache_gives_the_same(plan):
    model, batch = draw_model(2, scale=1.8), batch_of(draw_sources(4, 9, 3))
    expected = model.generate(**batch, **plan, max_new_tokens=9)
    # Backend "eager" traces the step and compiles no code; one graph must serve every step.
    compiled = CompileConfig(backend="eager", mode=None, fullgraph=True)
    compiled._compile_all_devices = True
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    plan = plan | {"cache_implementation": "static", "compile_config": compiled}
    for _ in range(2):
        assert torch.equal(model.generate(**batch, **plan, max_new_tokens=9), expected)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("num_beams", [1, 3])
def test_padded_starts_are_continued_as_unpadded_ones(num_beams, attention):
    chooser, paddings = random.Random(0), set()
    for seed in range(12):
        model = draw_model(seed, scale=1.5)
        model.set_attn_implementation(attention)
        count = chooser.randint(2, 4)
        sources = draw_sources(*chooser.choices(range(2, 9), k=count), seed=seed)
        starts = [
            [PAD, *chooser.choices(range(3, 12), k=chooser.randint(0, 4))] for _ in range(count)
        ]
        together, plan = batch_of(sources), {"num_beams": num_beams, "max_new_tokens": 6}
        padded = batch_of(starts, "left")
        given = {
            "decoder_input_ids": padded["input_ids"],
            "decoder_attention_mask": padded["attention_mask"],
        }
        dynamic = model.generate(**together, **given, **plan)
        static = model.generate(**together, **given, **plan, cache_implementation="static")
        for row, (source, start) in enumerate(zip(sources, starts, strict=True)):
            alone = model.generate(
                **batch_of([source]), decoder_input_ids=torch.tensor([start]), **plan
            )
            expected = pieces_of(alone[0])
            assert pieces_of(dynamic[row]) == expected
            assert pieces_of(static[row]) == expected
            paddings.add(padded["input_ids"].shape[1] - len(start))
    assert len(paddings) > 3


def test_a_compiled_step_with_a_padded_start_serves_every_step():
    model, batch = draw_model(2, scale=1.8), batch_of(draw_sources(8, 8))
    starts = batch_of([[PAD, 7], [PAD, 7, 5, 4]], "left")
    plan = {
        "decoder_input_ids": starts["input_ids"],
        "decoder_attention_mask": starts["attention_mask"],
        "max_new_tokens": 9,
        "num_beams": 1,
    }
    expected = model.generate(**batch, **plan)
    compiled = CompileConfig(backend="eager", mode=None, fullgraph=True)
    compiled._compile_all_devices = True
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    plan |= {"cache_implementation": "static", "compile_config": compiled}
    assert torch.equal(model.generate(**batch, **plan), expected)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
