# Copyright 2026 The vaswani_hf authors.
#
# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except
# in compliance with the License. You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License
# is distributed on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express
# or implied. See the License for the specific language governing permissions and limitations.
"""One step of the decoder for a search, without what training and recording need.

The forwards of the modules choose a backend, make masks, record what is asked for and hand each
other a cache: at a token a step that takes longer than a small model's arithmetic. Where a search
wants logits and nothing else, `decoder_steps()` does the same arithmetic by torch's operators. The
results are equal up to float32's rounding.

Shapes: `B` sentences, `K` beams, or 1 in greedy search, `Q` tokens of a step in each
sentence (1 or K), `H` heads, `S` source length, `E` entries, `V` vocabulary.
"""

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    LogitsProcessorList,
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .layers_vaswani import FasterForward, has_global_hooks, is_on_plain_cpu, linear


# When a search may do so

SDPA = ALL_ATTENTION_FUNCTIONS["sdpa"]
LEFT_OUT = {nn.Linear, nn.LayerNorm, nn.Dropout, nn.Embedding, nn.ModuleList}
# Arguments of the model that are heeded here, and `labels`, which the library hands to no step.
HEEDED = {"encoder_outputs", "attention_mask", "past_key_values", "use_cache", "logits_to_keep"}
HEEDED |= {"labels"}


def may_be_left_out(*classes: type[nn.Module]) -> None:
    """Say that `DecoderSteps` does what the forwards of these classes do."""
    LEFT_OUT.update(classes)


def decoder_steps(
    model: Any, num_beams: int, is_cache_given: bool, model_kwargs: dict[str, Any]
) -> "DecoderSteps | None":
    """The steps of a search, or `None` where the model itself must be called.

    Args:
        model: the model.
        num_beams: K.
        is_cache_given: whether the caller of `generate()` gave the cache, and may look into it.
        model_kwargs: the model's arguments, with a row of memory for each sentence.
    """
    memory, mask = model_kwargs["encoder_outputs"][0], model_kwargs.get("attention_mask")
    cache = model_kwargs.get("past_key_values")
    asked = (value for name, value in model_kwargs.items() if name not in HEEDED)
    is_usual = (
        not is_cache_given
        and isinstance(cache, EncoderDecoderCache)
        and type(cache.self_attention_cache) is DynamicCache
        and cache.get_seq_length() == 0
        and not any(value is not None and value is not False for value in asked)
        # A source of padding alone has no attention to agree on.
        and (mask is None or (mask.shape == memory.shape[:2] and bool(mask.ne(0).any(1).all())))
    )
    if not (is_usual and is_plain(model, memory)):
        return None
    return DecoderSteps(model, memory, mask, num_beams)


def is_plain(model: Any, memory: Tensor) -> bool:
    """Whether the forwards that would be left out do what the paper says and nothing else.

    That is without adapters, quantized layers, hooks, training, another attention or dtype, a
    compiler, a tracer or another device.
    """
    decoder = model.model.decoder
    feed_forwards = [layer.feed_forward for layer in decoder.layers]
    called = {decoder.embedding.positions, decoder.final_norm}
    called.update(feed_forward.activation for feed_forward in feed_forwards)
    left_out = [module for module in decoder.modules() if module not in called]
    parameters = [*decoder.parameters(), *model.lm_head.parameters()]
    return (
        model.config._attn_implementation == "sdpa"
        and ALL_ATTENTION_FUNCTIONS["sdpa"] is SDPA
        and memory.dtype in (torch.float32, torch.float64)  # others round between operators
        and all(parameter.dtype == memory.dtype for parameter in parameters)
        and is_on_plain_cpu(memory, *parameters)
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.jit.is_tracing()
        and not has_global_hooks()
        and all(map(_is_untouched, [model, model.model, model.lm_head, *left_out]))
    )


def _is_untouched(module: nn.Module) -> bool:
    own = vars(module)
    return (
        type(module) in LEFT_OUT
        and not module.training
        and isinstance(own.get("forward", None), FasterForward | None)
        and not (own["_forward_hooks"] or own["_forward_pre_hooks"])
    )


# The step


