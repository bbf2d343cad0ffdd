# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""To CTranslate2, a fast engine for CPUs and GPUs that needs neither PyTorch nor transformers.

| Topic | CTranslate2 | Here |
|---|---|---|
| attention | one matrix for queries, keys and values; over the memory two | one each |
| heads | one width | `d_k` and `d_v`: the narrower is filled up with zeros |
| positions | a table, which ends | sinusoids are computed on demand |
| text | pieces, as strings | ids |
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, PreTrainedTokenizerBase

from ..configuration_vaswani import VaswaniConfig
from ..extras import require
from ..hub.download import find
from ..hub.folder import save_tokenizers
from ..modeling_vaswani import (
    DecoderLayer,
    MultiHeadAttention,
    VaswaniForConditionalGeneration,
    sinusoidal_positions,
)
from ..translation.loading import load_tokenizers
from .differences import Differences, listed
from .folders import load_vaswani
from .heads import with_aligning_head_first
from .targets import AnyPath, check_target, new_folder


ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swish": "SWISH"}
# Settings of a generation config that `CTranslate2Translator` follows.
CARRIED_SETTINGS = (
    *("num_beams", "length_penalty", "length_penalty_type", "max_extra_tokens", "early_stopping"),
    *("bad_words_ids", "suppress_tokens", "eos_token_id", "decoder_start_token_id"),
    "renormalize_logits",  # CTranslate2 always does
)
# Settings that change no translation, except one that is cut off at a limit.
IDLE_SETTINGS = (
    *("transformers_version", "pad_token_id", "bos_token_id", "use_cache", "cache_implementation"),
    *("output_attentions", "output_hidden_states", "output_scores", "output_logits"),
    *("return_dict_in_generate", "max_length", "max_new_tokens", "forced_eos_token_id"),
)


def to_ctranslate2(source: AnyPath, target: AnyPath, *, quantization: str | None = None) -> None:
    """Write a folder of CTranslate2 that translates as a Vaswani folder does.

    With the tokenizers and `generation_config.json` in it, it is all that `CTranslate2Translator`
    needs. It holds a table of `max_position_embeddings` positions, also of sinusoidal ones; for
    more, raise that entry of `config.json` and convert again. Where a head was trained to align,
    the attention that CTranslate2 returns is that head's.

    Args:
        source: a Vaswani folder or its id on the Hub, with its tokenizer, and in `target_tokenizer`
            the target's if it has one of its own.
        target: a new folder.
        quantization: the type of the stored weights, one of CTranslate2's own: `"int8"`,
            `"int8_float32"`, `"int8_float16"`, `"int8_bfloat16"`, `"int16"`, `"float16"`,
            `"bfloat16"` or `"float32"`; `None` for `"float32"`.

    Raises:
        ValueError: if the source is not a Vaswani model or lacks weights, if its tokenizer or
            generation config has what CTranslate2 lacks, all listed, or if `quantization` is not
            one of those above. Nothing is written then.
        FileExistsError: if the target exists and is not an empty folder.
        ImportError: if ctranslate2 is missing.
    """
    check_target(target)
    converters = require("ctranslate2.converters")
    choices = require("ctranslate2.specs.model_spec").ACCEPTED_MODEL_TYPES
    if quantization not in (None, *choices):
        raise ValueError(f"quantization must be one of {listed(choices)}, got {quantization!r}.")
    found = find(source)
    model = load_vaswani(found, source)
    tokenizer, target_tokenizer = load_tokenizers(found)
    differences = Differences(f"{source} to CTranslate2")
    _refuse_settings(model.generation_config, differences)
    spec = _SpecBuilder(with_aligning_head_first(model)).spec
    _set_vocabularies(spec, model, tokenizer, target_tokenizer or tokenizer, differences)
    differences.check()

    converter = type("VaswaniConverter", (converters.Converter,), {"_load": lambda _: spec})()
    with new_folder(target) as folder:
        converter.convert(str(folder), quantization=quantization, force=True)
        model.generation_config.save_pretrained(folder)
        save_tokenizers(folder, tokenizer, target_tokenizer)


def _refuse_settings(config: GenerationConfig, differences: Differences) -> None:
    for name, value in config.to_diff_dict().items():
        is_known = name.startswith("_") or name in CARRIED_SETTINGS + IDLE_SETTINGS
        differences.refuse_if(
            not is_known,
            f"generation_config.json sets {name}={value!r}, which would be lost; remove it",
        )


def _set_vocabularies(
    spec: Any,
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    target_tokenizer: PreTrainedTokenizerBase,
    differences: Differences,
) -> None:
    config, generation = model.config, model.generation_config
    source_pieces = _pieces(tokenizer, config.vocab_size, "source", differences)
    target_pieces = source_pieces
    if target_tokenizer is not tokenizer or config.num_target_pieces != config.vocab_size:
        target_pieces = _pieces(target_tokenizer, config.num_target_pieces, "target", differences)
    spec.register_source_vocabulary(source_pieces)
    spec.register_target_vocabulary(target_pieces)
    end = generation.eos_token_id
    if isinstance(end, list) and len(end) == 1:
        (end,) = end
    if not isinstance(end, int):
        differences.add(f"eos_token_id={end}; CTranslate2 has one end token")
        return
    spec.config.eos_token = spec.config.bos_token = target_pieces[end]
    start = generation.decoder_start_token_id
    if start is None:
        start = config.decoder_start_token_id
    spec.config.decoder_start_token = target_pieces[start]
    spec.config.unk_token = target_tokenizer.unk_token or target_pieces[config.pad_token_id]
    spec.config.layer_norm_epsilon = config.layer_norm_eps
    # CTranslate2 ignores this entry; `CTranslate2Translator` reads it.
    spec.config.add_attribute("max_position_embeddings", config.max_position_embeddings)


