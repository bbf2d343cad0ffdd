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
"""The beams' cache: what the model keeps of the beams of a search so far."""

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import Cache, DynamicLayer


class _RowPast:
    """What the model keeps of the beams so far: a row of its cache for each, or nothing."""

    def __init__(self, cache: Any, num_beams: int, mask: Tensor | None) -> None:
        self.cache, self.num_beams, self.mask = cache, num_beams, mask
        self.num_fed = 0  # tokens of each beam that the cache has

    @property
    def can_shrink(self) -> bool:
        """Whether rows may leave, on which a compiled graph or whoever gave something counts."""
        kept = getattr(self.cache, "self_attention_cache", None)
        is_ours = isinstance(kept, DynamicCache) and not _is_given(self.cache)
        return self.mask is None and is_ours

    def inputs(self, running: Tensor) -> dict[str, Any]:
        """What the model does not know yet of beams `(B * K, length)`.

        As arguments of `prepare_inputs_for_generation`.
        """
        new = running[:, self.num_fed :].contiguous()
        if self.cache is not None:
            self.num_fed = running.shape[1]
        return {
            "input_ids": new,
            "past_key_values": self.cache,
            "decoder_attention_mask": self.mask,
        }

    def follow(self, rows: Tensor) -> None:
        """Give the beams `(B, K)` the pasts of the rows they continue; other sentences leave."""
        if self.cache is not None:
            _reorder(self.cache.self_attention_cache, rows.flatten())
            if self.can_shrink and len(rows) < len(self.cache.cross_attention_cache.layers[0].keys):
                self.cache.cross_attention_cache.reorder_cache(rows[:, 0] // self.num_beams)
        if self.mask is not None:
            self.mask = torch.cat((self.mask, self.mask.new_ones(len(self.mask), 1)), dim=1)

    def rows(self) -> Any:
        """The cache as the library would return it: a row for each beam, of its memory too."""
        return _with_own_memory(self.cache)


class _TreePast(_RowPast):
    """The beams' pasts as a tree for each sentence: what they have in common is there once.

    `sees`, `(B, K, entries)`, tells which entries of a `TreeLayer` are the past of each beam. When
    beams change places it changes, and no keys or values move.
    """

    can_shrink = True

    def __init__(self, memory: Cache, num_beams: int) -> None:
        cache = EncoderDecoderCache(Cache(layer_class_to_replicate=TreeLayer), memory)
        super().__init__(cache, num_beams, None)
        self.sees = torch.empty(0)

    def inputs(self, running: Tensor) -> dict[str, Any]:
        """As above; at first the beams are alike, and one row of each sentence will do."""
        if self.num_fed == 0:
            start = running[:: self.num_beams]  # (B, length)
            self.sees = torch.ones_like(start, dtype=torch.bool).unsqueeze(1)
            self.sees = self.sees.expand(-1, self.num_beams, -1)
            return super().inputs(start)
        own = torch.eye(self.num_beams, dtype=torch.bool, device=running.device)
        self.sees = torch.cat((self.sees, own.expand(len(self.sees), -1, -1)), dim=-1)
        dtype = self.cache.self_attention_cache.layers[0].dtype
        hidden = torch.zeros(self.sees.shape, dtype=dtype, device=running.device)
        hidden.masked_fill_(~self.sees, torch.finfo(dtype).min)
        return super().inputs(running) | {"decoder_attention_mask": hidden.unsqueeze(1)}

    def follow(self, rows: Tensor) -> None:
        """As above."""
        kept = rows[:, 0] // self.num_beams
        if len(kept) < len(self.sees):
            self.sees = self.sees[kept]
            self.cache.reorder_cache(kept)
        self.sees = self.sees.gather(1, _expand(rows % self.num_beams, self.sees))

    def rows(self) -> Any:
        """As above."""
        num_tokens = self.cache.get_seq_length()
        entries = self.sees.nonzero()[:, 2].view(len(self.sees), self.num_beams, num_tokens)
        sentences = torch.arange(len(entries), device=entries.device).view(-1, 1, 1)
        cache = DynamicCache()
        for index, layer in enumerate(self.cache.self_attention_cache.layers):
            keys, values = (  # (B * K, H, T, d_k), (B * K, H, T, d_v)
                states[sentences, :, entries].flatten(0, 1).transpose(1, 2)
                for states in (layer.keys, layer.values)
            )
            cache.update(keys.contiguous(), values.contiguous(), index)
        return _with_own_memory(EncoderDecoderCache(cache, self.cache.cross_attention_cache))


class TreeLayer(DynamicLayer):
    """Keys and values of all beams of a sentence in one row, in the order they came."""

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Prepare for the first keys `(B, H, T, d_k)` and values, a row for each sentence."""
        super().lazy_initialization(key_states, value_states)
        self.num_tokens = self.num_entries = 0
        self.rooms = [states[:, :, :0] for states in (key_states, value_states)]

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
            room = self.rooms[place]
            new = states.unflatten(0, (len(room), -1)).transpose(1, 2).flatten(2, 3)
            self.num_entries = begin + new.shape[2]
            if self.num_entries > room.shape[2]:
                larger = room.new_empty(*room.shape[:2], 2 * self.num_entries, room.shape[3])
                larger[:, :, :begin] = room[:, :, :begin]
                self.rooms[place] = room = larger
            room[:, :, begin : self.num_entries] = new
        self.num_tokens += key_states.shape[2]
        self.keys, self.values = (room[:, :, : self.num_entries] for room in self.rooms)
        return self.keys, self.values

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Keep some rows, that is sentences."""
        self.rooms = [room.index_select(0, beam_idx) for room in self.rooms]

    def get_seq_length(self) -> int:
        """The tokens of each beam."""
        return self.num_tokens if self.is_initialized else 0


def _past(
    model: Any,
    model_kwargs: dict[str, Any],
    num_beams: int,
    num_given: int,
    history: Any,
) -> _RowPast:
    """How the search keeps the beams' pasts, by the arguments that it takes out of the model's.

    Where the mask covers the ids that were given and no more, the library takes them for all there
    are, and else for those that the cache does not know.
    """
    cache = model_kwargs.pop("past_key_values", None)
    mask = model_kwargs.pop("decoder_attention_mask", None)
    past = _RowPast(cache, num_beams, mask)
    if cache is not None and mask is not None and mask.shape[1] == num_given:
        past.num_fed = int(cache.get_seq_length())  # the ids start with what the cache knows
    # The others take no mask of their own, or their attentions and states are wanted row by row.
    takes_masks = model.config._attn_implementation in ("eager", "sdpa")
    wants_rows = history.has_attentions or history.has_states
    if past.can_shrink and cache.get_seq_length() == 0 and takes_masks and not wants_rows:
        return _TreePast(cache.cross_attention_cache, num_beams)
    return past


def _is_given(cache: Any) -> bool:
    """Whether the caller of `generate()` gave this cache, who may look into it later."""
    return getattr(cache, "_is_user_defined", False)


def _num_memory_rows(cache: Any) -> int | None:
    """Rows of the memory that a cache holds; `None` where it holds none."""
    if not isinstance(cache, EncoderDecoderCache) or not cache.is_updated.get(0):
        return None
    return len(cache.cross_attention_cache.layers[0].keys)


def _with_own_memory(cache: Any) -> Any:
    """A cache whose memory has as many rows as it has beams or samples; the given one stays."""
    num_memory_rows = _num_memory_rows(cache)
    if num_memory_rows is None:
        return cache
    repeats = len(cache.self_attention_cache.layers[0].keys) // num_memory_rows
    if repeats == 1:
        return cache
    memory = copy.copy(cache.cross_attention_cache)
    memory.layers = [copy.copy(layer) for layer in memory.layers]
    for layer in memory.layers:
        layer.keys = layer.keys.repeat_interleave(repeats, dim=0)
        layer.values = layer.values.repeat_interleave(repeats, dim=0)
    return EncoderDecoderCache(cache.self_attention_cache, memory)


def _reorder(cache: Cache, rows: Tensor) -> None:
    for layer in cache.layers:
        if layer.is_compileable:  # a compiled graph reads these very tensors
            layer.keys.copy_(layer.keys.index_select(0, rows))
            layer.values.copy_(layer.values.index_select(0, rows))
        else:
            layer.reorder_cache(rows)


def _expand(index: Tensor, values: Tensor) -> Tensor:
    """An index `(B, K)` for `gather` along the second dimension of `(B, C, length)`."""
    return index.unsqueeze(-1).expand(-1, -1, values.shape[-1])


__all__ = ["TreeLayer"]
