"""The beam search against the formula, a search over everything, and the authors' algorithm."""

import inspect
import itertools
import json
import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForSeq2SeqLM,
    CompileConfig,
    EosTokenCriteria,
    GenerationConfig,
    GenerationMixin,
    MaxLengthCriteria,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.generation import utils

from tests import references
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, generation_vaswani


PAD, EOS = 1, 2
# Scores are sums of float32 log-probabilities; the last digits depend on the order of addition.
CLOSE = {"abs": 1e-5, "rel": 1e-5}
# The library's own search, which it then calls with our model; and its rules in ours.
by_the_library = GenerationMixin._beam_search
LIBRARYS: dict[str, Any] = {
    "length_penalty_type": "power",
    "num_return_sequences": 4,
    "max_new_tokens": 12,
}


def draw_model(
    seed: int, vocab_size: int = 12, scale: float = 2.5, **fields: Any
) -> VaswaniForConditionalGeneration:
    """A model of random weights that never says `<pad>` and often enough says `</s>`.

    The larger the scale, the further are its distributions from uniform.
    """
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {
        "d_model": 16,
        "d_ff": 24,
        "num_heads": 2,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "output_bias": True,
    }
    model = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=vocab_size, **sizes | fields))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
        nn.init.normal_(model.lm_head.bias)
        model.lm_head.bias[PAD], model.lm_head.bias[EOS] = -1e4, 2.0
    return model.eval()


def endless(**fields: Any) -> VaswaniForConditionalGeneration:
    """A model that never says `</s>`."""
    model = draw_model(0, **fields)
    with torch.no_grad():
        model.lm_head.bias[EOS] = -1e4
    return model


def draw_sources(*lengths: int, seed: int = 0, vocab_size: int = 12) -> list[list[int]]:
    chooser = random.Random(seed)
    return [
        [*(chooser.randrange(3, vocab_size) for _ in range(length - 1)), EOS] for length in lengths
    ]


