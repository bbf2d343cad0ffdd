import random
from collections import Counter

import pytest

from training.data.buffers import FIRST_BUFFER_PAIRS, BufferReader
from training.data.cleaning import CleaningRules
from training.data.corpora import plan_corpora
from training.settings.budget import TokenBudget
from training.settings.fields import DataArguments
from vaswani_hf import train_tokenizer


NUM_PAIRS = 101


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Pairs of 1 to 8 words; the target is the source backwards."""
    path = tmp_path_factory.mktemp("text") / "a.tsv"
    chooser = random.Random(0)
    sources = [" ".join(["ab"] * chooser.randint(1, 8)) + f" {n}" for n in range(NUM_PAIRS)]
    path.write_text("".join(f"{source}\t{source[::-1]}\n" for source in sources))
    return path


@pytest.fixture(scope="module")
def tokenizer(path):
    return train_tokenizer([path], 300, show_progress=False)


def reader_of(path, tokenizer, rank=0, buffer_pairs=40, max_length=60, **options):
    budget = TokenBudget(**{"source_tokens": 240, "target_tokens": 160, **options})
    plans = plan_corpora(DataArguments(train_file=[str(path)], streaming=True))
    return BufferReader(plans, tokenizer, CleaningRules(max_length), buffer_pairs, budget, rank)


def shapes(batches):
    return [
        (len(batch), *(max(map(len, side)) for side in zip(*batch, strict=True)))
        for batch in batches
    ]


def test_no_batch_passes_its_budget_of_padded_tokens(path, tokenizer):
    buffer = reader_of(path, tokenizer, accumulation=2).fill()
    assert sum(map(len, buffer.batches)) == 40
    for size, source, target in shapes(buffer.batches):
        assert size * source <= 120 and size * target <= 80


def test_max_padding_cuts_batches_smaller(path, tokenizer):
    shares = []
    for max_padding in (1.0, 0.05):
        options = {"source_tokens": 150, "target_tokens": 150, "max_padding": max_padding}
        batches = reader_of(path, tokenizer, buffer_pairs=200, **options).fill().batches
        real = sum(len(ids) for batch in batches for pair in batch for ids in pair)
        shares.append(1 - real / sum(size * (one + other) for size, one, other in shapes(batches)))
    assert shares[1] < shares[0]


def test_a_reader_goes_on_where_its_state_was_taken(path, tokenizer):
    reader, other = (reader_of(path, tokenizer) for _ in range(2))
    reader.fill()
    other.load_state(reader.state())
    first, second = reader.fill(), other.fill()
    plain = [
        [[[ids.tolist() for ids in pair] for pair in batch] for batch in buffer.batches]
        for buffer in (first, second)
    ]
    assert plain[0] == plain[1]
    assert first.counts == second.counts == {"train": Counter(pairs_read=80, pairs_kept=80)}


def test_a_single_corpus_ends_a_buffer_with_its_pass(path, tokenizer):
    reader = reader_of(path, tokenizer, buffer_pairs=70)
    assert [sum(map(len, reader.fill().batches)) for _ in range(3)] == [70, 31, 70]


def test_the_first_buffer_is_small_so_that_training_begins_soon(tokenizer, tmp_path):
    path = tmp_path / "long.tsv"
    path.write_text("ab\tba\n" * (2 * FIRST_BUFFER_PAIRS + 1))
    reader = reader_of(path, tokenizer, buffer_pairs=FIRST_BUFFER_PAIRS + 1)
    sizes = [sum(map(len, reader.fill().batches)) for _ in range(2)]
    assert sizes == [FIRST_BUFFER_PAIRS, FIRST_BUFFER_PAIRS + 1]


def test_text_without_a_usable_pair_does_not_run_for_ever(path, tokenizer):
    with pytest.raises(ValueError, match="no usable pair among the 101 that a process reads"):
        reader_of(path, tokenizer, max_length=2).fill()


def test_fewer_pairs_than_processes_are_an_error(tokenizer, tmp_path):
    (tmp_path / "a.tsv").write_text("one\teins\n")
    reader = reader_of(tmp_path / "a.tsv", tokenizer, rank=1, processes=2)
    with pytest.raises(ValueError, match="fewer pairs than there are processes"):
        reader.fill()
