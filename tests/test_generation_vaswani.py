"""`generate()` of this model: its two entries, its limits, and what the library calls of it."""

import copy
import inspect
import json
import math
import random
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from transformers import (
    AutoModelForSeq2SeqLM,
    GenerationConfig,
    GenerationMixin,
    MaxLengthCriteria,
)
from transformers.generation import utils

from tests import references
from tests.searching import (
    CLOSE,
    PAD,
    batch_of,
    by_the_library,
    draw_model,
    draw_sources,
    endless,
    log_probability,
    pieces_of,
)
from vaswani_hf import beam_search_vaswani, generation_vaswani
from vaswani_hf.beam_search_vaswani import LibraryRules, PaperRules
from vaswani_hf.generation_vaswani import VaswaniGenerationMixin


@pytest.mark.parametrize("padding_side", ["right", "left"])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_a_sentence_is_translated_alone_as_in_any_batch(num_beams, padding_side):
    model, plan = draw_model(2), {"num_beams": num_beams, "max_extra_tokens": 5}
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
        ({"num_beams": 10_000_000}, "pieces, got num_beams=10000000"),
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


# What is written to, and what is not


@pytest.mark.parametrize("num_beams", [1, 4])
def test_generate_writes_into_no_config(num_beams):
    model, batch = draw_model(2, scale=1.8), batch_of(draw_sources(4, 9, 3))
    entries = {"length_penalty_type": "wu", "max_extra_tokens": 3, "num_beams": num_beams}
    expected = model.generate(**batch, **entries)
    for name in ("length_penalty_type", "max_extra_tokens"):
        delattr(model.generation_config, name)
    configs = [model.generation_config, GenerationConfig(num_beams=num_beams), model.config]
    before = [copy.deepcopy(vars(config)) for config in configs]
    assert torch.equal(model.generate(**batch, **entries), expected)
    model.generate(**batch, generation_config=configs[1], **entries)
    with pytest.raises(ValueError, match="max_new_tokenz"):
        model.generate(**batch, **entries, max_new_tokenz=3)
    assert [vars(config) for config in configs] == before


def test_generate_changes_no_list_of_the_caller():
    model, batch = draw_model(2), batch_of(draw_sources(4, 9))
    criteria, config = [MaxLengthCriteria(9)], GenerationConfig(num_beams=2)
    model.generate(**batch, stopping_criteria=criteria, generation_config=config)
    assert len(criteria) == 1 and config.max_new_tokens is None


def test_a_model_searches_by_several_rules_at_once():
    model, batch = draw_model(2, scale=1.8), batch_of(draw_sources(4, 9, 3))
    plans = [
        {"length_penalty_type": form, "max_extra_tokens": extra, "length_penalty": 2.0}
        for form in ("wu", "power")
        for extra in (1, 6)
    ]
    expected = [model.generate(**batch, **plan) for plan in plans]
    assert len({tuple(ids.flatten().tolist()) for ids in expected}) == len(plans)
    with ThreadPoolExecutor(len(plans)) as pool:
        found = list(pool.map(lambda plan: model.generate(**batch, **plan), plans))
    assert all(map(torch.equal, found, expected))


# What is private in the library


def lacks_compile_criteria(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(GenerationMixin, "_valid_auto_compile_criteria")


def lacks_attention_name(monkeypatch: pytest.MonkeyPatch) -> None:
    # The model itself asks for the name too, so the answer is what is missing here.
    assert not beam_search_vaswani.takes_any_mask(SimpleNamespace(config=SimpleNamespace()))
    monkeypatch.setattr(beam_search_vaswani, "takes_any_mask", lambda model: False)


def calls_no_expand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(VaswaniGenerationMixin, "_expand_inputs_for_generation")


def calls_no_reorder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(VaswaniGenerationMixin, "_reorder_cache")


def calls_no_beam_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(GenerationMixin, "_beam_search")
    for mode in (utils.GenerationMode.BEAM_SEARCH, utils.GenerationMode.BEAM_SAMPLE):
        monkeypatch.setitem(utils.GENERATION_MODES_MAPPING, mode, "heal_tokens")


ABSENCES = [
    (lacks_compile_criteria, {"num_beams": 4}),  # one beam is searched by the library, which asks
    *(
        (absence, {"num_beams": num_beams})
        for absence in (lacks_attention_name, calls_no_expand, calls_no_reorder)
        for num_beams in (1, 4)
    ),
    (calls_no_beam_search, {"num_beams": 1}),
    (calls_no_beam_search, {"num_beams": 4}),
    (calls_no_beam_search, {"num_beams": 4, "length_penalty_type": "power"}),
    (calls_no_expand, {"num_beams": 1, "do_sample": True, "num_return_sequences": 3}),
    (calls_no_expand, {"num_beams": 4, "cache_implementation": "static"}),
]


@pytest.mark.parametrize(
    ("absence", "plan"), ABSENCES, ids=lambda part: getattr(part, "__name__", None)
)
def test_searches_find_the_same_without_a_private_name(monkeypatch, absence, plan):
    model, batch = draw_model(2, scale=1.8), batch_of(draw_sources(4, 9, 3))

    def search() -> Any:
        torch.manual_seed(0)
        found = model.generate(**batch, **plan, return_dict_in_generate=True)
        torch.manual_seed(0)
        return found, model.generate(**batch, **plan)

    kept, expected = search()
    absence(monkeypatch)
    kept_without, found = search()
    assert torch.equal(found, expected) and torch.equal(kept_without.sequences, kept.sequences)
    ours, theirs = (
        [layer.keys for layer in outputs.past_key_values.cross_attention_cache.layers]
        for outputs in (kept_without, kept)
    )
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, its)


@pytest.mark.parametrize("name", ["_beam_search", "_expand_inputs_for_generation"])
def test_the_librarys_methods_that_are_replaced_take_what_they_took(name):
    """Fails where a version of transformers has changed what we replace."""
    theirs, ours = (
        [
            argument for argument in signature.parameters if argument != "self"
        ]  # static in transformers 5.17
        for signature in (
            inspect.signature(getattr(owner, name))
            for owner in (GenerationMixin, VaswaniGenerationMixin)
        )
    )
    told = f"transformers {transformers.__version__} changed GenerationMixin.{name}; see ours"
    assert ours == theirs, told


def test_the_library_still_calls_our_beam_search(monkeypatch):
    """Fails where a version of transformers has changed what we replace."""
    told = f"transformers {transformers.__version__} changed; see ours of _beam_search"
    mapping = utils.GENERATION_MODES_MAPPING
    assert mapping.get(utils.GenerationMode.BEAM_SEARCH) == "_beam_search", told
    assert mapping.get(utils.GenerationMode.BEAM_SAMPLE) == "_beam_search", told
    calls = []
    search = generation_vaswani.beam_search

    def noted(*arguments: Any, **named: Any) -> Any:
        calls.append(type(named["rules"]))
        return search(*arguments, **named)

    monkeypatch.setattr(generation_vaswani, "beam_search", noted)
    model, batch = draw_model(0), batch_of(draw_sources(3))
    model.generate(**batch)
    assert calls == [PaperRules], told
    model.generate(**batch, length_penalty_type="power")
    assert calls == [PaperRules, LibraryRules], told
    model.generate(**batch, do_sample=True, length_penalty_type="power")
    assert calls == [PaperRules, LibraryRules, LibraryRules], told
    model.generate(**batch, num_beams=1)
    assert len(calls) == 3, told