def batch_of(sources: list[list[int]], padding_side: str = "right") -> dict[str, Tensor]:
    longest = max(map(len, sources))
    rows, masks = [], []
    for source in sources:
        padding = [PAD] * (longest - len(source))
        mask = [1] * len(source)
        rows.append(source + padding if padding_side == "right" else padding + source)
        masks.append(
            mask + [0] * len(padding) if padding_side == "right" else [0] * len(padding) + mask
        )
    return {"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(masks)}


def pieces_of(row: Tensor) -> tuple[int, ...]:
    """The generated pieces of a row of ids, `</s>` included, without start and padding."""
    return tuple(piece for piece in row.tolist() if piece != PAD)


@torch.no_grad()
def log_probability(model: nn.Module, source: list[int], pieces: tuple[int, ...]) -> float:
    """Of a target, all at once and in float64: no cache, no beam."""
    start = torch.tensor([[PAD, *pieces[:-1]]])
    logits = model(input_ids=torch.tensor([source]), decoder_input_ids=start).logits[0].double()
    return logits.log_softmax(-1).gather(1, torch.tensor(pieces).unsqueeze(1)).sum().item()


def authors_search(
    model: nn.Module, source: list[int], max_extra_tokens: int, alpha: float = 0.6, end: int = EOS
) -> list[tuple[float, tuple[int, ...]]]:
    """Scores and pieces of the hypotheses that the authors' algorithm finds with four beams."""

    @torch.no_grad()
    def next_log_probs(prefix: tuple[int, ...]) -> dict[int, float]:
        start = torch.tensor([[PAD, *prefix]])
        logits = model(input_ids=torch.tensor([source]), decoder_input_ids=start).logits
        return dict(enumerate(logits[0, -1].double().log_softmax(-1).tolist()))

    return references.beam_search(next_log_probs, 4, alpha, len(source) + max_extra_tokens, end)


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


@pytest.mark.parametrize("padding_side", ["right", "left"])
@pytest.mark.parametrize("plan", [{"num_beams": 4}, {"num_beams": 1}], ids=["beam", "greedy"])
def test_a_sentence_is_translated_alone_as_in_any_batch(plan, padding_side):
    model = draw_model(2)
    sources = draw_sources(*range(2, 26))
    alone = [pieces_of(model.generate(**batch_of([source]), **plan)[0]) for source in sources]
    order = random.Random(0).sample(range(len(sources)), len(sources))
    together: dict[int, tuple[int, ...]] = {}
    for first in range(0, len(order), 8):
        chosen = order[first : first + 8]
        ids = model.generate(**batch_of([sources[i] for i in chosen], padding_side), **plan)
        together |= {place: pieces_of(row) for place, row in zip(chosen, ids, strict=True)}
    assert [together[place] for place in range(len(sources))] == alone
    assert len({len(pieces) for pieces in alone}) > 3


def test_a_trained_model_translates_alone_as_in_any_batch(copier):
    model, tokenizer = copier
    texts = [" ".join(random.Random(n).choices("abcdefgh", k=n % 10 + 1)) for n in range(40)]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    together = tokenizer.batch_decode(model.generate(**batch, num_beams=4))
    for text, translation in zip(texts, together, strict=True):
        alone = model.generate(**tokenizer(text, return_tensors="pt"), num_beams=4)
        assert translation.replace("<pad>", "") == tokenizer.decode(alone[0]).replace("<pad>", "")


@pytest.mark.parametrize("form", ["wu", "power"])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_each_sentence_has_a_length_limit_of_its_own(num_beams, form):
    ids = endless().generate(
        **batch_of(draw_sources(3, 9, 6)),
        max_extra_tokens=4,
        num_beams=num_beams,
        length_penalty_type=form,
    )
    assert ids.ne(PAD).sum(dim=1).tolist() == [7, 13, 10]


def test_the_limit_counts_real_source_tokens_on_either_side():
    sources = draw_sources(3, 9)
    model = endless()
    for side in ("left", "right"):
        ids = model.generate(**batch_of(sources, side), max_extra_tokens=0)
        assert ids.ne(PAD).sum(dim=1).tolist() == [3, 9]
    encoded = model.get_encoder()(**batch_of(sources))
    ids = model.generate(
        encoder_outputs=encoded,
        attention_mask=batch_of(sources)["attention_mask"],
        max_extra_tokens=0,
    )
    assert ids.ne(PAD).sum(dim=1).tolist() == [3, 9]


def test_learned_positions_end_every_translation():
    model = endless(position_encoding="learned", max_position_embeddings=12)
    assert model.generate(**batch_of(draw_sources(9))).shape == (1, 13)


def test_a_length_given_to_the_call_replaces_the_sources():
    model, batch = endless(), batch_of(draw_sources(3))
    assert model.generate(**batch).shape[1] == 1 + 3 + 50
    assert model.generate(**batch, max_new_tokens=7).shape[1] == 1 + 7
    assert model.generate(**batch, max_length=7).shape[1] == 7
    assert (
        model.generate(**batch, generation_config=GenerationConfig(max_new_tokens=5)).shape[1] == 6
    )
    # Both, where both are given.
    assert model.generate(**batch, max_new_tokens=70, max_extra_tokens=1).shape[1] == 1 + 4
    assert model.generate(**batch, max_new_tokens=2, max_extra_tokens=1).shape[1] == 1 + 2


def test_what_the_librarys_trainer_leaves_behind_limits_nothing(monkeypatch):
    model, warnings = endless(), []
    monkeypatch.setattr(utils.logger, "warning", lambda message, *rest: warnings.append(message))
    model.generation_config.max_length = 20
    assert model.generate(**batch_of(draw_sources(3))).shape[1] == 1 + 3 + 50
    assert not warnings


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


def test_the_librarys_form_stays_selectable():
    model, sources = draw_model(1), draw_sources(6, 3, 8)
    options = {"return_dict_in_generate": True, "output_scores": True, "num_return_sequences": 4}
    batch = batch_of(sources)
    found = model.generate(**batch, **options, length_penalty_type="power", length_penalty=2.0)
    for row, (ids, score) in enumerate(zip(found.sequences, found.sequences_scores, strict=True)):
        total = log_probability(model, sources[row // 4], pieces_of(ids))
        expected = references.power_score(total, len(pieces_of(ids)), 2.0)
        assert float(score) == pytest.approx(expected, **CLOSE)
    config = GenerationConfig(length_penalty=2.0)
    config.length_penalty_type = "power"
    again = model.generate(**batch, **options, generation_config=config)
    assert torch.equal(again.sequences, found.sequences)
    model.generation_config.length_penalty_type = "power"
    again = model.generate(**batch, **options, length_penalty=2.0)
    assert torch.equal(again.sequences, found.sequences)
    # A generation config that says nothing of it is one of the library's.
    del model.generation_config.length_penalty_type
    again = model.generate(**batch, **options, length_penalty=2.0)
    assert torch.equal(again.sequences, found.sequences)
    again = model.generate(**batch, **options, length_penalty=2.0, length_penalty_type=None)
    assert torch.equal(again.sequences, found.sequences)


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


def test_low_memory_is_refused_as_by_the_library():
    model, batch = draw_model(1), batch_of(draw_sources(6))
    for more in ({}, {"custom_generate": by_the_library}):
        with pytest.raises(ValueError, match="low_memory=True"):
            model.generate(**batch, **more, low_memory=True)


@pytest.mark.parametrize("form", ["wu", "power"])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_labels_in_the_batch_change_nothing(num_beams, form):
    model, batch = draw_model(2), batch_of(draw_sources(4, 9, 3))
    plan = {"num_beams": num_beams, "length_penalty_type": form}
    expected = model.generate(**batch, **plan)
    for columns in (3, 9):
        labels = torch.full((3, columns), 7)
        assert torch.equal(model.generate(**batch, **plan, labels=labels), expected)


def test_one_beam_and_the_librarys_search_stop_at_a_length_criterion_and_so_does_ours():
    model, batch = endless(), batch_of(draw_sources(4, 9))
    for limits in ([5], [30, 5], [5, 30], [1]):
        # One beam stops where the library says: after one token at the earliest.
        criteria = [MaxLengthCriteria(limit) for limit in limits]
        plan = {"max_new_tokens": 20, "stopping_criteria": criteria}
        expected = model.generate(**batch, **plan, num_beams=1).shape[1]
        assert expected == max(2, min(limits))
        for form in ("wu", "power"):
            found = model.generate(**batch, **plan, length_penalty_type=form)
            assert found.shape == (2, expected)


def test_a_longer_length_criterion_takes_the_place_of_the_limit():
    model, batch = endless(), batch_of(draw_sources(4, 9))
    plan = {"max_new_tokens": 3, "stopping_criteria": [MaxLengthCriteria(8)]}
    assert model.generate(**batch, **plan, num_beams=1).shape == (2, 8)
    for form in ("wu", "power"):
        assert model.generate(**batch, **plan, length_penalty_type=form).shape == (2, 8)


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


def test_a_new_model_generates_as_the_paper_does(tmp_path):
    # Section 6.1: beam size 4, alpha 0.6, input length + 50.
    draw_model(0).save_pretrained(tmp_path)
    written = json.loads((tmp_path / "generation_config.json").read_text())
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).generation_config
    for name, value in [
        ("num_beams", 4),
        ("length_penalty", 0.6),
        ("length_penalty_type", "wu"),
        ("max_extra_tokens", 50),
    ]:
        assert written[name] == getattr(loaded, name) == value


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"length_penalty_type": "gnmt"}, "length_penalty_type='gnmt'"),
        ({"max_extra_tokens": -1}, "max_extra_tokens=-1"),
        ({"length_penalty": 1e30}, r"length_penalty=1e\+30"),
        ({"length_penalty": math.nan}, "length_penalty=nan"),
        ({"max_extra_tokens": 2.5}, r"max_extra_tokens=2\.5"),
    ],
)
def test_an_entry_that_cannot_be_is_refused(entry, message):
    model, batch = draw_model(0), batch_of(draw_sources(3))
    with pytest.raises(ValueError, match=message):
        model.generate(**batch, **entry)
    for name, value in entry.items():
        setattr(model.generation_config, name, value)
    with pytest.raises(ValueError, match=message):
        model.generate(**batch)


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


