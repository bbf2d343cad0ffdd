# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""To CTranslate2, a fast engine for CPUs and GPUs that needs neither PyTorch nor transformers.

| Topic | CTranslate2 | Here |
|---|---|---|
| attention | one matrix for queries, keys and values; over the memory two | one each |
| heads | one width | `d_k` and `d_v`: the narrower is filled up with zeros |
| positions | a table, which ends | sinusoids are computed on demand |
| text | pieces, as strings | ids |
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, PreTrainedTokenizerBase

from ..configuration_vaswani import VaswaniConfig
from ..extras import require
from ..hub.download import find
from ..hub.folder import TARGET_TOKENIZER, check_folder
from ..modeling_vaswani import (
    DecoderLayer,
    MultiHeadAttention,
    VaswaniForConditionalGeneration,
    sinusoidal_positions,
)
from ..translation.loading import check_finite, load_tokenizers
from .differences import Differences, listed
from .folders import AnyPath, check_target, load_config, new_folder


ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swish": "SWISH"}
# What `CTranslate2Translator` does as a generation config says.
CARRIED_SETTINGS = (
    *("num_beams", "length_penalty", "length_penalty_type", "max_extra_tokens", "early_stopping"),
    *("bad_words_ids", "suppress_tokens", "eos_token_id", "decoder_start_token_id"),
    "renormalize_logits",  # CTranslate2 always does
)
# What changes no translation, or only one that is cut off at a limit, which is another here.
IDLE_SETTINGS = (
    *("transformers_version", "pad_token_id", "bos_token_id", "use_cache", "cache_implementation"),
    *("output_attentions", "output_hidden_states", "output_scores", "output_logits"),
    *("return_dict_in_generate", "max_length", "max_new_tokens", "forced_eos_token_id"),
)


