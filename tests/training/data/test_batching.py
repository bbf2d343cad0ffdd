import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from training.data import batching
from training.data.batching import TokenBatchSampler, by_longer_side, cut, training_batches
from training.settings.budget import TokenBudget
from training.settings.reading import parse_arguments


LENGTHS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=120)


def make(pairs, source_tokens=60, target_tokens=50, processes=1, **options):
    """Batches of so many tokens a side."""
    source, target = zip(*pairs, strict=True)
    budget = TokenBudget(
        source_tokens * processes, target_tokens * processes, processes=processes, **options
    )
    return TokenBatchSampler(source, target, budget)


@given(LENGTHS, st.integers(1, 4), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_every_pair_lands_in_exactly_one_batch(pairs, processes, epoch):
    sampler = make(pairs, processes=processes)
    sampler.set_epoch(epoch)
    assert sorted(pair for batch in sampler for pair in batch) == list(range(len(pairs)))


@given(LENGTHS)
@settings(max_examples=60, deadline=None)
def test_no_batch_passes_its_budget_on_either_side(pairs):
    for batch in make(pairs):
        assert len(batch) * max(pairs[pair][0] for pair in batch) <= 60
        assert len(batch) * max(pairs[pair][1] for pair in batch) <= 50


@given(LENGTHS, st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_processes_get_equally_many_batches_while_there_are_pairs_enough(pairs, processes):
    sampler = make(pairs, processes=processes)
    if len(pairs) >= 8 * processes:
        assert len(sampler) % processes == 0


def test_epochs_have_equal_lengths_and_new_orders():
    rng = np.random.default_rng(0)
    sampler = make(rng.integers(1, 30, size=(500, 2)).tolist())
    orders = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        orders.append([tuple(batch) for batch in sampler])
    assert {len(order) for order in orders} == {len(sampler)}
    assert orders[0] != orders[1] != orders[2]
    assert set(orders[0]) == set(orders[1]) == set(orders[2])


def test_the_order_of_an_epoch_depends_on_seed_and_epoch_alone():
    pairs = [(length % 9 + 1, length % 7 + 1) for length in range(200)]
    first, second = make(pairs, seed=3), make(pairs, seed=3)
    list(first)  # an epoch that the other sampler did not run
    first.set_epoch(5)
    second.set_epoch(5)
    assert list(first) == list(second)
    third = make(pairs, seed=4)
    third.set_epoch(5)
    assert list(third) != list(first)


def test_pairs_of_like_length_share_a_batch():
    # By hand: 6 pairs of 10 and 6 of 20 tokens, 60 a batch: one batch of six, two of three.
    sampler = make([(10, 10)] * 6 + [(20, 20)] * 6, source_tokens=60, target_tokens=60)
    assert sorted(len(batch) for batch in sampler) == [3, 3, 6]
    assert sampler.padding_share == 0


def test_a_third_less_padding_than_after_sorting_by_target_then_source():
    # The lengths of Multi30k, roughly: 15 tokens give or take 4.5, sides 2.5 apart. The peer is the
    # plain sort, cut greedily.
    rng = np.random.default_rng(0)
    target = rng.gamma(11, 1.4, 6000).astype(int) + 2
    source = np.maximum(target + rng.normal(0, 2.5, 6000).astype(int), 2)
    batches, budget = [[]], 2000
    for pair in np.lexsort((source, target))[::-1]:
        longer = [*batches[-1], pair]
        if len(longer) * max(source[longer].max(), target[longer].max()) > budget:
            batches.append([])
        batches[-1].append(pair)
    padded = sum(len(batch) * (source[batch].max() + target[batch].max()) for batch in batches)
    sorted_share = 1 - (source.sum() + target.sum()) / padded
    sampler = TokenBatchSampler(source, target, TokenBudget(budget, budget))
    assert sampler.padding_share < 0.65 * sorted_share
    assert len(sampler) < len(batches)


def test_neighbours_in_the_order_are_alike_on_both_sides():
    # Every pair of lengths up to 6: a path exists that never changes a side by more than 1.
    source, target = np.indices((6, 6)).reshape(2, -1) + 1
    order = by_longer_side(source, target, seed=0)
    assert np.abs(np.diff(source[order])).max() == np.abs(np.diff(target[order])).max() == 1


def test_parts_of_the_corpus_are_mixed_within_batches():
    # Two texts of the same lengths, one behind the other: by chance, no batch holds only one.
    lengths = np.random.default_rng(0).integers(5, 9, size=(400, 2)).tolist()
    sampler = make(lengths * 2, source_tokens=200, target_tokens=200)
    for batch in sampler:
        assert {pair < 400 for pair in batch} == {True, False} or len(batch) < 8


@given(LENGTHS, st.integers(1, 9), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_a_batch_of_padded_lengths_keeps_to_its_budgets(pairs, multiple, processes):
    sampler = make(pairs, pad_to_multiple_of=multiple, processes=processes)
    assert sorted(pair for batch in sampler for pair in batch) == list(range(len(pairs)))
    for batch in sampler:
        for side, budget in enumerate((60, 50)):
            longest = max(pairs[pair][side] for pair in batch)
            padded = next(length for length in range(longest, 99) if length % multiple == 0)
            assert len(batch) * padded <= budget


def test_padding_to_multiples_and_full_batches_is_counted():
    # By hand, multiples of 4: three pairs of 10 and 5 tokens are 12 and 8 long; 60 and 50 tokens
    # hold five of them; 3 x 15 real tokens of 5 x 20.
    sampler = make([(10, 5)] * 3, pad_to_multiple_of=4)
    assert sampler.padding_share == pytest.approx(1 - 45 / 100)


def cheapest(pairs, price):
    """The least cost of all ways to cut these pairs, by trying every one."""
    if not pairs:
        return 0
    costs = []
    for size in range(1, len(pairs) + 1):
        source, target = (size * max(side) for side in zip(*pairs[:size], strict=True))
        if source <= 60 and target <= 50:
            costs.append(source + target + price + cheapest(pairs[size:], price))
    return min(costs)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=11),
    st.integers(0, 60),
)
@settings(max_examples=60, deadline=None)
def test_no_other_cuts_cost_less(pairs, price):
    source, target = np.array(pairs).T
    batches = cut(np.arange(len(pairs)), source, target, TokenBudget(60, 50), price)
    assert [pair for batch in batches for pair in batch] == list(range(len(pairs)))
    cost = sum(
        len(batch) * int(source[batch].max() + target[batch].max()) + price for batch in batches
    )
    assert cost == cheapest(pairs, price)


@given(LENGTHS, st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_batches_cut_for_padding_keep_every_pair_and_their_budgets(pairs, processes):
    sampler = make(pairs, processes=processes, max_padding=0.03)
    assert sorted(pair for batch in sampler for pair in batch) == list(range(len(pairs)))
    for batch in sampler:
        assert len(batch) * max(pairs[pair][0] for pair in batch) <= 60
        assert len(batch) * max(pairs[pair][1] for pair in batch) <= 50


def like_multi30k():
    """Lengths of 29,000 pairs: 15 tokens give or take 4.5, sides 2.5 apart."""
    rng = np.random.default_rng(0)
    target = rng.gamma(11, 1.4, 29000).astype(int) + 2
    return np.maximum(target + rng.normal(0, 2.5, 29000).astype(int), 2), target


def test_a_few_batches_more_bring_padding_below_three_percent():
    lengths = like_multi30k()
    full = TokenBatchSampler(*lengths, TokenBudget(8192, 8192))
    sampler = TokenBatchSampler(*lengths, TokenBudget(8192, 8192, max_padding=0.03))
    assert full.padding_share > 0.035
    assert sampler.padding_share <= 0.03
    assert len(sampler) <= 1.25 * len(full)


def test_where_padding_is_low_batches_stay_full():
    lengths = like_multi30k()
    full = TokenBatchSampler(*lengths, TokenBudget(2000, 2000))
    assert full.padding_share < 0.03
    sampler = TokenBatchSampler(*lengths, TokenBudget(2000, 2000, max_padding=0.03))
    assert sampler.batches == full.batches


def test_where_padding_cannot_be_low_batches_do_not_become_many():
    # Twenty pairs of twenty lengths, all in one batch: without padding each would be alone.
    pairs = [(length, length) for length in range(1, 21)]
    options = {"source_tokens": 500, "target_tokens": 500}
    assert len(make(pairs, **options)) == len(make(pairs, **options, max_padding=0.03)) == 1


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=40),
    st.integers(12, 2000),
    st.integers(12, 2000),
    st.sampled_from([0.0, 0.001, 0.03, 0.2, 1.0]),
)
@example([(3, 3), (3, 2)], 100, 100, 0.03)  # one batch has 1/12 of padding, two are too many
@example([(length, length) for length in (9, 9, 8, 8)], 18, 18, 0.0)
@settings(max_examples=100, deadline=None)
def test_batches_are_found_after_a_bounded_number_of_cuts(pairs, source, target, max_padding):
    # A price starts at both budgets and loses a fifth each time. Costs are 2 tokens at least, and
    # 2 + 2**-53 is 2 in float64: below that no price gives another cut.
    most_cuts = math.ceil(math.log((source + target) * 2**53, 1.25)) + 1
    full = make(pairs, source_tokens=source, target_tokens=target)

    def count(*arguments):
        assert counted.call_count <= most_cuts
        return cut(*arguments)

    with mock.patch.object(batching, "cut", side_effect=count) as counted:
        sampler = make(pairs, source_tokens=source, target_tokens=target, max_padding=max_padding)
    assert sorted(pair for batch in sampler for pair in batch) == list(range(len(pairs)))
    assert len(sampler) <= 1.25 * len(full)
    for batch in sampler:
        for side, budget in enumerate((source, target)):
            assert len(batch) * max(pairs[pair][side] for pair in batch) <= budget


