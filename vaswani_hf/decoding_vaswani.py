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

Shapes: `B` sentences, `K` beams, or 1 in greedy search, `Q` tokens of a step in each sentence (1 or
K), `H` heads, `S` source length, `T` tokens so far, `E` entries, `V` vocabulary.
"""

import math
from collections.abc import Iterator
from typing import Any

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

from .layers_vaswani import (
    FasterForward,
    has_global_hooks,
    is_for_onednn,
    is_on_plain_cpu,
    linear,
    onednn_linear,
)


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


LEAST_FOR_BMM = 400  # multiplications of a head, below which torch has no fast product


class Product:
    """`x W^T + b`, and what of it is the same at each step: where it is multiplied.

    Args:
        weight: `(out, in)`.
        bias: `(out,)`, or none.
        activation: of the result, or none; ReLU is part of oneDNN's product.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, activation: nn.Module | None = None
    ) -> None:
        self.weight, self.bias, self.activation = weight, bias, activation
        self.is_relu = type(activation) is nn.ReLU
        self.num_rows, self.is_for_onednn = 0, False

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply `(rows, in)`."""
        if len(x) != self.num_rows:
            self.num_rows, self.is_for_onednn = len(x), is_for_onednn(x, self.weight)
        if self.is_for_onednn:
            fused = "relu" if self.is_relu else "none"
            y = onednn_linear(x, self.weight, self.bias, fused, [], "")
            return y if self.is_relu or self.activation is None else self.activation(y)
        y = F.linear(x, self.weight, self.bias)
        if self.is_relu:
            return torch.relu_(y)
        return y if self.activation is None else self.activation(y)


class Norm:
    """`LayerNorm(x + Sublayer(x))` of section 3.1, given the sum."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        self.arguments = norm.normalized_shape, norm.weight, norm.bias, norm.eps

    def __call__(self, x: Tensor) -> Tensor:
        """Normalize `(rows, d_model)`."""
        return torch.layer_norm(x, *self.arguments)


class LayerSteps:
    """What a step multiplies by in a decoder layer, and the memory's keys and values.

    The queries have the factor `1 / sqrt(d_k)` of attention.

    Args:
        layer: the decoder layer.
        memory: `(B, S, d_model)`.
    """

    def __init__(self, layer: Any, memory: Tensor) -> None:
        own, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
        self.own = Product(*stacked(scaled_query(own), pair(own.key_proj), pair(own.value_proj)))
        self.own_output = Product(*pair(own.output_proj))
        self.own_norm = Norm(layer.self_attention_norm)
        self.query = Product(*scaled_query(cross))
        self.output = Product(*pair(cross.output_proj))
        self.norm = Norm(layer.cross_attention_norm)
        self.inner = Product(*pair(feed_forward.inner), feed_forward.activation)
        self.outer = Product(*pair(feed_forward.outer))
        self.outer_norm = Norm(layer.feed_forward_norm)
        # Keys, then values: (B * H, S, d_k) and (B * H, S, d_v).
        self.memory = [
            linear(memory, *pair(projection))
            .unflatten(-1, (own.config.num_heads, -1))
            .transpose(1, 2)
            .flatten(0, 1)
            for projection in (cross.key_proj, cross.value_proj)
        ]
        self.past = [states[:, :0] for states in self.memory]  # (B * H, capacity, ...)


Pair = tuple[Tensor, Tensor | None]  # a matrix, `(out, in)`, and its bias or none


def pair(projection: nn.Linear) -> Pair:
    """Its matrix and its bias."""
    return projection.weight, projection.bias


def scaled_query(attention: Any) -> Pair:
    """The matrix and bias of the queries, times the factor of the dot products."""
    weight, bias = pair(attention.query_proj)
    return weight * attention.scaling, None if bias is None else bias * attention.scaling


