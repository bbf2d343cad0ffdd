"""What a caller of `generate()` sees of a search while it goes on: beams, and greedy text."""

import pytest
import torch
from transformers import TextStreamer

from tests import references
from tests.searching import (
    CLOSE,
    EOS,
    batch_of,
    draw_model,
    draw_sources,
    endless,
    log_probability,
    pieces_of,
)
from vaswani_hf.tokenization_vaswani import tokenizer_of_segmented_text


SOURCES = draw_sources(3, 8, 5, 1)
NUM_BEAMS = 3


def watch(model, extra, **options):
    """The steps of each sentence, and what `generate()` returns."""
    steps = []
    found = model.generate(
        **batch_of(SOURCES),
        num_beams=NUM_BEAMS,
        num_return_sequences=NUM_BEAMS,
        max_extra_tokens=extra,
        return_dict_in_generate=True,
        on_step=steps.append,
        **options,
    )
    by_sentence = [[step for step in steps if step.sentence == n] for n in range(len(SOURCES))]
    return by_sentence, found


@pytest.mark.parametrize("kind", ["wu", "power"])
@pytest.mark.parametrize("make", [draw_model, endless], ids=["ends", "is cut off"])
def test_the_steps_tell_what_the_search_returns(kind, make):
    model = make(seed=1) if make is draw_model else make()
    watched, found = watch(model, 9 if make is draw_model else 2, length_penalty_type=kind)
    seen = set()
    for number, (source, steps) in enumerate(zip(SOURCES, watched, strict=True)):
        beams = {0: ()}
        results = []
        for length, step in enumerate(steps, start=1):
            assert step.num_tokens == length
            assert step.is_done == (step is steps[-1])
            going_on = {}
            for candidate in step.candidates:
                seen.add(candidate.outcome)
                assert candidate.ids == (*beams[candidate.parent], candidate.token)
                if candidate.beam is not None:
                    assert candidate.outcome == "goes_on"
                    going_on[candidate.beam] = candidate.ids
                if candidate.outcome in ("ended", "cut_off"):
                    assert (candidate.token == EOS) == (candidate.outcome == "ended")
                    rank = kind == "power" or candidate.outcome == "ended"
                    results.append((rank, candidate.score, candidate.ids))
                else:
                    assert candidate.score is None
            log_probs = [candidate.log_prob for candidate in step.candidates]
            assert log_probs == sorted(log_probs, reverse=True)
            best = step.candidates[0]
            total = log_probability(model, source, best.ids)
            assert best.log_prob == pytest.approx(total, **CLOSE)
            if best.score is not None:
                expected = references.wu_score(total, length, 0.6)
                expected = expected if kind == "wu" else total / length**0.6
                assert best.score == pytest.approx(expected, **CLOSE)
            beams = going_on
        results = sorted(results, reverse=True)[:NUM_BEAMS]
        rows = slice(number * NUM_BEAMS, (number + 1) * NUM_BEAMS)
        assert [ids for _, _, ids in results] == list(map(pieces_of, found.sequences[rows]))
        scores = found.sequences_scores[rows].tolist()
        assert [score for _, score, _ in results] == pytest.approx(scores, **CLOSE)
    outcomes = {"goes_on", "dropped", "ended" if make is draw_model else "cut_off"}
    assert outcomes <= seen


def test_a_caller_who_watches_gets_the_same():
    model = draw_model(1)
    options = {"num_beams": 4, "num_return_sequences": 2}
    expected = model.generate(**batch_of(SOURCES), **options)
    steps = []
    found = model.generate(**batch_of(SOURCES), **options, on_step=steps.append)
    assert found.equal(expected)
    assert {step.sentence for step in steps} == set(range(len(SOURCES)))


def test_greedy_search_has_no_beams_to_watch():
    with pytest.raises(ValueError, match="on_step is for beam search, got num_beams=1"):
        draw_model(0).generate(**batch_of(SOURCES), num_beams=1, on_step=print)


def test_the_librarys_streamer_tells_greedy_text(capsys):
    model, tokenizer = (
        draw_model(3),
        tokenizer_of_segmented_text(["a b c d e f g h i"], are_files=False),
    )
    source = torch.tensor([SOURCES[1]])
    (ids,) = model.generate(source, num_beams=1)
    model.generate(source, num_beams=1, streamer=TextStreamer(tokenizer, skip_special_tokens=True))
    expected = tokenizer.decode(ids, skip_special_tokens=True)
    assert expected.strip() and capsys.readouterr().out.strip() == expected.strip()


def test_the_sum_of_many_log_probabilities_keeps_its_digits():
    # Fifty pieces of about -2: added in float32, the first of the two is wrong by 1.6e-5.
    model = draw_model(3, vocab_size=40, scale=0.5)
    with torch.no_grad():
        model.lm_head.bias[EOS] = -1e4
    sources = draw_sources(9, 5, seed=3, vocab_size=40)
    found = model.generate(
        **batch_of(sources),
        num_beams=4,
        length_penalty=0.0,
        max_extra_tokens=45,
        return_dict_in_generate=True,
    )
    model.double()
    for source, row, score in zip(sources, found.sequences, found.sequences_scores, strict=True):
        expected = log_probability(model, source, pieces_of(row))
        assert expected < -64
        assert float(score) == pytest.approx(expected, abs=5e-6)
