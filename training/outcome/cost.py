# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What training costs: the arithmetic and the memory of a batch, by its shape."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from vaswani_hf import VaswaniConfig
from vaswani_hf.loss_vaswani import TOKENS_AT_ONCE_ON_GPU

from ..data.batching import TokenBatchSampler


FLOAT_BYTES, HALF_BYTES = 4, 2  # of a number in float32, and under bf16 or fp16


@dataclass(frozen=True)
class Shapes:
    """Sizes of batches as they are padded, each an array `(batches,)`.

    Attributes:
        sentences: B of each batch.
        source: S.
        target: T.
        target_tokens: those with logits in training, by default the real ones alone.
    """

    sentences: np.ndarray
    source: np.ndarray
    target: np.ndarray
    target_tokens: np.ndarray

    @classmethod
    def of(cls, sampler: TokenBatchSampler, target_lengths: np.ndarray) -> "Shapes":
        """The shapes of all batches; `target_lengths` are the target tokens of each pair."""
        sentences, source, target = np.array(sampler.shapes, dtype=float).T
        target_tokens = [target_lengths[batch].sum() for batch in sampler.batches]
        return cls(sentences, source, target, np.array(target_tokens, dtype=float))

    def twice(self) -> "Shapes":
        """The shapes of batches that hold each pair twice, as R-Drop's, with logits of all."""
        sentences = 2 * self.sentences
        return Shapes(sentences, self.source, self.target, sentences * self.target)


def training_flops(config: VaswaniConfig, shapes: Shapes) -> np.ndarray:
    """Floating-point operations of forward and backward pass, of each batch: `(batches,)`.

    Matrix products alone, a multiplication and an addition an operation each, padding included,
    and the masked half of the decoder's self-attention too. With width = h (d_k + d_v), forward:

    - projections of an attention, 2 d_model width for each position that asks (query, output) and
      as many for each that is looked at (key, value);
    - its two products, 2 width for each pair of positions;
    - a feed-forward network, 4 d_model d_ff for each position;
    - the pre-softmax layer, 2 d_model V for each real target token.

    The backward pass takes each product twice, once for either factor's gradient: 3 in all.
    Recomputation, by gradient checkpointing or within fused attention, is not counted.
    """
    width = config.num_heads * sum(config.head_widths)
    source, target = shapes.sentences * shapes.source, shapes.sentences * shapes.target

    def attention(asking: np.ndarray, looked_at: np.ndarray, num_looked_at: np.ndarray) -> Any:
        projections = 2 * config.d_model * width * (asking + looked_at)
        return projections + 2 * width * asking * num_looked_at

    feed_forward = 4 * config.d_model * config.d_ff
    encoder_layer = attention(source, source, shapes.source) + feed_forward * source
    decoder_layer = attention(target, target, shapes.target) + feed_forward * target
    decoder_layer = decoder_layer + attention(target, source, shapes.source)
    logits = 2 * config.d_model * config.num_target_pieces * shapes.target_tokens
    forward = config.encoder_layers * encoder_layer + config.decoder_layers * decoder_layer + logits
    return 3 * forward


def optimizer_bytes(num_parameters: int, optim: str) -> int:
    """Bytes of the optimizer's state: two moments of Adam in float32; none where SGD has none."""
    return 0 if optim == "sgd" else 2 * FLOAT_BYTES * num_parameters


def activation_bytes(
    config: VaswaniConfig, shapes: Shapes, is_half: bool, by_chunks: bool = True
) -> np.ndarray:
    """Bytes that each batch holds when its backward pass begins, an estimate: `(batches,)`.

    Counted is what autograd keeps of each operation on a GPU (a CPU keeps less: see
    `layers_vaswani`), without gradient checkpointing, where attention is fused and keeps no weights
    (as `sdpa` is), and dropout a byte for each number:

    - the sum that enters a stack, d_model, and dropout's mask;
    - a sub-layer: the sum before its normalization and the normalized result, 2 d_model, and
      dropout's mask;
    - an attention: queries and mixed values, h (d_k + d_v), for each position that asks; keys and
      values, as many, for each that is looked at;
    - a feed-forward network: d_ff;
    - the loss by chunks: gradients of all target positions, d_model, and of the matrix,
      V d_model; and V numbers each for the logits of a chunk and what is made of them;
    - the loss of all logits at once: a copy of the real target positions, d_model, and V numbers
      each for their logits, the softmax and its gradient.

    Args:
        config: of the model.
        shapes: of the batches.
        is_half: under bf16 or fp16 what matrix products keep has 2 bytes, and in place of a float32
            input each keeps its cast; sums, softmax and gradient of the loss stay in float32.
        by_chunks: whether the loss goes by chunks (`loss_vaswani`).
    """
    width = config.num_heads * sum(config.head_widths)
    source, target = shapes.sentences * shapes.source, shapes.sentences * shapes.target
    kept = HALF_BYTES if is_half else FLOAT_BYTES
    stream = FLOAT_BYTES * config.d_model
    mask = config.d_model if config.dropout else 0
    cast = HALF_BYTES * config.d_model if is_half else 0
    result = 0 if is_half else stream
    sublayer = stream + result + mask
    heads = kept * width
    feed_forward = kept * config.d_ff + cast
    # Cast for query, key and value apart: autocast remembers the casts of weights alone.
    encoder_layer = (2 * sublayer + 2 * heads + 3 * cast + feed_forward) * source
    decoder_layer = (3 * sublayer + 3 * heads + 4 * cast + feed_forward) * target
    decoder_layer = decoder_layer + (heads + 2 * cast) * source
    if by_chunks:
        at_once = np.minimum(shapes.target_tokens, TOKENS_AT_ONCE_ON_GPU)
        room = FLOAT_BYTES + (2 * HALF_BYTES if is_half else 0)
        loss = stream * (target + config.num_target_pieces)
        loss = loss + room * config.num_target_pieces * at_once
    else:
        logits = (kept + 2 * FLOAT_BYTES) * config.num_target_pieces
        loss = (result + cast + logits) * shapes.target_tokens
    return (
        (result + mask) * (source + target)
        + config.encoder_layers * encoder_layer
        + config.decoder_layers * decoder_layer
        + loss
    )