def to_ctranslate2(source: AnyPath, target: AnyPath, *, quantization: str | None = None) -> None:
    """Write a folder of CTranslate2 that translates as a Vaswani folder does.

    The tokenizers and `generation_config.json` go with it, so that it is all that
    `CTranslate2Translator` needs. It holds `max_position_embeddings` positions, sinusoidal ones
    too, which do not grow there; for more of these, raise that entry of `config.json` and convert
    again.

    Args:
        source: a Vaswani folder or its id on the Hub, with its tokenizer, and that of the target in
            `target_tokenizer` where it has one of its own.
        target: a new folder.
        quantization: what the weights are stored in, one of CTranslate2's own: `"int8"`,
            `"int8_float32"`, `"int8_float16"`, `"int8_bfloat16"`, `"int16"`, `"float16"`,
            `"bfloat16"` or `"float32"`, which is also what `None` means.

    Raises:
        ValueError: if the source is no Vaswani model or lacks weights, if its tokenizer or
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
    differences = Differences(f"{source} to CTranslate2")
    found = find(source)
    model = _load(found, source, differences)
    tokenizer, target_tokenizer = load_tokenizers(found)
    _refuse_settings(model.generation_config, differences)
    spec = _SpecBuilder(model).spec
    _set_vocabularies(spec, model, tokenizer, target_tokenizer or tokenizer, differences)
    differences.check()

    converter = type("VaswaniConverter", (converters.Converter,), {"_load": lambda _: spec})()
    with new_folder(target) as folder:
        converter.convert(str(folder), quantization=quantization, force=True)
        model.generation_config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        if target_tokenizer is not None:
            target_tokenizer.save_pretrained(folder / TARGET_TOKENIZER)


def _load(
    folder: Path, source: AnyPath, differences: Differences
) -> VaswaniForConditionalGeneration:
    config = load_config(folder, source)
    differences.refuse_if(
        not isinstance(config, VaswaniConfig),
        f'model_type is "{config.model_type}", expected "{VaswaniConfig.model_type}"; '
        f"ct2-transformers-converter may know it",
    )
    differences.check()
    check_folder(folder, str(source))
    model = VaswaniForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    check_finite(model)
    return model.eval()


def _refuse_settings(config: GenerationConfig, differences: Differences) -> None:
    for name, value in config.to_diff_dict().items():
        is_known = name.startswith("_") or name in CARRIED_SETTINGS + IDLE_SETTINGS
        differences.refuse_if(
            not is_known,
            f"generation_config.json sets {name}={value!r}, which would be lost; take it out",
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
        differences.add(f"eos_token_id={end}; CTranslate2 has one piece that ends a translation")
        return
    spec.config.eos_token = spec.config.bos_token = target_pieces[end]
    start = generation.decoder_start_token_id
    if start is None:
        start = config.decoder_start_token_id
    spec.config.decoder_start_token = target_pieces[start]
    spec.config.unk_token = target_tokenizer.unk_token or target_pieces[config.pad_token_id]
    spec.config.layer_norm_epsilon = config.layer_norm_eps
    # CTranslate2 passes over what it does not know; `CTranslate2Translator` reads it.
    spec.config.add_attribute("max_position_embeddings", config.max_position_embeddings)


def _pieces(
    tokenizer: PreTrainedTokenizerBase, size: int, side: str, differences: Differences
) -> list[str]:
    """The pieces in the order of their ids, as many as the model has rows."""
    pieces = {token: piece for piece, token in tokenizer.get_vocab().items()}
    differences.refuse_if(
        max(pieces) >= size,
        f"the {side} tokenizer has ids up to {max(pieces)}, the model embeds {size} pieces",
    )
    return [pieces.get(token, f"<unused {token}>") for token in range(size)]


class _SpecBuilder:
    """The weights of a model, at the places that CTranslate2 gives them.

    Args:
        model: in float32. The weights are not copied, and CTranslate2 quantizes in place.
    """

    def __init__(self, model: VaswaniForConditionalGeneration) -> None:
        self.specs = require("ctranslate2.specs.transformer_spec")
        self.common = require("ctranslate2.specs.common_spec")
        self.utils = require("ctranslate2.converters.utils")
        self.config: VaswaniConfig = model.config
        self.head_width = max(self.config.head_widths)
        encoder, decoder = (
            kind(
                num_layers,
                self.config.num_heads,
                pre_norm=self.config.final_norm,
                activation=self.common.Activation[ACTIVATIONS[self.config.activation_function]],
                head_dim=self.head_width,
            )
            for kind, num_layers in (
                (self.specs.TransformerEncoderSpec, self.config.encoder_layers),
                (self.specs.TransformerDecoderSpec, self.config.decoder_layers),
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
            # A pre-norm stack has a place for it; the engine fills it in either kind.
            self.set_norm(spec.layer_norm, stack.final_norm)
            spec.pre_norm = False

    def set_attention(self, spec: Any, attention: MultiHeadAttention) -> None:
        d_k, d_v = self.config.head_widths
        projections = [
            self.widened(attention.query_proj, d_k),
            self.widened(attention.key_proj, d_k),
            self.widened(attention.value_proj, d_v),
        ]
        num_apart = 1 if attention.is_cross_attention else 0  # the queries
        if num_apart:
            self.utils.fuse_linear(spec.linear[0], projections[:num_apart])
        self.utils.fuse_linear(spec.linear[-2], projections[num_apart:])
        self.set_linear(spec.linear[-1], attention.output_proj)
        spec.linear[-1].weight = self.fill_heads(attention.output_proj.weight.T, d_v).T.contiguous()
        spec.queries_scale = attention.scaling  # by d_k, whatever the heads are filled up to

    def widened(self, projection: nn.Linear, width: int) -> Any:
        """A projection `(d_model, H * width)` whose heads are as wide as CTranslate2's."""
        spec = self.common.LinearSpec()
        spec.weight = self.fill_heads(projection.weight, width)
        if projection.bias is not None:
            spec.bias = self.fill_heads(projection.bias, width)
        return spec

    def fill_heads(self, weight: Tensor, width: int) -> Tensor:
        """Turn `(H * width, ...)` into `(H * head_width, ...)`, zeros at each head's end."""
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
