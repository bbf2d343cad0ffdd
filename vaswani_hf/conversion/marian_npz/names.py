# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which parameter of Marian is which one here."""

from collections.abc import Iterator
from typing import NamedTuple

from ...configuration_vaswani import VaswaniConfig


SIDES = ("encoder", "decoder")
# Embeddings and the pre-softmax layer.
SHARED, OUTPUT, OUTPUT_BIAS = "Wemb", "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_b"
OLD_OUTPUT = "decoder_ff_logit_out_W"  # `(d_model, V)`, in early versions
ATTENTIONS = {"self_attention": "self", "cross_attention": "context"}
PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}


class Name(NamedTuple):
    """A parameter of a layer: its name here and there.

    Marian's matrices are `(inputs, outputs)`, the transpose of ours, and its vectors `(1, width)`.
    """

    ours: str
    theirs: str
    is_matrix: bool = False


def layer_names(config: VaswaniConfig) -> Iterator[Name]:
    """All parameters but embeddings, positions and the pre-softmax layer."""
    for side, num_layers in zip(SIDES, (config.encoder_layers, config.decoder_layers), strict=True):
        for layer in range(num_layers):
            here, there = f"model.{side}.layers.{layer}", f"{side}_l{layer + 1}"
            for ours, theirs in ATTENTIONS.items():
                if side == "encoder" and ours == "cross_attention":
                    continue
                for long, short in PROJECTIONS.items():
                    projection = f"{here}.{ours}.{long}_proj"
                    yield from _affine(projection, f"{there}_{theirs}", short)
                yield from _norm(f"{here}.{ours}_norm", f"{there}_{theirs}_Wo")
            yield from _affine(f"{here}.feed_forward.inner", f"{there}_ffn", "1")
            yield from _affine(f"{here}.feed_forward.outer", f"{there}_ffn", "2")
            yield from _norm(f"{here}.feed_forward_norm", f"{there}_ffn_ffn")
        if config.final_norm:
            yield from _norm(f"model.{side}.final_norm", f"{side}_top")


def _affine(ours: str, theirs: str, suffix: str) -> Iterator[Name]:
    yield Name(f"{ours}.weight", f"{theirs}_W{suffix}", is_matrix=True)
    yield Name(f"{ours}.bias", f"{theirs}_b{suffix}")


def _norm(ours: str, theirs: str) -> Iterator[Name]:
    yield Name(f"{ours}.weight", f"{theirs}_ln_scale")
    yield Name(f"{ours}.bias", f"{theirs}_ln_bias")


def embedding_names(is_shared: bool) -> tuple[str, str]:
    """Marian's names of the source's and the target's embedding."""
    return (SHARED, SHARED) if is_shared else ("encoder_Wemb", "decoder_Wemb")
