import pickle

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import DataCollatorForSeq2Seq

from training.data.collating import ArrowPairs, PairCollator
from training.settings.budget import TokenBudget
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer


def tokenizer_and_model():
    tokenizer = train_tokenizer(["a b c d"] * 9, 300, are_files=False, show_progress=False)
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 1, "encoder_layers": 1, "decoder_layers": 1}
    config = VaswaniConfig(vocab_size=len(tokenizer), decoder_start_token_id=7, **sizes)
    return tokenizer, VaswaniForConditionalGeneration(config)


@pytest.mark.parametrize("rows", ["lists", "arrays", "arrow"])
def test_a_batch_is_what_the_librarys_collator_makes(rows):
    tokenizer, model = tokenizer_and_model()
    rng = np.random.default_rng(0)
    pairs = [
        {
            "input_ids": rng.integers(3, 9, source).astype(np.int32),
            "labels": rng.integers(3, 9, target).astype(np.int32),
        }
        for source, target in [(7, 5), (1, 9), (4, 1)]
    ]
    lists = [{side: ids.tolist() for side, ids in pair.items()} for pair in pairs]
    expected = DataCollatorForSeq2Seq(tokenizer, model=model)(lists)
    if rows == "arrow":  # what the trainer's loader hands over, in an order of its own
        columns = {side: [pair[side] for pair in lists] for side in lists[0]}
        stored = Dataset.from_dict(columns | {"source": list("abc")}).select([2, 0, 1])
        pairs = ArrowPairs(stored).__getitems__([1, 2, 0])
    batch = PairCollator(tokenizer, model)(lists if rows == "lists" else pairs)
    assert set(batch) == set(expected)
    for name, tensor in expected.items():
        assert torch.equal(batch[name], tensor), name
        assert batch[name].dtype == tensor.dtype


def test_a_collator_keeps_ids_and_not_the_model():
    # What a worker of the loader is sent, where processes are spawned.
    assert len(pickle.dumps(PairCollator(*tokenizer_and_model()))) < 1000


def test_batches_in_few_shapes_have_padded_lengths_and_as_many_sentences_as_they_hold():
    tokenizer, model = tokenizer_and_model()
    pairs = [{"input_ids": [5] * 10, "labels": [6] * 5}] * 3
    # By hand: multiples of 4 are 12 and 8; 60 and 50 tokens of a batch hold 5 and 6 sentences.
    budget = TokenBudget(120, 100, accumulation=2, pad_to_multiple_of=4)
    batch = PairCollator(tokenizer, model).in_few_shapes(budget)(pairs)
    assert batch["input_ids"].shape == (5, 12) and batch["labels"].shape == (5, 8)
    assert batch["attention_mask"].sum(1).tolist() == [10, 10, 10, 1, 1]
    assert (batch["labels"] >= 0).sum(1).tolist() == [5, 5, 5, 0, 0]
