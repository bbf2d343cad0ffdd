# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The tensors of a state dict, under the names of this model."""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..differences import Differences, listed
from ..positions import has_paper_positions
from ..tensors import TensorReader
from .naming import EMBEDDING_WORDS, POSITION_WORDS, SOURCE_WORDS, TARGET_WORDS, _of_side, _words
from .stacks import _Stack


# Carrying the weights


Part = tuple[dict[str, Any], dict[str, Tensor]]  # fields of the configuration, weights


class _Reader(TensorReader):
    """What the parts of the checkpoint become here, each as a `Part`."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        differences: Differences,
        encoder: _Stack,
        decoder: _Stack,
    ) -> None:
        super().__init__(tensors, differences)
        self.stacks = {"model.encoder.": encoder, "model.decoder.": decoder}
        first = f"{encoder.prefix}layers.0"
        self.d_model = self._size(f"{first}.self_attn.out_proj.weight")
        self.d_ff = self._size(f"{first}.linear1.weight")
        inside = tuple(
            f"{stack.prefix}{part}." for stack in (encoder, decoder) for part in ("layers", "norm")
        )
        self.around = [name for name in tensors if not name.startswith(inside)]

    def _size(self, name: str) -> int:
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
                weights |= self._affine(
                    f"{stack.prefix}norm", f"{here}final_norm", has_bias, self.d_model
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
            weights |= self._affine(f"{there}{norm}", f"{here}{name}", has_bias, d_model)
        inner, outer = f"{here}feed_forward.inner", f"{here}feed_forward.outer"
        weights |= self._affine(f"{there}linear1", inner, has_bias, d_ff, d_model)
        weights |= self._affine(f"{there}linear2", outer, has_bias, d_model, d_ff)
        return weights

    def _attention(self, there: str, here: str, has_bias: bool) -> dict[str, Tensor]:
        """One matrix of queries, keys and values becomes three."""
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
        weights = self._affine(
            f"{there}.out_proj", f"{here}.output_proj", has_bias, d_model, d_model
        )
        bias = self._bias(f"{there}.in_proj_bias", has_bias, 3 * d_model)
        for part, rows, biases in zip(
            ("query", "key", "value"), together.chunk(3), bias.chunk(3), strict=True
        ):
            weights[f"{here}.{part}_proj.weight"] = rows
            weights[f"{here}.{part}_proj.bias"] = biases
        return weights

    def _affine(self, there: str, here: str, has_bias: bool, *shape: int) -> dict[str, Tensor]:
        """The weight of a linear layer or of a layer normalization, and its bias."""
        return {
            f"{here}.weight": self.take(f"{there}.weight", *shape),
            f"{here}.bias": self._bias(f"{there}.bias", has_bias, shape[0]),
        }

    def _bias(self, name: str, has_bias: bool, size: int) -> Tensor:
        """A bias; zeros do the same as having none."""
        return self.take(name, size) if has_bias else torch.zeros(size)

    def _has_bias(self, prefix: str) -> bool:
        """Whether a layer has biases: it has all of them or, built with `bias=False`, none."""
        return any(name.startswith(prefix) and name.endswith("bias") for name in self.tensors)

    def embeddings(self, source: str | None, target: str | None, output: str | None) -> Part:
        """The embeddings and the pre-softmax layer, tied where they are equal."""
        matrices = [
            name
            for name in self.around
            if self._is_table(name)
            and self.tensors[name].ndim == 2
            and not POSITION_WORDS & _words(name)
            and name not in self.taken
        ]
        if not (matrices or source or target or output):
            self.differences.add(
                f"it has the stacks alone: there is no matrix (V, {self.d_model}) to embed the "
                f"source, to embed the target or to make the logits; convert the whole model's "
                f"state dict, where source_embedding, target_embedding and output name the three "
                f"if their names are not recognized"
            )
            return {}, {}
        embeddings = [name for name in matrices if EMBEDDING_WORDS & _words(name)]
        sources = _of_side(embeddings, SOURCE_WORDS, TARGET_WORDS)
        targets = _of_side(embeddings, TARGET_WORDS, SOURCE_WORDS)
        source = self._choose("source_embedding", source, sources, matrices)
        target = self._choose("target_embedding", target, targets, matrices)
        rest = [name for name in matrices if name not in (*embeddings, source, target)]
        output = self._choose("output", output, rest, matrices)
        if source is None or target is None or output is None:
            return {}, {}
        vocab_size, target_vocab_size = len(self.tensors[source]), len(self.tensors[target])
        read = self.take(source, vocab_size, self.d_model)
        write = self.take(target, target_vocab_size, self.d_model)
        logits = self.take(output, target_vocab_size, self.d_model)
        fields = {
            "vocab_size": vocab_size,
            "target_vocab_size": target_vocab_size,
            "share_embeddings": torch.equal(read, write),
            "tie_word_embeddings": torch.equal(write, logits),
        }
        weights = {
            "model.encoder.embed_tokens.weight": read,
            "model.decoder.embed_tokens.weight": write,
            "lm_head.weight": logits,
        }
        bias = re.sub("weight$", "bias", output)
        fields["output_bias"] = bias != output and bias in self.tensors
        if fields["output_bias"]:
            weights["lm_head.bias"] = self.take(bias, target_vocab_size)
        return fields, weights

    def positions(self, source: str | None, target: str | None) -> Part:
        """The position tables: the paper's are computed here, others are carried as learned."""
        tables = [
            name
            for name in self.around
            if self._is_table(name) and POSITION_WORDS & _words(name) and name not in self.taken
        ]
        options = (
            ("positions", source, SOURCE_WORDS, TARGET_WORDS),
            ("target_positions", source if target is None else target, TARGET_WORDS, SOURCE_WORDS),
        )
        chosen: list[Tensor] = []
        for option, given, own, other in options:
            candidates = _of_side(tables, own, other)
            if given is not None or candidates:
                name = self._choose(option, given, candidates, tables)
                chosen += [] if name is None else [self._table(name)]
        if all(self._is_the_papers(table) for table in chosen):
            self.differences.refuse_if(
                self.d_model % 2 > 0,
                f"it has no positions, and sinusoids need an even width, not {self.d_model}",
            )
            longest = {"max_position_embeddings": max(map(len, chosen))} if chosen else {}
            return {"position_encoding": "sinusoidal", **longest}, {}
        lengths = [len(table) for table in chosen]
        self.differences.refuse_if(
            len(chosen) == 1,
            "one side has learned positions and no table is recognized for the other; name them "
            "with positions and target_positions",
        )
        self.differences.refuse_if(
            len(set(lengths)) > 1,
            f"the sides have {listed(lengths)} positions; this model has as many on both",
        )
        weights = {
            f"model.{side}.embedding.positions.weight": table
            for side, table in zip(("encoder", "decoder"), chosen, strict=False)
        }
        return {"position_encoding": "learned", "max_position_embeddings": lengths[0]}, weights

    def _is_table(self, name: str) -> bool:
        """Whether a tensor holds vectors of the model's width, one after another."""
        tensor = self.tensors[name]
        return (
            tensor.is_floating_point()
            and tensor.ndim > 1
            and tensor.shape[-1] == self.d_model
            and tensor.numel() == max(tensor.shape[:-1]) * self.d_model
        )

    def _table(self, name: str) -> Tensor:
        return self.take(name, *self.tensors[name].shape).reshape(-1, self.d_model)

    def _is_the_papers(self, table: Tensor) -> bool:
        return self.d_model % 2 == 0 and has_paper_positions(table)

    def _choose(
        self, option: str, given: str | None, candidates: list[str], all_of_kind: list[str]
    ) -> str | None:
        """The name that was given or is recognized; `None`, and a note, where there is not one."""
        if given is not None and given in self.around and self._is_table(given):
            return given
        if given is None and len(candidates) == 1:
            return candidates[0]
        named = candidates if given is None and candidates else all_of_kind
        shown = [f"{name} {tuple(self.tensors[name].shape)}" for name in sorted(named)]
        choice = f"name one of {listed(shown)}" if shown else "there is none of that width"
        if given is not None:
            self.differences.add(
                f"{option}={given!r} is no floating point matrix of width {self.d_model} beside "
                f"the stacks; {choice}"
            )
        else:
            many = "more than one could be it" if candidates else "no name is recognized"
            self.differences.add(f"{option}: {many}; {choice}")
        return None
