# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The layers of both stacks, under the names of this model."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..differences import Differences
from ..tensors import TensorReader
from .stacks import Stack


Part = tuple[dict[str, Any], dict[str, Tensor]]  # fields of the configuration, weights


class StackReader(TensorReader):
    """Reads the two stacks; what is beside them is left to `embeddings` and `positions`.

    Args:
        tensors: the checkpoint's, by name.
        differences: where to note what is wrong.
        encoder: where the encoder is.
        decoder: where the decoder is.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        differences: Differences,
        encoder: Stack,
        decoder: Stack,
    ) -> None:
        super().__init__(tensors, differences)
        self.stacks = {"model.encoder.": encoder, "model.decoder.": decoder}
        first = f"{encoder.prefix}layers.0"
        self.d_model = self._num_rows(f"{first}.self_attn.out_proj.weight")
        self.d_ff = self._num_rows(f"{first}.linear1.weight")
        inside = tuple(
            f"{stack.prefix}{part}." for stack in (encoder, decoder) for part in ("layers", "norm")
        )
        self.names_beside = [name for name in tensors if not name.startswith(inside)]

    def _num_rows(self, name: str) -> int:
        """How many rows a matrix has; one that is missing is noted when it is taken."""
        tensor = self.tensors.get(name)
        return len(tensor) if tensor is not None and tensor.ndim else 1

    def layers(self) -> Part:
        """Both stacks: every layer and, where they have them, the final normalizations."""
        has_attention_bias = any(
            name.startswith(stack.prefix) and name.endswith("attn.in_proj_bias")
            for name in self.tensors
            for stack in self.stacks.values()
        )
        encoder, decoder = self.stacks.values()
        has_norm = [f"{stack.prefix}norm.weight" in self.tensors for stack in (encoder, decoder)]
        if any(has_norm) and not all(has_norm):
            which, other = (encoder, decoder) if has_norm[0] else (decoder, encoder)
            self.differences.add(
                f"{which.prefix}norm ends one stack and {other.prefix}norm is missing; this model "
                f"has both final normalizations or none"
            )
        weights: dict[str, Tensor] = {}
        for here, stack in self.stacks.items():
            for layer in range(stack.num_layers):
                weights |= self._layer(
                    f"{stack.prefix}layers.{layer}.",
                    f"{here}layers.{layer}.",
                    stack.is_decoder,
                    has_attention_bias,
                )
            if f"{stack.prefix}norm.weight" in self.tensors:
                has_bias = self._has_bias(f"{stack.prefix}layers.")
                has_bias |= f"{stack.prefix}norm.bias" in self.tensors
                weights |= self.take_affine(
                    f"{stack.prefix}norm", f"{here}final_norm", self.d_model, has_bias=has_bias
                )
        fields = {
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "encoder_layers": encoder.num_layers,
            "decoder_layers": decoder.num_layers,
            "attention_bias": has_attention_bias,
            "final_norm": all(has_norm),
        }
        return fields, weights

    def _layer(
        self, there: str, here: str, is_decoder: bool, has_attention_bias: bool
    ) -> dict[str, Tensor]:
        d_model, d_ff = self.d_model, self.d_ff
        has_bias = self._has_bias(there)
        weights = self._attention(f"{there}self_attn", f"{here}self_attention", has_bias)
        norms = {"norm1": "self_attention_norm", "norm2": "feed_forward_norm"}
        if is_decoder:
            weights |= self._attention(f"{there}multihead_attn", f"{here}cross_attention", has_bias)
            norms |= {"norm2": "cross_attention_norm", "norm3": "feed_forward_norm"}
        if not has_attention_bias:
            weights = {name: tensor for name, tensor in weights.items() if tensor.ndim == 2}
        for norm, name in norms.items():
            weights |= self.take_affine(
                f"{there}{norm}", f"{here}{name}", d_model, has_bias=has_bias
            )
        inner, outer = f"{here}feed_forward.inner", f"{here}feed_forward.outer"
        weights |= self.take_affine(f"{there}linear1", inner, d_ff, d_model, has_bias=has_bias)
        weights |= self.take_affine(f"{there}linear2", outer, d_model, d_ff, has_bias=has_bias)
        return weights

    def _attention(self, there: str, here: str, has_bias: bool) -> dict[str, Tensor]:
        """An attention, whose one matrix of queries, keys and values becomes three."""
        d_model = self.d_model
        apart = [f"{there}.{part}_proj_weight" for part in "qkv"]
        together = torch.zeros(3 * d_model, d_model)
        if any(name in self.tensors for name in apart):
            self.ignore(*apart)
            self.differences.add(
                f"{there} has q_proj_weight, k_proj_weight and v_proj_weight: its keys or values "
                f"are made of vectors of another width than d_model (kdim, vdim)"
            )
        else:
            together = self.take(f"{there}.in_proj_weight", 3 * d_model, d_model)
        weights = self.take_affine(
            f"{there}.out_proj", f"{here}.output_proj", d_model, d_model, has_bias=has_bias
        )
        bias = torch.zeros(3 * d_model)  # which do the same as having none
        if has_bias:
            bias = self.take(f"{there}.in_proj_bias", 3 * d_model)
        for part, rows, biases in zip(
            ("query", "key", "value"), together.chunk(3), bias.chunk(3), strict=True
        ):
            weights[f"{here}.{part}_proj.weight"] = rows
            weights[f"{here}.{part}_proj.bias"] = biases
        return weights

    def _has_bias(self, prefix: str) -> bool:
        """Whether a layer has biases: it has all of them or, built with `bias=False`, none."""
        return any(name.startswith(prefix) and name.endswith("bias") for name in self.tensors)