def test_a_pair_that_padding_makes_too_long_is_an_error_that_says_so():
    message = "Pair 0 has 45 target tokens, padded to 48, but a batch holds 47; raise target_tokens"
    with pytest.raises(ValueError, match=message):
        make([(3, 45)], target_tokens=47, pad_to_multiple_of=8)


def test_padding_share_counts_both_sides():
    # By hand: sources 10 and 5, targets 4 and 4: 23 real tokens, 20 + 8 padded ones.
    sampler = make([(10, 4), (5, 4)])
    assert sampler.padding_share == pytest.approx(1 - 23 / 28)


def test_a_pair_longer_than_a_batch_is_an_error_that_names_it():
    message = "Pair 1 has 1204 source tokens but a batch holds 1000; raise source_tokens or lower"
    with pytest.raises(ValueError, match=message):
        make([(3, 3), (1204, 2)], source_tokens=1000)


@pytest.mark.parametrize(
    ("more", "raised"),
    [
        ([], "a batch holds 30; raise source_tokens or"),
        (["--gradient_accumulation_steps", "3"], "a batch holds 10; raise source_tokens or"),
        # 4 batches an update; twice the source_tokens would make 8, as large as before.
        (["--device_tokens", "9"], "a batch holds 7; raise device_tokens or"),
        (["--device_tokens", "30"], "a batch holds 30; raise source_tokens or"),
    ],
)
def test_a_pair_too_long_for_a_batch_is_told_with_the_field_that_would_do(tmp_path, more, raised):
    options = ["--source_tokens", "30", "--target_tokens", "30", "--output_dir", str(tmp_path)]
    training = parse_arguments(["base", *options, "--use_cpu", "true", *more]).training
    with pytest.raises(ValueError, match=f"Pair 1 has 31 source tokens but {raised}"):
        training_batches([2, 31], [2, 2], TokenBudget.of(training))


