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
"""The Transformer of "Attention Is All You Need", in the order of the paper's section 3.

Shapes: `B` batch, `S` source length, `T` target length, `H` heads, `V` vocabulary; widths keep the
paper's names (`d_model`, `d_ff`, `d_k`, `d_v`).

Where the paper is silent or we do otherwise:

| Topic | The paper | Here |
|---|---|---|
| layer normalization epsilon | unsaid | 1e-6, as in tensor2tensor, the authors' code |
| initial values | unsaid | tensor2tensor's: Glorot uniform, N(0, 1 / d_model), `<pad>` zero |
| decoder start | "offset by one position" | `<pad>`, at first the authors' zero vector |
| padding | unsaid | never attended to, and never shifts the position of a real token |
| label smoothing | cites Szegedy et al. | epsilon / V on every class, the true one included |
| heads | d_k = d_v = d_model / h | `d_k` and `d_v` may differ (Table 3, rows A and B) |
| biases | none in attention and output | none; `attention_bias`, `output_bias` for imports |
| of imports | ReLU, scaled embeddings | `activation_function`, `scale_embedding`, `final_norm` |
| positions | sinusoids, or learned (row E) | `position_encoding`; learned ones end |
"""

# trf-ignore: TRF041 share_embeddings, position_encoding, final_norm, scale_embedding

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_vaswani import VaswaniConfig
from .decoding_vaswani import may_be_left_out
from .generation_vaswani import VaswaniGenerationMixin
from .layers_vaswani import (
    in_float32,
    is_attention_slow,
    use_faster_layers,
    use_torch_layers,
)
from .loss_vaswani import IGNORED, accumulation_dtype, smoothed_cross_entropy, training_loss


# 3.1 Encoder and Decoder Stacks
#
# LayerNorm(x + Sublayer(x)) around every sub-layer, with dropout on the sub-layer's output (5.4).


def final_norm(config: VaswaniConfig) -> nn.Module:
    """What ends a stack: nothing in the paper, where the last sub-layer is normalized already."""
    if not config.final_norm:
        return nn.Identity()
    return nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)


class EncoderLayer(GradientCheckpointingLayer):
    """Self-attention, then a feed-forward network (section 3.1, left half of figure 1)."""

    def __init__(self, config: VaswaniConfig, layer_idx: int) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config, layer_idx)
        self.self_attention_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        attention_mask: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Tensor:
        """Map source states `(B, S, d_model)` to the next layer's."""
        attended, _ = self.self_attention(x, x, attention_mask, **kwargs)
        x = self.self_attention_norm(x + self.dropout(attended))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class DecoderLayer(GradientCheckpointingLayer):
    """Self-attention, attention over the memory, feed-forward (3.1, right half of figure 1)."""

    def __init__(self, config: VaswaniConfig, layer_idx: int) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config, layer_idx, is_causal=True)
        self.self_attention_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.cross_attention = MultiHeadAttention(config, layer_idx, is_cross_attention=True)
        self.cross_attention_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        attention_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Tensor:
        """Map target states `(B, T, d_model)` to the next layer's; memory is `(B, S, d_model)`."""
        attended, _ = self.self_attention(x, x, attention_mask, past_key_values, **kwargs)
        x = self.self_attention_norm(x + self.dropout(attended))
        attended, _ = self.cross_attention(x, memory, memory_mask, past_key_values, **kwargs)
        x = self.cross_attention_norm(x + self.dropout(attended))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


# 3.2 Attention
# 3.2.1 Scaled Dot-Product Attention


