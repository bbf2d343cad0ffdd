"""The beam search against the formula, a search over everything, and the authors' algorithm."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    EosTokenCriteria,
    MaxLengthCriteria,
    StoppingCriteria,
    StoppingCriteriaList,
)

from tests import references
from tests.searching import (
    CLOSE,
    EOS,
    LIBRARYS,
    PAD,
    authors_search,
    batch_of,
    by_the_library,
    draw_model,
    draw_sources,
    log_probability,
    pieces_of,
)
from vaswani_hf.beam_search_vaswani import topk_by_chunks


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, -0.5])
def test_returned_scores_follow_wu_et_al(alpha):
    model, sources = draw_model(1), draw_sources(6, 3, 8)
    options = {"return_dict_in_generate": True, "output_scores": True}
    found = model.generate(
        **batch_of(sources), num_return_sequences=4, length_penalty=alpha, **options
    )
    lengths = set()
    for row, (ids, score) in enumerate(zip(found.sequences, found.sequences_scores, strict=True)):
        pieces = pieces_of(ids)
        lengths.add(len(pieces))
        total = log_probability(model, sources[row // 4], pieces)
        assert float(score) == pytest.approx(
            references.wu_score(total, len(pieces), alpha), **CLOSE
        )
    assert len(lengths) > 1


@pytest.mark.parametrize("seed", range(6))
def test_no_hypothesis_of_all_beats_a_wide_enough_beam(seed):
    model = draw_model(seed, vocab_size=6)
    source = draw_sources(3, seed=seed, vocab_size=6)[0]
    others = [piece for piece in range(6) if piece != EOS]
    every = [
        (*pieces, EOS) for length in range(4) for pieces in itertools.product(others, repeat=length)
    ]
    scored = sorted(
        (references.wu_score(log_probability(model, source, pieces), len(pieces), 0.6), pieces)
        for pieces in every
    )
    # 125 prefixes of three pieces: a beam of 125 loses none.
    found = model.generate(
        **batch_of([source]),
        num_beams=125,
        num_return_sequences=5,
        max_extra_tokens=1,
        return_dict_in_generate=True,
    )
    expected = scored[::-1][:5]
    assert [pieces_of(row) for row in found.sequences] == [pieces for _, pieces in expected]
    assert found.sequences_scores.tolist() == pytest.approx([s for s, _ in expected], **CLOSE)


@pytest.mark.parametrize("alpha", [0.6, 0.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_search_is_the_authors_one(seed, alpha):
    model, sources = draw_model(seed, scale=1.2), draw_sources(5, 9, seed=seed)
    found = model.generate(
        **batch_of(sources),
        num_return_sequences=3,
        max_extra_tokens=6,
        length_penalty=alpha,
        return_dict_in_generate=True,
    )
    for number, source in enumerate(sources):
        expected = authors_search(model, source, 6, alpha)[:3]
        rows = slice(3 * number, 3 * number + 3)
        assert len(expected) == 3
        assert [pieces_of(row) for row in found.sequences[rows]] == [p for _, p in expected]
        assert found.sequences_scores[rows].tolist() == pytest.approx(
            [score for score, _ in expected], **CLOSE
        )


def test_hypotheses_without_an_end_are_returned_only_where_too_few_ended():
    model, source = draw_model(3), draw_sources(3)[0]
    with torch.no_grad():
        model.lm_head.bias[EOS] = -5.0  # unlikely, yet within reach of a wide beam
    found = model.generate(
        **batch_of([source]),
        max_new_tokens=3,
        num_beams=60,
        num_return_sequences=60,
        return_dict_in_generate=True,
    )
    has_ended = [EOS in row for row in found.sequences.tolist()]  # best first
    assert has_ended == sorted(has_ended, reverse=True)
    assert 0 < sum(has_ended) < 60
    for row, score in zip(found.sequences, found.sequences_scores.tolist(), strict=True):
        total = log_probability(model, source, pieces_of(row))
        assert score == pytest.approx(references.wu_score(total, len(pieces_of(row)), 0.6), **CLOSE)


@pytest.mark.parametrize("form", ["wu", "power"])
def test_where_too_little_can_be_said_the_last_hypothesis_is_returned_again(form):
    model, source = draw_model(1), draw_sources(6)[0]
    found = model.generate(
        **batch_of([source]),
        max_new_tokens=1,
        num_return_sequences=4,
        prefix_allowed_tokens_fn=lambda *_: [3, 5, EOS],
        length_penalty_type=form,
        return_dict_in_generate=True,
    )
    rows = [pieces_of(ids) for ids in found.sequences]
    assert {*rows[:3]} == {(3,), (5,), (EOS,)}
    assert rows[3] == rows[2]
    # Of one piece either penalty is 1.
    expected = [log_probability(model, source, pieces) for pieces in rows]
    assert found.sequences_scores.tolist() == pytest.approx(expected, **CLOSE)
    assert found.beam_indices.tolist() == [[0]] * 4


@pytest.mark.parametrize("form", ["wu", "power"])
def test_forced_pieces_leave_every_row_readable(form):
    plan = {"forced_bos_token_id": 4, "forced_eos_token_id": EOS, "max_new_tokens": 2}
    found = draw_model(1).generate(
        **batch_of(draw_sources(6, 3)), **plan, num_return_sequences=4, length_penalty_type=form
    )
    assert found.tolist() == [[PAD, 4, EOS]] * 8  # what the library's search returns


@pytest.mark.parametrize("form", ["wu", "power"])
def test_processors_that_forbid_everything_are_refused(form):
    def forbid(ids: Tensor, scores: Tensor) -> Tensor:
        scores[4:] = -torch.inf  # all beams of the second sentence
        return scores

    with pytest.raises(ValueError, match="Nothing can be said for sentence 1 of the batch"):
        draw_model(1).generate(
            **batch_of(draw_sources(6, 3)), logits_processor=[forbid], length_penalty_type=form
        )


@pytest.mark.parametrize(
    "criteria",
    [
        [MaxLengthCriteria(5)],
        [EosTokenCriteria(5)],
        [EosTokenCriteria([5, 7]), MaxLengthCriteria(6)],
        [EosTokenCriteria(5), EosTokenCriteria(7)],
    ],
    ids=["length", "end", "ends, length", "two ends"],
)
@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_the_librarys_form_heeds_criteria_as_the_library_does(early_stopping, criteria):
    plan = {**LIBRARYS, "early_stopping": early_stopping, "stopping_criteria": criteria}
    ends = set()
    for seed in range(4):
        model = draw_model(seed, scale=1.8).double()
        batch = batch_of(draw_sources(6, 3, 8, seed=seed))
        theirs = model.generate(**batch, **plan, custom_generate=by_the_library)
        ours = model.generate(**batch, **plan)
        assert torch.equal(ours, theirs)
        ends |= {pieces_of(ids)[-1] for ids in ours}
    assert len(ends) > 1


def test_an_end_criterion_of_the_caller_takes_the_place_of_the_end():
    model, sources = draw_model(2, scale=1.2), draw_sources(5, 9)
    with torch.no_grad():
        model.lm_head.bias[5], model.lm_head.bias[EOS] = 2.0, 0.0
    found = model.generate(
        **batch_of(sources),
        stopping_criteria=[EosTokenCriteria(5)],
        num_return_sequences=3,
        max_extra_tokens=6,
        return_dict_in_generate=True,
    )
    for number, source in enumerate(sources):
        expected = authors_search(model, source, 6, end=5)[:3]
        rows = slice(3 * number, 3 * number + 3)
        assert len(expected) == 3
        assert [pieces_of(row) for row in found.sequences[rows]] == [p for _, p in expected]
        assert found.sequences_scores[rows].tolist() == pytest.approx(
            [score for score, _ in expected], **CLOSE
        )


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("more", [{}, {"top_k": 3}, {"top_p": 0.5}, {"max_new_tokens": 4}], ids=str)
def test_the_librarys_form_draws_what_the_library_does(more, early_stopping):
    plan = {**LIBRARYS, **more, "do_sample": True, "early_stopping": early_stopping}
    found = set()
    for seed in range(4):
        model = draw_model(seed, scale=1.8).double()
        batch = batch_of(draw_sources(6, 3, 8, seed=seed))
        torch.manual_seed(seed)
        theirs = model.generate(**batch, **plan, custom_generate=by_the_library)
        torch.manual_seed(seed)
        ours = model.generate(**batch, **plan)
        assert torch.equal(ours, theirs)
        found |= {pieces_of(ids) for ids in ours}
    assert len(found) > 4


def test_scores_of_drawn_hypotheses_follow_wu_et_al():
    model, sources = draw_model(1, scale=1.8), draw_sources(6, 3, 8)
    torch.manual_seed(0)
    found = model.generate(
        **batch_of(sources),
        do_sample=True,
        num_return_sequences=4,
        return_dict_in_generate=True,
    )
    lengths = set()
    for row, (ids, score) in enumerate(zip(found.sequences, found.sequences_scores, strict=True)):
        pieces = pieces_of(ids)
        lengths.add(len(pieces))
        total = log_probability(model, sources[row // 4], pieces)
        expected = references.wu_score(total, len(pieces), 0.6)
        assert float(score) == pytest.approx(expected, **CLOSE)
    assert len(lengths) > 1


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("alpha", [0.6, 2.0, -0.7])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"max_new_tokens": 6},
        {"max_extra_tokens": 0},
        {"num_beams": 2, "num_return_sequences": 1},
        {"eos_token_id": [EOS, 5], "max_extra_tokens": 3},
        {"min_new_tokens": 4},
    ],
    ids=str,
)
def test_the_librarys_form_finds_what_the_library_does(more, alpha, early_stopping):
    dictionary = {"return_dict_in_generate": True, "output_scores": True}
    plan = {
        **{"length_penalty_type": "power", "length_penalty": alpha},
        **{"early_stopping": early_stopping, "num_return_sequences": 4, "num_beams": 4},
        **dictionary,
        **more,
    }
    lengths = set()
    for seed in range(3):
        model = draw_model(seed, scale=(1.8, 2.5)[seed % 2]).double()
        batch = batch_of(draw_sources(6, 3, 8, 2, 11, seed=seed))
        quiet = {name: value for name, value in plan.items() if name not in dictionary}
        ours = model.generate(**batch, **quiet)  # whose sentences leave the batch when done
        theirs = model.generate(**batch, **plan, custom_generate=by_the_library)
        kept = model.generate(**batch, **plan)
        assert torch.equal(ours, theirs.sequences)
        assert torch.equal(kept.sequences, theirs.sequences)
        assert torch.equal(kept.beam_indices, theirs.beam_indices)
        assert kept.sequences_scores.tolist() == pytest.approx(
            theirs.sequences_scores.tolist(), **CLOSE
        )
        lengths |= {len(pieces_of(ids)) for ids in ours}
    assert len(lengths) > 2 or alpha == 2.0  # which calls for the longest


@pytest.mark.parametrize("size", [9, 2048, 2049, 5000])
def test_the_best_by_chunks_are_the_best(size):
    generator = torch.Generator().manual_seed(size)
    for trial in range(20):
        scores = torch.randn(3, size, generator=generator)
        if trial % 2:  # as where most pieces are forbidden
            scores[:, torch.rand(size, generator=generator) < 0.9999] = -math.inf
        values, places = topk_by_chunks(scores, 8)
        assert torch.equal(values, scores.topk(8)[0])
        assert torch.equal(scores.gather(1, places), values)


@pytest.mark.parametrize("early_stopping", ["never", False, True])
def test_sentences_that_leave_the_batch_change_nothing(early_stopping):
    model, batch = draw_model(5), batch_of(draw_sources(4, 9, 3, 7, 5, 6))
    plan = {"num_return_sequences": 2, "early_stopping": early_stopping}
    leaving = model.generate(**batch, **plan)
    staying = model.generate(**batch, **plan, return_dict_in_generate=True)
    assert torch.equal(leaving, staying.sequences)


def test_the_steps_that_are_kept_add_up_to_the_scores():
    # By the library's own reading of scores and beam indices.
    model, batch = draw_model(5), batch_of(draw_sources(4, 9, 3))
    found = model.generate(
        **batch, num_return_sequences=4, return_dict_in_generate=True, output_scores=True
    )
    steps = model.compute_transition_scores(found.sequences, found.scores, found.beam_indices)
    for row, score, ids in zip(steps, found.sequences_scores, found.sequences, strict=True):
        expected = references.wu_score(row.sum().item(), len(pieces_of(ids)), 0.6)
        assert float(score) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("form", ["wu", "power"])
def test_attentions_and_states_are_returned_as_by_the_library(form):
    model, batch = draw_model(5), batch_of(draw_sources(4, 9))
    model.set_attn_implementation("eager")
    found = model.generate(
        **batch,
        return_dict_in_generate=True,
        output_attentions=True,
        output_hidden_states=True,
        output_logits=True,
        length_penalty_type=form,
    )
    assert found.encoder_attentions[0].shape == (2, 2, 9, 9)
    assert found.encoder_hidden_states[-1].shape == (2, 9, 16)
    assert found.cross_attentions[0][1].shape == (8, 2, 1, 9)
    assert found.decoder_attentions[2][1].shape == (8, 2, 1, 3)
    assert found.decoder_hidden_states[1][-1].shape == (8, 1, 16)
    assert found.logits[0].shape == (8, 12)
    assert found.past_key_values.get_seq_length() == len(found.logits)


class StopsAt(StoppingCriteria):
    def __init__(self, piece: int) -> None:
        self.piece = piece

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        return input_ids[:, -1] == self.piece


def test_other_criteria_end_hypotheses_too():
    model, source = draw_model(2), draw_sources(8)[0]
    piece = pieces_of(model.generate(**batch_of([source]))[0])[0]
    assert piece != EOS
    stopped = model.generate(
        **batch_of([source]), stopping_criteria=StoppingCriteriaList([StopsAt(piece)])
    )
    generated = stopped[0, 1:].tolist()
    assert piece not in generated[:-1]
    assert generated[-1] in (piece, EOS)


def test_log_probabilities_pass_through_the_processors():
    model, source = draw_model(2), draw_sources(8)[0]
    usual = pieces_of(model.generate(**batch_of([source]))[0])
    banned = usual[0]
    assert banned != EOS
    without = model.generate(**batch_of([source]), bad_words_ids=[[banned]])[0, 1:]
    assert banned not in without.tolist()
    longer = model.generate(**batch_of([source]), min_new_tokens=len(usual) + 2)[0]
    assert len(pieces_of(longer)) >= len(usual) + 2


@pytest.mark.parametrize("form", ["wu", "power"])
def test_attentions_are_those_of_the_translation_read_at_once(form):
    model, batch = draw_model(2, scale=1.8), batch_of(draw_sources(4, 9, 3))
    model.set_attn_implementation("eager")
    found = model.generate(
        **batch,
        max_new_tokens=5,
        min_new_tokens=5,
        return_dict_in_generate=True,
        output_attentions=True,
        output_logits=True,  # else the library's search keeps no beam indices
        length_penalty_type=form,
    )
    read = model(**batch, decoder_input_ids=found.sequences[:, :-1], output_attentions=True)
    for step, rows in enumerate(found.beam_indices.T):
        for layer in range(2):
            for name, length in (("cross_attentions", 9), ("decoder_attentions", step + 1)):
                kept = getattr(found, name)[step][layer]
                assert kept.shape == (12, 2, 1, length)
                expected = getattr(read, name)[layer][:, :, step, :length]
                torch.testing.assert_close(kept[rows.long(), :, 0], expected)


def test_processes_that_wait_for_each_other_search_alike():
    model, batch = draw_model(4), batch_of(draw_sources(4, 9, 3))
    expected = model.generate(**batch)
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    try:
        assert torch.equal(model.generate(**batch, synced_gpus=True), expected)
    finally:
        torch.distributed.destroy_process_group()