def test_no_pairs_are_an_error():
    with pytest.raises(ValueError, match="no pairs"):
        TokenBatchSampler([], [], TokenBudget(5, 5))


def test_the_sampler_has_no_batch_size():
    # With one, accelerate would cut our batches to that size.
    assert not hasattr(make([(1, 1)]), "batch_size")


@pytest.mark.parametrize(("processes", "accumulated"), [(1, 1), (1, 4), (2, 1), (2, 3)])
def test_the_budget_is_that_of_an_update_over_processes_and_accumulated_batches(
    tmp_path, monkeypatch, processes, accumulated
):
    from datasets import Dataset

    from training.loop.trainer import VaswaniTrainer
    from training.settings.fields import VaswaniTrainingArguments
    from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration

    monkeypatch.setattr(VaswaniTrainingArguments, "world_size", processes)
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 20, size=(300, 2)).tolist()
    widths = {"d_model": 8, "d_ff": 8, "num_heads": 1, "encoder_layers": 1, "decoder_layers": 1}
    trainer = VaswaniTrainer(
        model=VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=9, **widths)),
        args=VaswaniTrainingArguments(
            output_dir=str(tmp_path),
            gradient_accumulation_steps=accumulated,
            source_tokens=240,
            target_tokens=300,
            use_cpu=True,
        ),
        train_dataset=Dataset.from_dict(
            {
                "input_ids": [[3] * source for source, _ in lengths],
                "labels": [[3] * target for _, target in lengths],
            }
        ),
        data_collator=list,
    )
    batches = list(trainer.get_train_dataloader().batch_sampler)
    assert sorted(pair for batch in batches for pair in batch) == list(range(300))
    parts = processes * accumulated
    shares = [
        len(batch) * max(max(lengths[pair][0] / 240, lengths[pair][1] / 300) for pair in batch)
        for batch in batches
    ]
    assert 0.8 / parts < max(shares) <= 1 / parts  # the fullest leaves no room for a longest pair
    assert len(batches) % processes == 0
