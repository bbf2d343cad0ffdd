import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.translation.ctranslate2_models import words
from vaswani_hf.translation.pairs import Pair, PairError, PairReader, UnequalLengthError, sides_of


EOS = 2


def reader(tokenizer=None, **options):
    tokenizer = tokenizer or words("s", 23)
    defaults = {"end_ids": [EOS], "max_positions": None, "batch_tokens": 20}
    return PairReader(tokenizer, tokenizer, **defaults | {"max_batch_sentences": 4} | options)


def places(pairs):
    return [pair.place for pair in pairs]


def test_texts_end_in_the_end_piece_and_ids_stay_as_they_are():
    ((first, second),) = reader().chunks(["s0 s1", [5, 6]], ["s0", [7]])
    assert (first.source, first.target) == ([3, 4, EOS], [3, EOS])
    assert (first.source_text, first.target_text) == ("s0 s1", "s0")
    assert (second.source, second.target) == ([5, 6], [7])
    assert (second.source_text, second.target_text) == (None, None)


def test_a_text_of_a_tokenizer_without_end_pieces_ends_too():
    tokenizer = words("s", 23)
    tokenizer.backend_tokenizer.post_processor = None
    ((pair,),) = reader(tokenizer).chunks(["s0"], ["s1"])
    assert (pair.source, pair.target) == ([3], [4, EOS])


lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=20)


@settings(max_examples=100, deadline=None)
@given(lengths=lengths)
def test_batches_keep_to_the_budget_and_answers_to_the_order(lengths):
    pairs = [Pair(9 + i, [3] * s, [4] * t, None, None) for i, (s, t) in enumerate(lengths)]
    random.Random(0).shuffle(pairs)
    pairs.sort(key=lambda pair: pair.place)
    seen = []

    def answer(batch):
        seen.extend(places(batch))
        for side in ("source", "target"):
            padded = len(batch) * max(len(getattr(pair, side)) for pair in batch)
            assert padded <= 20 or len(batch) == 1
        assert len(batch) <= 4
        return places(batch)

    assert reader().answers(pairs, answer) == places(pairs)
    assert sorted(seen) == places(pairs)


def test_no_more_is_read_than_a_chunk():
    read = []

    def endless(name):
        for number in itertools.count():
            read.append(name)
            yield f"s{number % 9}"

    chunks = reader(chunk_pairs=3).chunks(endless("source"), endless("target"))
    assert places(next(chunks)) == [0, 1, 2]
    assert len(read) == 6
    assert places(next(chunks)) == [3, 4, 5]


@pytest.mark.parametrize(("counts", "side"), [((3, 5), "source"), ((5, 3), "target")])
@pytest.mark.parametrize("chunk_pairs", [2, 3, 10])
def test_the_side_that_ends_first_is_named_after_whole_pairs(counts, side, chunk_pairs):
    sides = (itertools.repeat("s0", count) for count in counts)
    done = []
    with pytest.raises(UnequalLengthError, match=f"There are 3 of {side}, and more of") as error:
        for chunk in reader(chunk_pairs=chunk_pairs).chunks(*sides):
            done += places(chunk)
    assert (error.value.side, error.value.count) == (side, 3)
    assert done == [0, 1, 2]


def test_a_side_beyond_the_positions_is_named():
    short = reader(max_positions=4)
    assert places(*short.chunks(["s0 s0 s0"], ["s0"])) == [0]
    message = r"source 1 \(counted from 0\): its 5 tokens need 5 positions, but the model has 4"
    with pytest.raises(PairError, match=message):
        list(short.chunks(["s0", "s0 s0 s0 s0"], ["s0", "s0"]))
    with pytest.raises(PairError, match=r"target 0 .* its 4 tokens need 5 positions") as error:
        list(short.chunks(["s0"], ["s0 s0 s0"], lambda ids: len(ids) + 1))
    assert (error.value.place, error.value.side) == (0, "target")


@pytest.mark.parametrize(("pair", "side"), [(([], [3]), "source"), (([3], []), "target")])
def test_ids_of_nothing_are_refused(pair, side):
    with pytest.raises(PairError, match=f"{side} 0 .* has no tokens"):
        list(reader().chunks([pair[0]], [pair[1]]))


@pytest.mark.parametrize(("source", "target"), [("a", ["b"]), (["a"], "b"), (iter("a"), "b")])
def test_one_side_of_a_pair_is_no_list_of_the_other(source, target):
    with pytest.raises(ValueError, match=r"There is one (source|target) and a list of "):
        sides_of(source, target)
    assert sides_of("a", [3]) == (["a"], [[3]])
    assert sides_of(["a"], [[3]]) == (["a"], [[3]])


def test_nothing_is_said_of_the_trained_length(caplog):
    tokenizer = words("s", 23)
    tokenizer.model_max_length = 2
    list(reader(tokenizer).chunks(["s0 s0 s0"], ["s0 s0 s0"]))
    assert not caplog.records
