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
"""The beams' cache: the keys and values that the model keeps while a beam search goes on.

Shapes: `B` sentences, `K` beams, `H` heads, `T` tokens.
"""

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import Cache, DynamicLayer


class BeamCache:
    """A row of the library's cache for each beam; or no cache, and each step computes all anew.

    Args:
        cache: the library's cache, or `None`.
        num_beams: K.
        mask: `(B * K, T)`, nonzero at real target tokens; `None` where all are real.
        is_given: whether the caller of `generate()` gave the cache, and may look into it later.
        num_cached: tokens of each beam that the cache holds already.
    """

    def __init__(
        self,
        cache: Any,
        num_beams: int,
        mask: Tensor | None = None,
        is_given: bool = False,
        num_cached: int = 0,
    ) -> None:
        self.cache, self.num_beams, self.mask, self.num_cached = cache, num_beams, mask, num_cached
        # A compiled graph counts on its rows, and so does who gave the cache or the mask.
        is_dynamic = isinstance(getattr(cache, "self_attention_cache", None), DynamicCache)
        self.can_drop_sentences = is_dynamic and mask is None and not is_given

    def model_inputs(self, ids: Tensor) -> dict[str, Any]:
        """The tokens of beams `(B * K, T)` that are not cached, and the cache.

        As arguments of `prepare_inputs_for_generation()`.
        """
        new = ids[:, self.num_cached :].contiguous()
        if self.cache is not None:
            self.num_cached = ids.shape[1]
        return {
            "input_ids": new,
            "past_key_values": self.cache,
            "decoder_attention_mask": self.mask,
        }

    def reorder(self, rows: Tensor) -> None:
        """Give each beam the row that it continues, of `B * K`.

        Args:
            rows: `(B, K)`, or fewer than `B` where sentences leave the batch.
        """
        if self.cache is not None:
            reorder_rows(self.cache.self_attention_cache, rows.flatten())
            memory = self.cache.cross_attention_cache
            if self.can_drop_sentences and len(rows) < len(memory.layers[0].keys):
                memory.reorder_cache(rows[:, 0] // self.num_beams)
        if self.mask is not None:
            self.mask = torch.cat((self.mask, self.mask.new_ones(len(self.mask), 1)), dim=1)

    def as_librarys(self) -> Any:
        """The cache as the library returns it: `B * K` rows, of the memory too."""
        return with_memory_rows(self.cache)


class SharedPrefixCache(BeamCache):
    """Keys and values that the beams of a sentence share are kept once.

    The hypotheses of a sentence are a tree of tokens, and its cache one row of all entries of that
    tree. `visible`, `(B, K, entries)`, says which entries each beam continues. When beams change
    places it changes, and no keys or values move.

    Args:
        memory: the cache of the memory's keys and values, still empty.
        num_beams: K.
    """

    def __init__(self, memory: Cache, num_beams: int) -> None:
        own = Cache(layer_class_to_replicate=SharedPrefixLayer)
        super().__init__(EncoderDecoderCache(own, memory), num_beams)
        self.can_drop_sentences = True
        self.visible = torch.empty(0)

    def model_inputs(self, ids: Tensor) -> dict[str, Any]:
        """As above; at first the beams are alike, and one row of each sentence is computed."""
        if self.num_cached == 0:
            start = ids[:: self.num_beams]  # (B, T)
            self.visible = torch.ones_like(start, dtype=torch.bool).unsqueeze(1)
            self.visible = self.visible.expand(-1, self.num_beams, -1)
            return super().model_inputs(start)
        own = torch.eye(self.num_beams, dtype=torch.bool, device=ids.device)
        self.visible = torch.cat((self.visible, own.expand(len(self.visible), -1, -1)), dim=-1)
        dtype = self.cache.self_attention_cache.layers[0].dtype
        mask = torch.zeros(self.visible.shape, dtype=dtype, device=ids.device)
        mask.masked_fill_(~self.visible, torch.finfo(dtype).min)
        return super().model_inputs(ids) | {"decoder_attention_mask": mask.unsqueeze(1)}

    def reorder(self, rows: Tensor) -> None:
        """As above."""
        sentences = rows[:, 0] // self.num_beams
        if len(sentences) < len(self.visible):
            self.visible = self.visible[sentences]
            self.cache.reorder_cache(sentences)
        self.visible = gather_hypotheses(self.visible, rows % self.num_beams)

    def as_librarys(self) -> Any:
        """As above."""
        num_tokens = self.cache.get_seq_length()
        entries = self.visible.nonzero()[:, 2].view(len(self.visible), self.num_beams, num_tokens)
        sentences = torch.arange(len(entries), device=entries.device).view(-1, 1, 1)
        own = DynamicCache()
        for index, layer in enumerate(self.cache.self_attention_cache.layers):
            keys, values = (  # (B * K, H, T, d_k), (B * K, H, T, d_v)
                states[sentences, :, entries].flatten(0, 1).transpose(1, 2)
                for states in (layer.keys, layer.values)
            )
            own.update(keys.contiguous(), values.contiguous(), index)
        return with_memory_rows(EncoderDecoderCache(own, self.cache.cross_attention_cache))


class SharedPrefixLayer(DynamicLayer):
    """Keys and values of all beams of a sentence in one row, in the order in which they came."""

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Prepare for the first keys `(B, H, T, d_k)` and values, a row for each sentence."""
        super().lazy_initialization(key_states, value_states)
        self.num_tokens = self.num_entries = 0
        # Keys, then values, with room for more entries than there are.
        self.buffers = [states[:, :, :0] for states in (key_states, value_states)]

    def update(
        self, key_states: Tensor, value_states: Tensor, *arguments: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add keys `(B * K, H, T, d_k)` and values `(B * K, H, T, d_v)`.

        Returns:
            All keys `(B, H, entries, d_k)` and values `(B, H, entries, d_v)`.
        """
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        begin = self.num_entries
        for place, states in enumerate((key_states, value_states)):
            buffer = self.buffers[place]
            new = states.unflatten(0, (len(buffer), -1)).transpose(1, 2).flatten(2, 3)
            self.num_entries = begin + new.shape[2]
            if self.num_entries > buffer.shape[2]:
                larger = buffer.new_empty(*buffer.shape[:2], 2 * self.num_entries, buffer.shape[3])
                larger[:, :, :begin] = buffer[:, :, :begin]
                self.buffers[place] = buffer = larger
            buffer[:, :, begin : self.num_entries] = new
        self.num_tokens += key_states.shape[2]
        self.keys, self.values = (buffer[:, :, : self.num_entries] for buffer in self.buffers)
        return self.keys, self.values

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Keep the rows, that is the sentences, of these indices."""
        self.buffers = [buffer.index_select(0, beam_idx) for buffer in self.buffers]

    def get_seq_length(self) -> int:
        """The tokens of each beam."""
        return self.num_tokens if self.is_initialized else 0


def make_beam_cache(
    cache: Any,
    num_beams: int,
    prompt_length: int,
    mask: Tensor | None = None,
    *,
    is_given: bool,
    may_share: bool,
) -> BeamCache:
    """The cache of a beam search: shared by the beams of a sentence where that can be.

    Args:
        cache: the library's cache, or `None`.
        num_beams: K.
        prompt_length: tokens that each target starts with.
        mask: `(B * K, T)`, nonzero at real target tokens; `None` where all are real. A mask of
            `prompt_length` tokens covers those that are cached, a longer one those and the prompt.
        is_given: whether the caller of `generate()` gave the cache.
        may_share: whether the attention takes a mask of ours, and nobody wants states by row.
    """
    num_cached = 0
    if cache is not None and mask is not None and mask.shape[1] == prompt_length:
        num_cached = int(cache.get_seq_length())
    by_rows = BeamCache(cache, num_beams, mask, is_given, num_cached)
    if may_share and by_rows.can_drop_sentences and cache.get_seq_length() == 0:
        return SharedPrefixCache(cache.cross_attention_cache, num_beams)
    return by_rows


def num_memory_rows(cache: Any) -> int | None:
    """Rows of the memory that a cache holds; `None` where it holds no memory."""
    if not isinstance(cache, EncoderDecoderCache) or not cache.is_updated.get(0):
        return None
    return len(cache.cross_attention_cache.layers[0].keys)


def with_memory_rows(cache: Any) -> Any:
    """A cache with a row of the memory for each beam or sample; the given one does not change."""
    num_rows = num_memory_rows(cache)
    if num_rows is None:
        return cache
    repeats = len(cache.self_attention_cache.layers[0].keys) // num_rows
    if repeats == 1:
        return cache
    memory = copy.copy(cache.cross_attention_cache)
    memory.layers = [copy.copy(layer) for layer in memory.layers]
    for layer in memory.layers:
        layer.keys = layer.keys.repeat_interleave(repeats, dim=0)
        layer.values = layer.values.repeat_interleave(repeats, dim=0)
    return EncoderDecoderCache(cache.self_attention_cache, memory)


def reorder_rows(cache: Cache, rows: Tensor) -> None:
    """Replace the rows of a cache by those of these indices."""
    for layer in cache.layers:
        if layer.is_compileable:  # a compiled graph reads these very tensors
            layer.keys.copy_(layer.keys.index_select(0, rows))
            layer.values.copy_(layer.values.index_select(0, rows))
        else:
            layer.reorder_cache(rows)


def gather_hypotheses(values: Tensor, index: Tensor) -> Tensor:
    """Of `(B, C, length)` values the `(B, K)` hypotheses of an index: `(B, K, length)`."""
    return values.gather(1, index.unsqueeze(-1).expand(-1, -1, values.shape[-1]))


__all__ = ["BeamCache", "SharedPrefixCache", "make_beam_cache"]