def _pieces(
    tokenizer: PreTrainedTokenizerBase, size: int, side: str, differences: Differences
) -> list[str]:
    """The pieces in the order of their ids, one for each row of the embedding."""
    pieces = {token: piece for piece, token in tokenizer.get_vocab().items()}
    differences.refuse_if(
        max(pieces) >= size,
        f"the {side} tokenizer has ids up to {max(pieces)}, the model embeds {size} pieces",
    )
    return [pieces.get(token, f"<unused {token}>") for token in range(size)]


class _SpecBuilder:
    """Puts the weights of a model into the specification of CTranslate2.

    Args:
        model: in float32. The weights are not copied, and CTranslate2 quantizes in place.
    """

    def __init__(self, model: VaswaniForConditionalGeneration) -> None:
        self.specs = require("ctranslate2.specs.transformer_spec")
        self.common = require("ctranslate2.specs.common_spec")
        self.utils = require("ctranslate2.converters.utils")
        self.config: VaswaniConfig = model.config
        self.head_width = max(self.config.head_widths)
        # The head that `return_attention` tells of: the first one of this layer.
        alignment = {}
        if self.config.alignment_layer is not None:
            alignment = {"alignment_layer": self.config.alignment_layer, "alignment_heads": 1}
        encoder, decoder = (
            kind(
                num_layers,
                self.config.num_heads,
                pre_norm=self.config.final_norm,
                activation=self.common.Activation[ACTIVATIONS[self.config.activation_function]],
                head_dim=self.head_width,
                **options,
            )
            for kind, num_layers, options in (
                (self.specs.TransformerEncoderSpec, self.config.encoder_layers, {}),
                (self.specs.TransformerDecoderSpec, self.config.decoder_layers, alignment),
            )
        )
        with torch.no_grad():
            self.set_stack(encoder, encoder.embeddings[0], model.model.encoder)
            self.set_stack(decoder, decoder.embeddings, model.model.decoder)
            self.set_linear(decoder.projection, model.lm_head)
        self.spec = self.specs.TransformerSpec(encoder, decoder)

    def set_stack(self, spec: Any, embeddings: Any, stack: Any) -> None:
        embeddings.weight = stack.embed_tokens.weight.detach()
        spec.scale_embeddings = self.config.scale_embedding
        spec.position_encodings.encodings = (
            stack.embedding.positions.weight.detach()
            if self.config.position_encoding == "learned"
            else sinusoidal_positions(self.config.max_position_embeddings, self.config.d_model)
        )
        for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
            self.set_attention(layer_spec.self_attention, layer.self_attention)
            self.set_norm(layer_spec.self_attention.layer_norm, layer.self_attention_norm)
            if isinstance(layer, DecoderLayer):
                self.set_attention(layer_spec.attention, layer.cross_attention)
                self.set_norm(layer_spec.attention.layer_norm, layer.cross_attention_norm)
            self.set_linear(layer_spec.ffn.linear_0, layer.feed_forward.inner)
            self.set_linear(layer_spec.ffn.linear_1, layer.feed_forward.outer)
            self.set_norm(layer_spec.ffn.layer_norm, layer.feed_forward_norm)
        if self.config.final_norm:
            # Only pre-norm stacks have a place for it, but the engine applies it in either kind.
            self.set_norm(spec.layer_norm, stack.final_norm)
            spec.pre_norm = False

    def set_attention(self, spec: Any, attention: MultiHeadAttention) -> None:
        d_k, d_v = self.config.head_widths
        projections = [
            self.padded_projection(attention.query_proj, d_k),
            self.padded_projection(attention.key_proj, d_k),
            self.padded_projection(attention.value_proj, d_v),
        ]
        num_apart = 1 if attention.is_cross_attention else 0  # the queries
        if num_apart:
            self.utils.fuse_linear(spec.linear[0], projections[:num_apart])
        self.utils.fuse_linear(spec.linear[-2], projections[num_apart:])
        self.set_linear(spec.linear[-1], attention.output_proj)
        spec.linear[-1].weight = self.pad_heads(attention.output_proj.weight.T, d_v).T.contiguous()
        spec.queries_scale = attention.scaling  # of d_k, not of the padded width

    def padded_projection(self, projection: nn.Linear, width: int) -> Any:
        """A projection `(d_model, H * width)` with its heads padded to CTranslate2's width."""
        spec = self.common.LinearSpec()
        spec.weight = self.pad_heads(projection.weight, width)
        if projection.bias is not None:
            spec.bias = self.pad_heads(projection.bias, width)
        return spec

    def pad_heads(self, weight: Tensor, width: int) -> Tensor:
        """Pad `(H * width, ...)` to `(H * head_width, ...)` with zeros at the end of each head."""
        heads = weight.detach().unflatten(0, (-1, width))
        return torch.cat(
            (heads, heads.new_zeros(len(heads), self.head_width - width, *heads.shape[2:])), dim=1
        ).flatten(0, 1)

    def set_linear(self, spec: Any, linear: nn.Linear) -> None:
        spec.weight = linear.weight.detach()
        if linear.bias is not None:
            spec.bias = linear.bias.detach()

    def set_norm(self, spec: Any, norm: nn.LayerNorm) -> None:
        spec.gamma, spec.beta = norm.weight.detach(), norm.bias.detach()


__all__ = ["to_ctranslate2"]
