"""The list of products, against what PyTorch counts."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.generation import generator
from benchmarks.products import Product, flops, generation_products, training_products
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


SENTENCES, SOURCE, TARGET, PIECES = 3, 7, 5, 53
CONFIG = VaswaniConfig(
    **{"vocab_size": PIECES, "d_model": 24, "d_ff": 40, "num_heads": 4, "d_k": 6, "d_v": 10},
    **{"encoder_layers": 2, "decoder_layers": 3, "dropout": 0.0},
)


@pytest.fixture
def model():
    torch.manual_seed(0)
    # Written out, so that no product hides in a fused kernel.
    return VaswaniForConditionalGeneration._from_config(CONFIG, attn_implementation="eager")


def test_products_of_a_training_step_are_those_that_pytorch_counts(model, monkeypatch):
    # Several chunks of logits, the last one smaller.
    monkeypatch.setattr("benchmarks.products.LOGITS_AT_ONCE", 5)
    labels = torch.randint(3, PIECES, (SENTENCES, TARGET))
    labels[0, 3:] = -100  # 13 targets are real
    source = torch.randint(3, PIECES, (SENTENCES, SOURCE))
    with FlopCounterMode(display=False) as counter:
        model.train()(input_ids=source, labels=labels).loss.backward()
    products = training_products(CONFIG, SENTENCES, SOURCE, TARGET, real_targets=13)
    assert flops(products) == counter.get_total_flops()


def test_products_of_a_greedy_search_are_those_that_pytorch_counts(model):
    source = torch.randint(3, PIECES, (SENTENCES, SOURCE))
    search = generator(model.eval(), source, TARGET, num_beams=1)
    with FlopCounterMode(display=False) as counter:
        search()
    products = generation_products(CONFIG, SENTENCES, SOURCE, TARGET, num_beams=1)
    assert flops(products) == counter.get_total_flops()


def test_beams_multiply_the_steps_and_not_the_encoder():
    one, two, three = (
        flops(generation_products(CONFIG, SENTENCES, SOURCE, TARGET, num_beams))
        for num_beams in (1, 2, 3)
    )
    assert three - two == two - one
    # Of a step, by hand: 4 + 2 projections and 2 layers of a feed-forward network in each layer,
    # attention over 1 to T tokens and over S, and the logits.
    projections = 2 * 24 * 4 * (6 + 10) + 24 * 4 * (6 + 10) + 2 * 24 * 40
    attention = 4 * (6 + 10) * (TARGET * (TARGET + 1) // 2 + TARGET * SOURCE)
    of_a_beam = 3 * (TARGET * projections + attention) + TARGET * 24 * PIECES
    assert two - one == 2 * SENTENCES * of_a_beam


@pytest.mark.parametrize("form", ["x W^T", "g W", "g^T x"])
@pytest.mark.parametrize("batch", [1, 2])
def test_all_ways_to_multiply_give_the_same(form, batch):
    ways = Product(3, 4, 5, form, batch).ways()
    results = [way().reshape(-1, 3, 4).clone() for way in ways.values()]
    assert len(results[0]) == batch
    for result in results[1:]:
        torch.testing.assert_close(result, results[0])