@dataclass
class Normalization:
    """`LayerNorm(x + Sublayer(x))` of section 3.1."""

    shape: tuple[int, ...]
    weight: Tensor | None
    bias: Tensor | None
    eps: float

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> Self:
        """As a module has it."""
        return cls(norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def __call__(self, x: Tensor) -> Tensor:
        """Normalize `(rows, d_model)`."""
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


@dataclass
class LayerWeights:
    """What a step multiplies by in a layer; pairs are a matrix, `(out, in)`, and its bias or none.

    The queries' have the factor `1 / sqrt(d_k)` of attention. Keys and values of a head are
    neighbours: what is made of one token is kept by one copy.
    """

    own: tuple[Tensor, Tensor | None]  # queries of all heads, then keys and values of each
    own_output: tuple[Tensor, Tensor | None]
    own_norm: Normalization
    query: tuple[Tensor, Tensor | None]  # of cross-attention
    query_output: tuple[Tensor, Tensor | None]
    query_norm: Normalization
    inner: tuple[Tensor, Tensor | None]
    activation: nn.Module
    outer: tuple[Tensor, Tensor | None]
    outer_norm: Normalization

    @classmethod
    def of(cls, layer: Any) -> Self:
        """Those of a decoder layer."""
        own, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
        return cls(
            own=stacked([scaled_query(own), keys_and_values(own)]),
            own_output=pair(own.output_proj),
            own_norm=Normalization.of(layer.self_attention_norm),
            query=scaled_query(cross),
            query_output=pair(cross.output_proj),
            query_norm=Normalization.of(layer.cross_attention_norm),
            inner=pair(feed_forward.inner),
            activation=feed_forward.activation,
            outer=pair(feed_forward.outer),
            outer_norm=Normalization.of(layer.feed_forward_norm),
        )


def pair(projection: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """Its matrix and its bias."""
    return projection.weight, projection.bias


def scaled_query(attention: Any) -> tuple[Tensor, Tensor | None]:
    """The matrix and bias of the queries, times the factor of the dot products."""
    weight, bias = pair(attention.query_proj)
    return weight * attention.scaling, None if bias is None else bias * attention.scaling


def stacked(pairs: list[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor | None]:
    """One matrix and bias for several products of the same rows."""
    biases = [bias for _, bias in pairs if bias is not None]
    return torch.cat([weight for weight, _ in pairs]), torch.cat(biases) if biases else None


def keys_and_values(attention: Any) -> tuple[Tensor, Tensor | None]:
    """The matrix and bias of keys and values, head by head."""

    def by_head(key: Tensor, value: Tensor) -> Tensor:
        heads = [part.unflatten(0, (attention.config.num_heads, -1)) for part in (key, value)]
        return torch.cat(heads, dim=1).flatten(0, 1)

    key, value = attention.key_proj, attention.value_proj
    bias = None if key.bias is None else by_head(key.bias, value.bias)
    return by_head(key.weight, value.weight), bias


class DecoderSteps:
    """Token after token of all hypotheses, and the keys and values that they look at.

    The beams of a sentence share one row of entries. `slots`, `(B, K, T)`, says which entry each
    token of a beam has; an entry that no beam needs any longer is written over.

    Args:
        model: the model.
        memory: `(B, S, d_model)`.
        memory_mask: `(B, S)`, nonzero at real source tokens; `None` where all are real.
        num_beams: K.
    """

    can_drop_sentences = True

    def __init__(
        self, model: Any, memory: Tensor, memory_mask: Tensor | None, num_beams: int
    ) -> None:
        self.decoder, self.lm_head, self.num_beams = model.model.decoder, model.lm_head, num_beams
        self.num_heads = model.config.num_heads
        self.d_k, self.d_v = model.config.head_widths
        self.lowest = torch.finfo(memory.dtype).min
        self.layers = [LayerWeights.of(layer) for layer in self.decoder.layers]
        self.num_sentences = len(memory)
        self.num_tokens = self.num_entries = self.capacity = 0
        self.slots: Tensor | None = None  # none while all beams are alike
        # Of each layer, (B, H, S, d_k + d_v) and (B, H, capacity, d_k + d_v).
        self.memory = [
            self._by_head(linear(memory, *keys_and_values(layer.cross_attention))).contiguous()
            for layer in self.decoder.layers
        ]
        self.past = [kept.new_empty(*kept.shape[:2], 0, kept.shape[3]) for kept in self.memory]
        self.memory_mask = None  # added to scores, (B, 1, 1, S)
        if memory_mask is not None and not memory_mask.all():
            is_padding = memory_mask.eq(0)[:, None, None]
            self.memory_mask = memory.new_zeros(is_padding.shape)
            self.memory_mask.masked_fill_(is_padding, self.lowest)

    def _by_head(self, x: Tensor) -> Tensor:
        """Turn `(B, T, H * width)` into `(B, H, T, width)`."""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def logits(self, ids: Tensor) -> Tensor:
        """Logits of the piece after hypotheses `(B * K, length)`.

        Returns:
            `(B * K, V)`; `(B, V)` at first, while the beams of a sentence are alike.
        """
        if self.num_tokens == 0:
            ids = ids[:: self.num_beams]
        for place in range(self.num_tokens, ids.shape[1]):
            states = self._states(ids[:, place])
        return linear(states, *pair(self.lm_head))

    def _states(self, ids: Tensor) -> Tensor:
        """The states `(B * Q, d_model)` of the next token of each hypothesis, `(B * Q,)`."""
        embedding, place = self.decoder.embedding, self.num_tokens
        position = embedding.positions(torch.tensor([place]), place + 1)
        x = F.embedding(ids, self.decoder.embed_tokens.weight) * embedding.scale
        x = x + position.to(x.dtype)
        places, mask = self._make_room(len(ids) // self.num_sentences)
        widths = [self.num_heads * self.d_k, self.num_heads * (self.d_k + self.d_v)]
        for number, layer in enumerate(self.layers):
            query, new = linear(x, *layer.own).split(widths, dim=1)
            mixed = self._attend(query, self._write(number, new, places), mask)
            x = layer.own_norm(x + linear(mixed, *layer.own_output))
            mixed = self._attend(linear(x, *layer.query), self.memory[number], self.memory_mask)
            x = layer.query_norm(x + linear(mixed, *layer.query_output))
            inner = layer.activation(linear(x, *layer.inner))
            x = layer.outer_norm(x + linear(inner, *layer.outer))
        self.num_tokens += 1
        return self.decoder.final_norm(x)

    def _attend(self, query: Tensor, kept: Tensor, mask: Tensor | None) -> Tensor:
        """Let queries `(B * Q, H * d_k)` look at kept keys and values: `(B * Q, H * d_v)`.

        Args:
            query: scaled already.
            kept: `(B, H, E, d_k + d_v)`.
            mask: added to the scores, broadcast to `(B, H, Q, E)`; `None` for all.
        """
        query = self._by_head(query.unflatten(0, (self.num_sentences, -1)))
        keys, values = kept.flatten(0, 1).split([self.d_k, self.d_v], dim=-1)
        scores = torch.bmm(query.flatten(0, 1), keys.transpose(1, 2))  # (B * H, Q, E)
        if mask is not None:
            scores.unflatten(0, (-1, self.num_heads)).add_(mask)
        mixed = torch.bmm(scores.softmax(dim=-1), values).unflatten(0, (-1, self.num_heads))
        return mixed.transpose(1, 2).flatten(2).flatten(0, 1)

    def _make_room(self, num_new: int) -> tuple[slice | Tensor, Tensor | None]:
        """Choose entries for `num_new` tokens of each sentence.

        Returns:
            Where the rows of all layers keep them: a slice of the entries, or an index of rows
            `(B * H * Q,)`; and the mask of what each beam sees, `(B, 1, Q, E)`, `None` for all.
        """
        if num_new == 1:
            self.num_entries = self.num_tokens + 1
            self._grow()
            return slice(self.num_tokens, self.num_entries), None
        num_sentences, num_heads = self.num_sentences, self.num_heads
        if self.slots is None:
            self.slots = torch.arange(self.num_tokens).expand(num_sentences, num_new, -1)
        most = self.num_entries + num_new
        is_free = torch.ones(num_sentences, most, dtype=torch.bool)
        is_free.scatter_(1, self.slots.flatten(1), False)
        nth = torch.arange(1, num_new + 1).expand(num_sentences, -1).contiguous()
        new = torch.searchsorted(is_free.cumsum(dim=1), nth)  # (B, Q), the first free ones
        self.num_entries = max(self.num_entries, int(new.max()) + 1)
        self._grow()
        self.slots = torch.cat((self.slots, new.unsqueeze(-1)), dim=-1)
        mask = torch.full(
            (num_sentences, num_new, self.num_entries), self.lowest, dtype=self.past[0].dtype
        )
        mask.scatter_(2, self.slots, 0.0)
        first = torch.arange(num_sentences * num_heads).view(-1, num_heads, 1) * self.capacity
        return (first + new.unsqueeze(1)).flatten(), mask.unsqueeze(1)

    def _grow(self) -> None:
        """Let the rows have room for all entries."""
        if self.num_entries <= self.capacity:
            return
        old, self.capacity = self.capacity, max(16, 2 * self.num_entries)
        for number, kept in enumerate(self.past):
            # Zeros: what no beam sees has the weight 0, and 0 times anything must be 0.
            larger = kept.new_zeros(*kept.shape[:2], self.capacity, kept.shape[3])
            larger[:, :, :old] = kept
            self.past[number] = larger

    def _write(self, number: int, new: Tensor, places: slice | Tensor) -> Tensor:
        """Keep keys and values `(B * Q, H * (d_k + d_v))` of a layer: all that there are then."""
        kept = self.past[number]
        rows = self._by_head(new.unflatten(0, (self.num_sentences, -1)))
        if isinstance(places, slice):
            kept[:, :, places] = rows
        else:
            width = kept.shape[3]
            kept.view(-1, width).index_copy_(0, places, rows.reshape(-1, width))
        return kept[:, :, : self.num_entries]

    def reorder(self, rows: Tensor) -> None:
        """Give each beam the row that it continues, of `B * K`.

        Args:
            rows: `(B, K)`, or fewer than `B` where sentences leave the batch.
        """
        if len(rows) < self.num_sentences:
            self.keep(rows[:, 0] // self.num_beams)
        if self.slots is not None:
            beams = (rows % self.num_beams).unsqueeze(-1)
            self.slots = self.slots.gather(1, beams.expand(-1, -1, self.slots.shape[-1]))

    def keep(self, sentences: Tensor) -> None:
        """Forget all sentences but these; `(B,)`, places in the running batch."""
        self.num_sentences = len(sentences)
        self.memory = [kept.index_select(0, sentences) for kept in self.memory]
        self.past = [kept.index_select(0, sentences) for kept in self.past]
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask[sentences]
        if self.slots is not None:
            self.slots = self.slots[sentences]

    def as_librarys(self) -> EncoderDecoderCache:
        """The cache as the library returns it: `B * K` rows, of the memory too."""
        own, memory = DynamicCache(), DynamicCache()
        num_sentences, num_beams = self.num_sentences, self.num_beams
        slots = self.slots
        if slots is None:
            slots = torch.arange(self.num_tokens).expand(num_sentences, num_beams, -1)
        sentences = torch.arange(num_sentences).view(-1, 1, 1)
        for number, (past, kept) in enumerate(zip(self.past, self.memory, strict=True)):
            chosen = past[sentences, :, slots].flatten(0, 1).transpose(1, 2)  # (B * K, H, T, ...)
            own.update(*self._keys_and_values(chosen), number)
            repeated = kept.repeat_interleave(num_beams, dim=0)
            memory.update(*self._keys_and_values(repeated), number)
        return EncoderDecoderCache(own, memory)

    def _keys_and_values(self, kept: Tensor) -> list[Tensor]:
        return [part.contiguous() for part in kept.split([self.d_k, self.d_v], dim=-1)]


# What both searches do between steps

DROPPED_SHARE = 8  # 1 of so many; each time all keys and values that stay are copied
LENGTH_PROCESSORS = (MinLengthLogitsProcessor, MinNewTokensLengthLogitsProcessor)


def processed(processors: LogitsProcessorList, ids: Tensor, scores: Tensor) -> Tensor:
    """What the processors make of scores `(rows, V)`; both may be written over.

    The library's processors of a least length ask of each piece of the vocabulary whether it is an
    end; to write minus infinity at the ends is the same.
    """
    if not all(type(processor) in LENGTH_PROCESSORS for processor in processors):
        return processors(ids, scores).clone()  # a processor may keep what it returns
    for processor in processors:
        if isinstance(processor, MinLengthLogitsProcessor):
            least = processor.min_length
        else:
            least = processor.prompt_length_to_skip + processor.min_new_tokens
        if ids.shape[1] < least:
            scores[:, processor.eos_token_id] = -math.inf
    return scores


def is_worth_dropping(is_done: Tensor) -> bool:
    """Whether so many sentences `(B,)` are done that the others should move together."""
    return DROPPED_SHARE * int(is_done.sum()) >= len(is_done)


__all__ = ["DecoderSteps", "decoder_steps", "is_worth_dropping", "may_be_left_out", "processed"]
