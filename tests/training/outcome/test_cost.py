"""Arithmetic and memory, against what PyTorch counts."""

import contextlib

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from training.outcome.cost import Shapes, activation_bytes, training_flops
from vaswani_hf import (
    VaswaniConfig,
    VaswaniForConditionalGeneration,
    layers_vaswani,
    loss_vaswani,
)


SENTENCES, SOURCE, TARGET, PIECES = 3, 7, 5, 53


def batch_and_shape():
    """Three pairs, padded; 5 + 4 + 3 target tokens are real."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(3, PIECES, (SENTENCES, SOURCE), generator=generator)
    labels = torch.randint(3, PIECES, (SENTENCES, TARGET), generator=generator)
    mask = torch.ones_like(source)
    for row in range(1, SENTENCES):
        labels[row, TARGET - row :] = -100
        mask[row, SOURCE - row :] = 0
    sizes = (SENTENCES, SOURCE, TARGET, 12)
    shapes = Shapes(*(np.array([float(size)]) for size in sizes))
    return {"input_ids": source, "attention_mask": mask, "labels": labels}, shapes


@pytest.mark.parametrize("bias", [False, True])
def test_flops_are_those_that_pytorch_counts(bias):
    config = VaswaniConfig(
        **{"vocab_size": PIECES, "d_model": 24, "d_ff": 40, "num_heads": 4, "d_k": 6, "d_v": 10},
        **{"encoder_layers": 2, "decoder_layers": 3, "attention_bias": bias},
    )
    # Written out, so that no product hides in a fused kernel.
    model = VaswaniForConditionalGeneration._from_config(config, attn_implementation="eager")
    batch, shapes = batch_and_shape()
    with FlopCounterMode(display=False) as counter:
        model.train()(**batch).loss.backward()
    assert training_flops(config, shapes).tolist() == [counter.get_total_flops()]


def kept_bytes(model, batch, dtype):
    """Bytes that autograd keeps of a forward pass, weights and their casts left out."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    shapes = {tuple(weight.shape) for weight in model.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        is_weight = tuple(tensor.shape) in shapes or tuple(tensor.shape[::-1]) in shapes
        if storage.data_ptr() not in weights and not is_weight:
            kept[storage.data_ptr()] = storage  # held, so that no other takes its place
        return tensor

    autocast = torch.autocast("cpu", dtype) if dtype else contextlib.nullcontext()
    with autocast, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(**batch)
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize("by_chunks", [False, True])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_activations_are_about_what_autograd_keeps(monkeypatch, dtype, by_chunks):
    # As on a GPU: there torch's own normalization keeps its input.
    monkeypatch.setattr(layers_vaswani, "is_invertible", lambda *_: False)
    monkeypatch.setattr(layers_vaswani, "LONGEST_IN_FLOAT32", 0)  # there bfloat16 stays as it is
    monkeypatch.setattr(loss_vaswani, "is_chunked", lambda *_: by_chunks)
    config = VaswaniConfig(
        # The masks of dropout have a test of their own.
        **{"vocab_size": PIECES, "d_model": 128, "d_ff": 200, "num_heads": 4, "dropout": 0.0},
        **{"encoder_layers": 2, "decoder_layers": 3},
    )
    model = VaswaniForConditionalGeneration._from_config(config, attn_implementation="sdpa")
    batch, shapes = batch_and_shape()
    is_half = dtype is not None
    estimate = activation_bytes(config, shapes, is_half, by_chunks).item()
    # Of all logits autograd keeps the softmax, of chunks nothing; the rest comes and goes.
    others = {(False, False): 4 + 4, (False, True): 2 + 4, (True, False): 4, (True, True): 4 + 4}
    estimate -= others[by_chunks, is_half] * PIECES * shapes.target_tokens.item()
    if by_chunks:
        estimate -= 4 * PIECES * config.d_model  # a gradient, which has a weight's shape
    # Attention masks, means and variances are not estimated.
    assert estimate == pytest.approx(kept_bytes(model.train(), batch, dtype), rel=0.05)


def test_activations_grow_by_dropouts_masks():
    # By hand: a byte for each of d_model numbers, at the entries of both stacks and once for each
    # sub-layer, of which 2 encoder layers have 4 and 3 decoder layers 9.
    _, shapes = batch_and_shape()
    sizes = {"d_model": 24, "d_ff": 40, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 3}
    with_masks, without = (
        activation_bytes(VaswaniConfig(vocab_size=PIECES, dropout=rate, **sizes), shapes, False)
        for rate in (0.1, 0.0)
    )
    expected = 24 * SENTENCES * (SOURCE * (1 + 4) + TARGET * (1 + 9))
    assert (with_masks - without).tolist() == [expected]