def test_a_given_start_is_continued():
    model, source = draw_model(2), draw_sources(8)[0]
    prompt = torch.tensor([[PAD, 7, 5]])
    found = model.generate(
        **batch_of([source]),
        decoder_input_ids=prompt,
        max_extra_tokens=2,
        return_dict_in_generate=True,
    )
    assert found.sequences[0, :3].tolist() == [PAD, 7, 5]
    assert found.sequences.shape[1] <= 3 + 8 + 2
    # The score is of what was generated, not of what was given.
    pieces = pieces_of(found.sequences[0])
    total = log_probability(model, source, pieces) - log_probability(model, source, (7, 5))
    expected = references.wu_score(total, len(pieces) - 2, 0.6)
    assert float(found.sequences_scores[0]) == pytest.approx(expected, **CLOSE)


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
    # The library's search leaves the memory as it was given: a row for each sentence.
    for name, repeats in (("self_attention_cache", 1), ("cross_attention_cache", 4)):
        pairs = zip(getattr(ours, name).layers, getattr(theirs, name).layers, strict=True)
        for mine, its in pairs:
            keys, values = (kept.repeat_interleave(repeats, 0) for kept in (its.keys, its.values))
            torch.testing.assert_close(mine.keys, keys, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(mine.values, values, atol=1e-5, rtol=1e-4)
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


@pytest.mark.parametrize("num_beams", [1, 4])
def test_transition_scores_of_two_vocabularies_are_log_probabilities(num_beams):
    for sizes in ({"vocab_size": 12, "target_vocab_size": 19}, {"vocab_size": 19}):
        sizes = {"target_vocab_size": 12, **sizes}
        model = draw_model(5, scale=1.8, share_embeddings=False, **sizes)
        sources = draw_sources(4, 9, 3)
        found = model.generate(
            **batch_of(sources),
            num_beams=num_beams,
            num_return_sequences=num_beams,
            return_dict_in_generate=True,
            output_scores=True,
            max_extra_tokens=5,
        )
        steps = model.compute_transition_scores(
            found.sequences,
            found.scores,
            getattr(found, "beam_indices", None),
            normalize_logits=num_beams == 1,
        )
        for row, (scores, ids) in enumerate(zip(steps, found.sequences, strict=True)):
            pieces = pieces_of(ids)
            expected = log_probability(model, sources[row // num_beams], pieces)
            assert scores[: len(pieces)].sum().item() == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(
    "plan", [{"num_beams": 4, "num_return_sequences": 3}, {"num_beams": 1}], ids=["beam", "greedy"]
)
def test_transition_scores_of_one_vocabulary_are_the_librarys(plan, normalize):
    model = draw_model(5, scale=1.8)
    found = model.generate(
        **batch_of(draw_sources(4, 9, 3)),
        **plan,
        return_dict_in_generate=True,
        output_scores=True,
    )
    given = (found.sequences, found.scores, getattr(found, "beam_indices", None), normalize)
    expected = GenerationMixin.compute_transition_scores(model, *given)
    torch.testing.assert_close(model.compute_transition_scores(*given), expected)


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


def test_the_library_still_calls_our_beam_search(monkeypatch):
    """Fails where a new version of transformers has changed what we hook into."""
    told = "transformers has changed; see VaswaniGenerationMixin._beam_search"
    mapping = utils.GENERATION_MODES_MAPPING
    assert mapping.get(utils.GenerationMode.BEAM_SEARCH) == "_beam_search", told
    assert mapping.get(utils.GenerationMode.BEAM_SAMPLE) == "_beam_search", told
    theirs = inspect.signature(GenerationMixin._beam_search).parameters
    ours = inspect.signature(generation_vaswani.VaswaniGenerationMixin._beam_search).parameters
    assert list(ours) == list(theirs), told
    calls = []
    search = generation_vaswani.beam_search

    def noted(*arguments: Any, **named: Any) -> Any:
        calls.append(named["generation_config"].length_penalty_type)
        return search(*arguments, **named)

    monkeypatch.setattr(generation_vaswani, "beam_search", noted)
    model, batch = draw_model(0), batch_of(draw_sources(3))
    model.generate(**batch)
    assert calls == ["wu"], told
    model.generate(**batch, length_penalty_type="power")
    assert calls == ["wu", "power"], told
    model.generate(**batch, do_sample=True, length_penalty_type="power")
    assert calls == ["wu", "power", "power"], told
    model.generate(**batch, num_beams=1)
    assert len(calls) == 3, told