def scaled_dot_product_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Mix the values by how well their keys match each query (section 3.2.1, equation 1).

    Args:
        module: the attention that asks; the library's signature has it.
        query: `(B, H, T, d_k)`.
        key: `(B, H, S, d_k)`.
        value: `(B, H, S, d_v)`.
        attention_mask: added to the scores, broadcast to `(B, H, T, S)`: 0 where a query may look,
            the dtype's lowest number where not; `None` lets it look anywhere.
        scaling: factor of the dot products, `1 / sqrt(d_k)`.
        dropout: share of the weights to drop.
        kwargs: what other attention backends take.

    Returns:
        The mixed values, `(B, T, H, d_v)`, and the weights, `(B, H, T, S)`, whose rows sum to 1
        before dropout.
    """
    scores = (query @ key.transpose(-2, -1)) * scaling  # (B, H, T, S)
    if attention_mask is not None:
        # A sum below the lowest number is -inf, and a row of nothing but -inf has no softmax.
        scores = (scores + attention_mask).clamp(min=torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1, dtype=accumulation_dtype(scores.dtype)).to(query.dtype)
    weights = F.dropout(weights, p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2), weights


# 3.2.2 Multi-Head Attention


class MultiHeadAttention(nn.Module):
    """Attention by several heads, each in a subspace of its own (section 3.2.2).

    Used in three ways (section 3.2.3): encoder self-attention, causal decoder self-attention, and
    cross-attention of the decoder over the memory.
    """

    def __init__(
        self,
        config: VaswaniConfig,
        layer_idx: int,
        is_causal: bool = False,
        is_cross_attention: bool = False,
    ) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.is_causal = is_causal
        self.is_cross_attention = is_cross_attention
        d_k, d_v = config.head_widths
        keys_width, values_width = config.num_heads * d_k, config.num_heads * d_v
        self.scaling = d_k**-0.5
        bias = config.attention_bias
        self.query_proj = nn.Linear(config.d_model, keys_width, bias=bias)  # W^Q of all heads
        self.key_proj = nn.Linear(config.d_model, keys_width, bias=bias)  # W^K
        self.value_proj = nn.Linear(config.d_model, values_width, bias=bias)  # W^V
        self.output_proj = nn.Linear(values_width, config.d_model, bias=bias)  # W^O
        # tensor2tensor makes the queries, keys and values of self-attention by one matrix, and the
        # keys and values of cross-attention by one: Glorot's bound is that of the matrix.
        together = [self.key_proj, self.value_proj]
        if not is_cross_attention:
            together.append(self.query_proj)
        fan_out = sum(part.out_features for part in together)
        for projection in together:
            projection.glorot_fan_out = fan_out  # type: ignore[assignment]

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[Tensor, Tensor | None]:
        """Let every position of `x` look at the positions of `memory`.

        Args:
            x: `(B, T, d_model)`, what the queries are made of; or `(B * K, T, d_model)`, where each
                K rows look at the same keys.
            memory: `(B, S, d_model)`, what keys and values are made of; `x` in self-attention.
            attention_mask: as the attention backend wants it.
            past_key_values: where keys and values of earlier positions and of the memory are kept.
            kwargs: for the attention backend.

        Returns:
            `(B, T, d_model)`, and the weights `(B, H, T, S)` where the backend gives them.
        """
        key, value = self.keys_and_values(memory, past_key_values)
        # Rows of x that share keys, as the beams of a sentence do, are one longer query to these.
        query = self.split_heads(self.query_proj(x.reshape(key.shape[0], -1, x.shape[-1])))
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, scaled_dot_product_attention
        )
        if is_attention_slow(self, query, key):
            attend = in_float32(attend)
        heads, weights = attend(
            self,
            query,
            key,
            value,
            attention_mask,
            scaling=self.scaling,
            dropout=self.config.attention_dropout if self.training else 0.0,
            **kwargs,
        )
        if weights is not None and weights.shape[0] < x.shape[0]:
            weights = weights.unflatten(2, (-1, x.shape[1])).transpose(1, 2).flatten(0, 1)
        return self.output_proj(heads.flatten(2)).view(x.shape), weights

    def split_heads(self, x: Tensor) -> Tensor:
        """Turn `(B, T, H * width)` into `(B, H, T, width)`."""
        return x.unflatten(-1, (self.config.num_heads, -1)).transpose(1, 2)

    def keys_and_values(
        self, memory: Tensor, past_key_values: EncoderDecoderCache | None
    ) -> tuple[Tensor, Tensor]:
        """All keys `(B, H, S, d_k)` and values `(B, H, S, d_v)` to look at, kept ones included."""
        is_cross = self.is_cross_attention
        if is_cross and past_key_values is not None:
            if past_key_values.is_updated.get(self.layer_idx):
                kept = past_key_values.cross_attention_cache.layers[self.layer_idx]
                return kept.keys, kept.values
            past_key_values.is_updated[self.layer_idx] = True
        key = self.split_heads(self.key_proj(memory))
        value = self.split_heads(self.value_proj(memory))
        if past_key_values is None:
            return key, value
        cache = (
            past_key_values.cross_attention_cache
            if is_cross
            else past_key_values.self_attention_cache
        )
        return cache.update(key, value, self.layer_idx)


# 3.3 Position-wise Feed-Forward Networks


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2, the same at every position (section 3.3, equation 2)."""

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.outer = nn.Linear(config.d_ff, config.d_model)
        self.activation = ACT2FN[config.activation_function]  # the paper's is ReLU
        self.dropout = nn.Dropout(config.activation_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, T, d_model)` to `(B, T, d_model)`."""
        return self.outer(self.dropout(self.activation(self.inner(x))))


# 3.4 Embeddings and Softmax


class EmbeddingWithPositions(nn.Module):
    """What both stacks do to their input: scale by sqrt(d_model), add positions, drop (5.4)."""

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__()
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        kind = SinusoidalPositions if config.position_encoding == "sinusoidal" else LearnedPositions
        self.positions = kind(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, embeddings: Tensor, position_ids: Tensor, num_positions: int) -> Tensor:
        """Make the first layer's input.

        Args:
            embeddings: `(B, T, d_model)`, rows of the embedding matrix.
            position_ids: `(B, T)` or `(1, T)`, counted from 0.
            num_positions: no position id reaches this number.
        """
        positions = self.positions(position_ids, num_positions)
        return self.dropout(embeddings * self.scale + positions.to(embeddings.dtype))


def position_ids_from_mask(
    attention_mask: Tensor | None, length: int, past_length: int | Tensor, device: torch.device
) -> Tensor:
    """Count the real tokens before each token, so that left padding shifts no position.

    Args:
        attention_mask: `(B, past_length + length)` or longer, nonzero at real tokens; a mask of
            another rank says nothing about padding, and positions then count from `past_length`.
        length: number of positions wanted, the last ones that the mask covers.
        past_length: number of positions before them.
        device: where the result goes.

    Returns:
        `(B, length)`, or `(1, length)` without a mask.
    """
    steps = torch.arange(length, device=device) + past_length
    if attention_mask is None or attention_mask.ndim != 2:
        return steps.unsqueeze(0)
    counted = attention_mask.to(device).ne(0).cumsum(dim=-1).sub(1).clamp(min=0)
    return counted.index_select(1, steps.clamp(max=counted.shape[1] - 1))


# 3.5 Positional Encoding


def sinusoidal_positions(num_positions: int, d_model: int) -> Tensor:
    """Sine at even dimensions, cosine at odd ones (section 3.5).

    Returns:
        `(num_positions, d_model)` in float32: `[p, 2i] = sin(p / 10000^(2i/d_model))`, `[p, 2i+1]`
        the cosine of the same angle.
    """
    # Built in float64: at position 1,000 a float32 angle is already wrong by 6e-5.
    position = torch.arange(num_positions, dtype=torch.float64, device="cpu").unsqueeze(1)
    exponent = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu") / d_model
    angle = position / 10000**exponent
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()


class SinusoidalPositions(nn.Module):
    """The sinusoids of section 3.5: never trained, never saved, and as many as are asked for."""

    table: Tensor  # (num_positions, d_model), float32

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__()
        self.d_model = config.d_model
        table = sinusoidal_positions(config.max_position_embeddings, config.d_model)
        self.table = nn.Buffer(table, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Follow the model to another device, but in no cast: a rounded table stays rounded."""
        device = fn(self.table).device
        table = sinusoidal_positions(*self.table.shape) if self.table.is_meta else self.table
        self.table = table.to(device)
        return self

    def forward(self, position_ids: Tensor, num_positions: int) -> Tensor:
        """The rows `(..., d_model)` of the positions `(...)`, all below `num_positions`."""
        if num_positions > self.table.shape[0]:
            # Doubling keeps decoding token by token from building a new table at every token.
            num_rows = max(num_positions, 2 * self.table.shape[0])
            table = sinusoidal_positions(num_rows, self.d_model)
            # trf-ignore: TRF046, the table is no state: a longer one has the same rows
            self.table = table.to(self.table.device)
        return F.embedding(position_ids, self.table)


class LearnedPositions(nn.Module):
    """A trained vector for each position (Table 3, row E)."""

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.max_position_embeddings, config.d_model))

    def forward(self, position_ids: Tensor, num_positions: int) -> Tensor:
        """The rows `(..., d_model)` of the positions `(...)`, all below `num_positions`.

        Raises:
            ValueError: if a position lies beyond the last learned one.
        """
        if num_positions > self.weight.shape[0]:
            raise ValueError(
                f"A source or target of {num_positions} tokens needs as many positions, but "
                f"max_position_embeddings={self.weight.shape[0]} were learned; shorten it or train "
                f'with a larger max_position_embeddings or position_encoding="sinusoidal".'
            )
        return F.embedding(position_ids, self.weight)


# Figure 1: the model, behind the library's interface


class VaswaniPreTrainedModel(PreTrainedModel):
    """What the stacks and the whole models share: initial values, and what the library may do."""

    config: VaswaniConfig
    config_class = VaswaniConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules: ClassVar[list[str]] = ["EncoderLayer", "DecoderLayer"]
    _skip_keys_device_placement: ClassVar[list[str]] = ["past_key_values"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True

    def post_init(self) -> None:
        """End the construction as the library does, and let layers choose faster forwards."""
        super().post_init()
        use_faster_layers(self)

    def _replicate_for_data_parallel(self) -> Self:
        """A replica for another GPU; a faster forward would use the weights of the first."""
        use_torch_layers(self)
        return super()._replicate_for_data_parallel()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        # The library passes over modules that have no parameters of their own, so that a linear
        # layer must itself say what it is a part of.
        if isinstance(module, nn.Linear) and getattr(module, "is_output_embedding", False):
            init.normal_(module.weight, std=self.config.d_model**-0.5)
        elif isinstance(module, nn.Linear):
            fan_out = getattr(module, "glorot_fan_out", module.out_features)
            bound = math.sqrt(6 / (module.in_features + fan_out))
            init.uniform_(module.weight, -bound, bound)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=self.config.d_model**-0.5)
            if module.padding_idx is not None and not getattr(
                module.weight, "_is_hf_initialized", False
            ):
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, LearnedPositions):
            init.normal_(module.weight, std=self.config.d_model**-0.5)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, SinusoidalPositions):
            init.copy_(module.table, sinusoidal_positions(*module.table.shape))

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """Which parameters are tied to which: `{target: source}`.

        The library ties nothing where `tie_word_embeddings` is off; here `share_embeddings` and
        `tie_word_embeddings` are switched one by one, as `_tied_weights_keys` says.
        """
        if all_submodels:
            return super().get_expanded_tied_weights_keys(all_submodels=True)
        return dict(self._tied_weights_keys or {})

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As torch's; a tied parameter needs only its source's entry, as `model.safetensors` has.

        Else the library's trainer warns of missing keys whenever it resumes. With `assign`, which
        would make a parameter of each entry, nothing is added.
        """
        tied = {
            target: state_dict[source]
            for target, source in self.all_tied_weights_keys.items()
            if source in state_dict and target not in state_dict
        }
        if tied and not assign:
            state_dict = {**state_dict, **tied}
        return super().load_state_dict(state_dict, strict=strict, assign=assign)


class VaswaniEncoder(VaswaniPreTrainedModel):
    """The encoder stack (section 3.1): source ids in, memory out."""

    _can_record_outputs: ClassVar[dict[str, Any]] = {
        "hidden_states": EncoderLayer,
        "attentions": MultiHeadAttention,
    }

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.embedding = EmbeddingWithPositions(config)
        self.layers = nn.ModuleList(EncoderLayer(config, i) for i in range(config.encoder_layers))
        self.final_norm = final_norm(config)
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutput:
        """Encode a source.

        Args:
            input_ids: `(B, S)`; or give `inputs_embeds`.
            attention_mask: `(B, S)`, nonzero at real tokens; `None` where all are real.
            inputs_embeds: `(B, S, d_model)`, rows of the embedding matrix, not yet scaled.
            kwargs: the library's own, such as `output_attentions`.

        Returns:
            The memory, `(B, S, d_model)`, as `last_hidden_state`.

        Raises:
            ValueError: if both or neither of `input_ids` and `inputs_embeds` are given.
        """
        _check_one_is_given(input_ids, inputs_embeds, "")
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        length = inputs_embeds.shape[1]
        position_ids = position_ids_from_mask(attention_mask, length, 0, inputs_embeds.device)
        x = self.embedding(inputs_embeds, position_ids, length)
        mask = create_bidirectional_mask(
            config=self.config, inputs_embeds=x, attention_mask=attention_mask
        )
        for layer in self.layers:
            x = layer(x, mask, **kwargs)
        return BaseModelOutput(last_hidden_state=self.final_norm(x))


class VaswaniDecoder(VaswaniPreTrainedModel):
    """The decoder stack (section 3.1): target ids so far and the memory in, target states out."""

    _can_record_outputs: ClassVar[dict[str, Any]] = {
        "hidden_states": DecoderLayer,
        "attentions": OutputRecorder(MultiHeadAttention, index=1, layer_name="self_attention"),
        "cross_attentions": OutputRecorder(
            MultiHeadAttention, index=1, layer_name="cross_attention"
        ),
    }

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(
            config.num_target_pieces, config.d_model, config.pad_token_id
        )
        self.embedding = EmbeddingWithPositions(config)
        self.layers = nn.ModuleList(DecoderLayer(config, i) for i in range(config.decoder_layers))
        self.final_norm = final_norm(config)
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Decode a target, given the memory.

        Args:
            input_ids: `(B, T)`, the positions that `past_key_values` does not hold yet; or give
                `inputs_embeds`.
            attention_mask: `(B, past + T)`, nonzero at real tokens; `None` where all are real.
            encoder_hidden_states: the memory, `(B, S, d_model)`.
            encoder_attention_mask: `(B, S)`, nonzero at real source tokens; `None` for all.
            past_key_values: keys and values of earlier positions and of the memory.
            inputs_embeds: `(B, T, d_model)`, rows of the embedding matrix, not yet scaled.
            use_cache: whether to return keys and values for the next call.
            kwargs: the library's own, such as `output_attentions`.

        Returns:
            The states `(B, T, d_model)` as `last_hidden_state`, and the cache where one is used.

        Raises:
            ValueError: if both or neither of `input_ids` and `inputs_embeds` are given, no memory,
                or a cache of another kind.
        """
        _check_one_is_given(input_ids, inputs_embeds, "decoder_")
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        if encoder_hidden_states is None:
            raise ValueError("The decoder needs the memory: give encoder_hidden_states.")
        if past_key_values is not None and not isinstance(past_key_values, EncoderDecoderCache):
            raise ValueError(
                f"past_key_values must be an EncoderDecoderCache, got a "
                f"{type(past_key_values).__name__}."
            )
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(
                DynamicCache(config=self.config), DynamicCache(config=self.config)
            )
        self_attention_cache = past_key_values and past_key_values.self_attention_cache
        length = inputs_embeds.shape[1]
        past_length, num_positions = 0, length
        if past_key_values is not None:
            past_length = past_key_values.get_seq_length()
            # A static cache counts its length on the device; the room it has is a plain number.
            num_positions = past_key_values.get_mask_sizes(length, 0)[0]
        position_ids = position_ids_from_mask(
            attention_mask, length, past_length, inputs_embeds.device
        )
        x = self.embedding(inputs_embeds, position_ids, num_positions)
        mask = create_causal_mask(
            config=self.config,
            inputs_embeds=x,
            attention_mask=attention_mask,
            past_key_values=self_attention_cache,
        )
        memory_mask = create_bidirectional_mask(
            config=self.config,
            inputs_embeds=x.reshape(encoder_hidden_states.shape[0], -1, x.shape[-1]),
            attention_mask=encoder_attention_mask,
            encoder_hidden_states=encoder_hidden_states,
        )
        for layer in self.layers:
            x = layer(x, encoder_hidden_states, mask, memory_mask, past_key_values, **kwargs)
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=self.final_norm(x), past_key_values=past_key_values
        )


class VaswaniModel(VaswaniPreTrainedModel):
    """Encoder and decoder of figure 1, without the pre-softmax layer.

    With `share_embeddings` the one matrix is `shared`; `encoder.embed_tokens` and
    `decoder.embed_tokens` are tied to it.
    """

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        if config.share_embeddings:
            self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = VaswaniEncoder(config)
        self.decoder = VaswaniDecoder(config)
        self.post_init()

    @property
    def _tied_weights_keys(self) -> dict[str, str]:
        if not self.config.share_embeddings:
            return {}
        return {
            "encoder.embed_tokens.weight": "shared.weight",
            "decoder.embed_tokens.weight": "shared.weight",
        }

    def get_input_embeddings(self) -> nn.Embedding:
        """The source's embedding."""
        return self.shared if self.config.share_embeddings else self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the source's embedding, and the target's where they are one."""
        if self.config.share_embeddings:
            self.shared = value
        else:
            self.encoder.embed_tokens = value

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; what replaces `shared` replaces the embeddings that are tied to it.

        So the stacks call what adapters (PEFT) or a quantizer put in its place.
        """
        super().__setattr__(name, value)
        # nn.DataParallel fills a replica child by child, and the stacks are still the model's own.
        is_replica = getattr(self, "_is_replica", False)
        if name == "shared" and "decoder" in self._modules and not is_replica:
            self.encoder.embed_tokens = self.decoder.embed_tokens = value

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqModelOutput:
        """Encode the source, unless `encoder_outputs` holds that already, and decode the target.

        Arguments are those of the two stacks; the decoder's start with `decoder_`.

        Returns:
            The decoder's states `(B, T, d_model)` as `last_hidden_state`, the memory `(B, S,
            d_model)` as `encoder_last_hidden_state`, and what the library's flags ask for.
        """
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids=input_ids,
                attention_mask=attention_mask,
                inputs_embeds=inputs_embeds,
                **kwargs,
            )
        elif not isinstance(encoder_outputs, BaseModelOutput):  # a tuple, as older code gives it
            encoder_outputs = BaseModelOutput(*encoder_outputs)
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            past_key_values=decoder_outputs.past_key_values,
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )


def shift_right(labels: Tensor, decoder_start_token_id: int, pad_token_id: int) -> Tensor:
    """The target offset by one position (3.1): `(B, T)` labels to `(B, T)` input ids."""
    start = labels.new_full((len(labels), 1), decoder_start_token_id)
    shifted = torch.cat((start, labels[:, :-1]), dim=1)
    return shifted.masked_fill(shifted == IGNORED, pad_token_id)


class VaswaniForConditionalGeneration(VaswaniPreTrainedModel, VaswaniGenerationMixin):
    """The whole of figure 1: the model and the pre-softmax layer, for training and `generate()`."""

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        self.model = VaswaniModel(config)
        self.lm_head = nn.Linear(config.d_model, config.num_target_pieces, bias=config.output_bias)
        self.lm_head.is_output_embedding = True  # type: ignore[assignment]
        self.use_paper_generation()
        self.post_init()

    @property
    def _tied_weights_keys(self) -> dict[str, str]:
        if not self.config.tie_word_embeddings:
            return {}
        source = "model.shared" if self.config.share_embeddings else "model.decoder.embed_tokens"
        return {"lm_head.weight": f"{source}.weight"}

    def get_input_embeddings(self) -> nn.Embedding:
        """The source's embedding."""
        return self.model.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the source's embedding, and the target's where they are one."""
        self.model.set_input_embeddings(value)

    def resize_token_embeddings(
        self,
        new_num_tokens: int | None = None,
        pad_to_multiple_of: int | None = None,
        mean_resizing: bool = True,
    ) -> nn.Embedding:
        """Change the number of pieces, of source and target alike; arguments are the library's.

        Raises:
            ValueError: if source and target have vocabularies of different sizes.
        """
        if new_num_tokens is None and pad_to_multiple_of is None:
            return self.get_input_embeddings()
        if self.config.target_vocab_size != self.config.vocab_size:
            raise ValueError(
                f"Source and target have vocabularies of their own "
                f"(vocab_size={self.config.vocab_size}, "
                f"target_vocab_size={self.config.target_vocab_size}); no one size fits both."
            )
        if not self.config.share_embeddings:
            self.model.decoder.resize_token_embeddings(
                new_num_tokens, pad_to_multiple_of, mean_resizing
            )
        resized = super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        self.config.target_vocab_size = self.config.vocab_size
        return resized

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The decoder's input, made of the labels; the library's collator asks for it."""
        start = cast(int, self.config.decoder_start_token_id)
        return shift_right(labels, start, self.config.pad_token_id)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        num_items_in_batch: int | Tensor | None = None,
        soft_target_ids: Tensor | None = None,
        soft_target_shares: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> Seq2SeqLMOutput:
        """Predict the target, and measure the loss where `labels` say what it is.

        Args:
            input_ids: source ids, `(B, S)`.
            attention_mask: `(B, S)`, nonzero at real source tokens; `None` where all are real.
            decoder_input_ids: `(B, T)`, the target offset by one; `None` to make it of `labels`.
            decoder_attention_mask: `(B, T)`, nonzero at real target tokens.
            encoder_outputs: the encoder's output, where it is known already.
            past_key_values: keys and values of earlier positions and of the memory.
            inputs_embeds: `(B, S, d_model)` instead of `input_ids`.
            decoder_inputs_embeds: `(B, T, d_model)` instead of `decoder_input_ids`.
            labels: `(B, T)`, target ids; -100 where there is no target.
            use_cache: whether to return keys and values for the next call; by default as the config
                says, and not with `labels`.
            logits_to_keep: compute logits for the last so many positions, or for the positions of
                an index tensor; 0 for all. Only without `labels`.
            num_items_in_batch: number of target tokens of the whole update, over all processes and
                accumulated batches, which the summed loss is divided by; `None` for this batch's.
            soft_target_ids: `(B, T, K)`, pieces that a teacher gives probability to. Only with
                `labels`, when the model trains.
            soft_target_shares: `(B, T, K)`, their shares of the target distribution; what is left
                of 1 goes to the label, smoothed.
            kwargs: the library's own, such as `output_attentions`.

        Returns:
            `loss`: cross-entropy in nats per target token. Smoothed by `config.label_smoothing`
            when the model trains, plain in evaluation.
            `logits`: `(B, T, V)`. Left out when the model trains on `labels`: only real target
            positions get logits then, and only for the loss. Call without `labels` to have them.

        Raises:
            ValueError: if `logits_to_keep` is given beside `labels`, `labels` are not as many as
                the decoder's input ids, or soft targets come without labels to train on.
        """
        soft_targets = None
        if soft_target_ids is not None or soft_target_shares is not None:
            if soft_target_ids is None or soft_target_shares is None:
                raise ValueError("Give soft_target_ids and soft_target_shares together.")
            if labels is None or not self.training:
                raise ValueError("soft_target_ids are for training: give labels, and call train().")
            soft_targets = soft_target_ids, soft_target_shares
        if labels is not None:
            if not (isinstance(logits_to_keep, int) and logits_to_keep == 0):
                raise ValueError(
                    f"logits_to_keep={logits_to_keep} would leave labels without logits; "
                    f"give either logits_to_keep or labels."
                )
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
            use_cache = bool(use_cache)  # the whole target is here: nothing comes after it
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        states, logits, loss = outputs.last_hidden_state, None, None
        if labels is not None and labels.shape != states.shape[:2]:
            raise ValueError(
                f"labels must have a label, or {IGNORED}, for each position of the decoder's "
                f"input, {tuple(states.shape[:2])}, got labels of shape {tuple(labels.shape)}."
            )
        if labels is not None and self.training:
            smoothing = self.config.label_smoothing
            loss = training_loss(
                self.lm_head, states, labels, smoothing, num_items_in_batch, soft_targets
            )
        else:
            kept = (
                slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
            )
            logits = self.lm_head(states[:, kept])  # (B, T, V)
            if labels is not None:
                loss = smoothed_cross_entropy(
                    logits.flatten(0, 1), labels.flatten(), 0.0, num_items_in_batch
                )
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            decoder_hidden_states=outputs.decoder_hidden_states,
            decoder_attentions=outputs.decoder_attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            encoder_hidden_states=outputs.encoder_hidden_states,
            encoder_attentions=outputs.encoder_attentions,
        )


def _check_one_is_given(
    input_ids: Tensor | None, inputs_embeds: Tensor | None, prefix: str
) -> None:
    if (input_ids is None) == (inputs_embeds is None):
        given = "both" if input_ids is not None else "neither"
        raise ValueError(
            f"Give exactly one of {prefix}input_ids and {prefix}inputs_embeds, got {given}."
        )


# What a step of a search does without.
may_be_left_out(VaswaniForConditionalGeneration, VaswaniModel, VaswaniDecoder)
may_be_left_out(EmbeddingWithPositions, DecoderLayer, MultiHeadAttention, FeedForward)


__all__ = ["VaswaniForConditionalGeneration", "VaswaniModel", "VaswaniPreTrainedModel"]