def stacked(*pairs: Pair) -> Pair:
    """One matrix and bias for several products of the same rows."""
    weights = torch.cat([weight for weight, _ in pairs])
    if all(bias is None for _, bias in pairs):
        return weights, None
    return weights, torch.cat(
        [weight.new_zeros(len(weight)) if bias is None else bias for weight, bias in pairs]
    )


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
        self.decoder, self.num_beams = model.model.decoder, num_beams
        self.num_heads = model.config.num_heads
        self.d_k, self.d_v = model.config.head_widths
        self.lowest = torch.finfo(memory.dtype).min
        self.layers = [LayerSteps(layer, memory) for layer in self.decoder.layers]
        self.lm_head = Product(model.lm_head.weight, model.lm_head.bias)
        self.num_sentences = len(memory)
        self.num_tokens = self.num_entries = self.capacity = 0
        self.slots: Tensor | None = None  # none while all beams are alike
        self.memory_mask = None  # added to scores, (B, 1, 1, S)
        if memory_mask is not None and not memory_mask.all():
            is_padding = memory_mask.eq(0)[:, None, None]
            self.memory_mask = memory.new_zeros(is_padding.shape)
            self.memory_mask.masked_fill_(is_padding, self.lowest)

    def logits(self, ids: Tensor) -> Tensor:
        """Logits of the piece after hypotheses `(B * K, length)`.

        Returns:
            `(B * K, V)`; `(B, V)` at first, while the beams of a sentence are alike.
        """
        if self.num_tokens == 0:
            ids = ids[:: self.num_beams]
        for place in range(self.num_tokens, ids.shape[1]):
            states = self._states(ids[:, place])
        return self.lm_head(states)

    def _states(self, ids: Tensor) -> Tensor:
        """The states `(B * Q, d_model)` of the next token of each hypothesis, `(B * Q,)`."""
        embedding, place = self.decoder.embedding, self.num_tokens
        position = embedding.positions(torch.tensor([place]), place + 1)
        x = F.embedding(ids, self.decoder.embed_tokens.weight) * embedding.scale
        x = x + position.to(x.dtype)
        places, mask = self._make_room(len(ids) // self.num_sentences)
        widths = [self.num_heads * width for width in (self.d_k, self.d_k, self.d_v)]
        for layer in self.layers:
            query, *new = layer.own(x).split_with_sizes(widths, dim=1)
            mixed = self._attend(query, mask, *self._write(layer.past, new, places))
            x = layer.own_norm(x + layer.own_output(mixed))
            mixed = self._attend(layer.query(x), self.memory_mask, *layer.memory)
            x = layer.norm(x + layer.output(mixed))
            x = layer.outer_norm(x + layer.outer(layer.inner(x)))
        self.num_tokens += 1
        return self.decoder.final_norm(x)

    def _attend(self, query: Tensor, mask: Tensor | None, key: Tensor, value: Tensor) -> Tensor:
        """Let queries `(B * Q, H * d_k)` look at keys and values: `(B * Q, H * d_v)`.

        Args:
            query: scaled already.
            mask: added to the scores, broadcast to `(B, H, Q, E)`; `None` for all.
            key: `(B * H, E, d_k)`.
            value: `(B * H, E, d_v)`.
        """
        num_sentences, num_heads, d_k = self.num_sentences, self.num_heads, self.d_k
        num_new = len(query) // num_sentences
        if num_new == 1:
            query = query.reshape(-1, 1, d_k)
        else:
            query = query.view(num_sentences, num_new, num_heads, d_k).transpose(1, 2)
            query = query.reshape(-1, num_new, d_k)
        if num_new * key.shape[1] * self.d_v < LEAST_FOR_BMM:
            query, key, value = (
                states.unflatten(0, (num_sentences, num_heads)) for states in (query, key, value)
            )
            mixed = F.scaled_dot_product_attention(query, key, value, mask, scale=1.0)
            mixed = mixed.flatten(0, 1)
        else:
            scores = torch.bmm(query, key.transpose(1, 2))  # (B * H, Q, E)
            if mask is not None:
                scores.view(num_sentences, num_heads, num_new, -1).add_(mask)
            mixed = torch.bmm(scores.softmax(dim=-1), value)
        if num_new > 1:
            mixed = mixed.view(num_sentences, num_heads, num_new, -1).transpose(1, 2)
        return mixed.reshape(num_sentences * num_new, -1)

    def _make_room(self, num_new: int) -> tuple[int | Tensor, Tensor | None]:
        """Choose entries for `num_new` tokens of each sentence.

        Returns:
            Where each layer keeps them: one entry of all rows, or places `(B * H * Q,)` among all
            entries; and the mask of what each beam sees, `(B, 1, Q, E)`, `None` for all.
        """
        if num_new == 1:
            self.num_entries = self.num_tokens + 1
            self._grow()
            return self.num_tokens, None
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
            (num_sentences, num_new, self.num_entries),
            self.lowest,
            dtype=self.layers[0].past[0].dtype,
        )
        mask.scatter_(2, self.slots, 0.0)
        first = torch.arange(num_sentences * num_heads).view(-1, num_heads, 1) * self.capacity
        return (first + new.unsqueeze(1)).flatten(), mask.unsqueeze(1)

    def _grow(self) -> None:
        """Let the rows have room for all entries."""
        if self.num_entries <= self.capacity:
            return
        old, self.capacity = self.capacity, max(16, 2 * self.num_entries)
        for layer in self.layers:
            for number, states in enumerate(layer.past):
                # Zeros: what no beam sees has the weight 0, and 0 times anything must be 0.
                larger = states.new_zeros(len(states), self.capacity, states.shape[2])
                larger[:, :old] = states
                layer.past[number] = larger

    def _write(
        self, past: list[Tensor], new: list[Tensor], places: int | Tensor
    ) -> Iterator[Tensor]:
        """Keep a layer's keys and values `(B * Q, H * width)`: all that there are then."""
        for kept, states in zip(past, new, strict=True):
            width = kept.shape[2]
            if isinstance(places, int):
                by_head = states.view(self.num_sentences, self.num_heads, width)
                kept.view(*by_head.shape[:2], -1, width)[:, :, places] = by_head
            else:
                states = states.view(self.num_sentences, -1, self.num_heads, width)
                states = states.transpose(1, 2).reshape(-1, width)
                kept.view(-1, width).index_copy_(0, places, states)
            yield kept[:, : self.num_entries]

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
        first = sentences.unsqueeze(1) * self.num_heads
        rows = (first + torch.arange(self.num_heads)).flatten()
        for layer in self.layers:
            layer.memory = [states.index_select(0, rows) for states in layer.memory]
            layer.past = [states.index_select(0, rows) for states in layer.past]
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
        for number, layer in enumerate(self.layers):
            past, kept = (
                [rows.unflatten(0, (num_sentences, -1)) for rows in states]
                for states in (layer.past, layer.memory)
            )
            chosen = (rows[sentences, :, slots].flatten(0, 1).transpose(1, 2) for rows in past)
            own.update(*(rows.contiguous() for rows in chosen), number)
            memory.update(*(rows.repeat_interleave(num_beams, dim=0) for rows in kept), number)
        return EncoderDecoderCache(own, memory)


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
            ends = processor.eos_token_id  # any number, of a piece or of none
            is_piece = (ends >= 0) & (ends < scores.shape[1])
            scores[:, ends[is_piece]] = -math.inf
    return scores


def is_worth_dropping(is_done: Tensor) -> bool:
    """Whether so many sentences `(B,)` are done that the others should move together."""
    return DROPPED_SHARE * int(is_done.sum()) >= len(is_done)


__all__ = ["DecoderSteps", "decoder_steps", "is_worth_dropping", "may_be_left_out", "processed"]
