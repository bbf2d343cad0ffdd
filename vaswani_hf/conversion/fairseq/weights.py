# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The tensors of a checkpoint, under the names of this model."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.utils import logging

from ...configuration_vaswani import VaswaniConfig
from ...generation_vaswani import POWER
from ...modeling_vaswani import VaswaniForConditionalGeneration
from ..differences import Differences
from ..tensors import TensorReader, build_model
from .dictionary import BOS_ID, EOS_ID, PAD_ID, SPECIAL_PIECES, UNK_ID
from .settings import ARCHITECTURES, _complete


logger = logging.get_logger(__name__)
# fairseq-generate's own, without options; `_generation` says how they are meant.
BEAMS, LENGTH_PENALTY, EXTRA_TOKENS = 5, 1.0, 200


# Its tensors


class Parts(NamedTuple):
    """A model's configuration and weights; the embeddings of both sides are there, even if one."""

    fields: dict[str, Any]
    weights: dict[str, Tensor]

    def build(self, num_unknown: int = 0) -> VaswaniForConditionalGeneration:
        """The model; `num_unknown` more source pieces have the embedding of `<unk>`."""
        fields, weights = dict(self.fields), dict(self.weights)
        if num_unknown:
            fields["share_embeddings"] = False
            fields["vocab_size"] += num_unknown
            name = "model.encoder.embed_tokens.weight"
            unknown = weights[name][UNK_ID].expand(num_unknown, -1)
            weights[name] = torch.cat((weights[name], unknown))
        elif fields["share_embeddings"]:
            weights["model.shared.weight"] = weights["model.encoder.embed_tokens.weight"]
        model = build_model(VaswaniConfig(**fields), weights)
        for entry, value in _generation().items():
            setattr(model.generation_config, entry, value)
        return model


def _generation() -> dict[str, Any]:
    """What `fairseq-generate` does without options, as entries of a generation config."""
    return {
        "num_beams": BEAMS,
        "length_penalty": LENGTH_PENALTY,  # --lenpen
        "length_penalty_type": POWER,
        "max_extra_tokens": EXTRA_TOKENS,  # --max-len-b, which does not count from the source's
        "early_stopping": True,
        "min_new_tokens": 1,  # --min-len: no hypothesis is `</s>` alone
        "suppress_tokens": [PAD_ID],  # never selected
    }


def read_parts(
    checkpoint: Mapping[str, Any], settings: Mapping[str, Any], differences: Differences
) -> Parts:
    """Configuration and weights of a checkpoint, with all that cannot be carried over noted.

    Raises:
        ValueError: if it is no checkpoint of a known architecture.
    """
    full = _complete(settings, differences)
    if full.get("arch") not in ARCHITECTURES:
        differences.check()
    state = checkpoint.get("model")
    if not isinstance(state, Mapping):
        differences.add('there is no state dict under "model"')
        state = {}
    tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    for name in state.keys() - tensors.keys():
        differences.add(f"{name} is of type {type(state[name]).__name__}, no tensor")
    reader = _Reader(_current_names(tensors), full, differences)
    fields = {
        "d_model": full["encoder_embed_dim"],
        "d_ff": full["encoder_ffn_embed_dim"],
        "num_heads": full["encoder_attention_heads"],
        "encoder_layers": full["encoder_layers"],
        "decoder_layers": full["decoder_layers"],
        "dropout": full["dropout"],
        "attention_dropout": full["attention_dropout"],
        "activation_dropout": full["activation_dropout"] or full["relu_dropout"],
        "activation_function": full["activation_fn"],
        "label_smoothing": full["label_smoothing"],
        "layer_norm_eps": 1e-5,  # PyTorch's
        "attention_bias": True,
        "scale_embedding": not full.get("no_scale_embedding", False),
        "pad_token_id": PAD_ID,
        "eos_token_id": EOS_ID,
        "bos_token_id": BOS_ID,
        "decoder_start_token_id": EOS_ID,
    }
    weights: dict[str, Tensor] = {}
    for part in (reader.embeddings(), reader.positions()):
        fields |= part.fields
        weights |= part.weights
    weights |= reader.layers()
    reader.refuse_rest()
    for side in ("encoder", "decoder"):
        share = full.get(f"{side}_layerdrop")
        if share:
            logger.warning(
                "%s_layerdrop=%s is not carried over: training on would leave out no layer.",
                *(side, share),
            )
    return Parts(fields, weights)


def _current_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict with the names of fairseq 0.12, without the tensors that carry nothing."""
    norms = {
        "encoder": ("self_attn_layer_norm", "final_layer_norm"),
        "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
    }
    current: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if _carries_nothing(name):
            continue
        renamed = {}
        if name == "decoder.embed_out":
            renamed = {"decoder.output_projection.weight": tensor}
        elif match := re.fullmatch(r"(.+_attn)\.in_proj_(weight|bias)", name):
            names = [f"{match[1]}.{part}_proj.{match[2]}" for part in "qkv"]
            if len(tensor) % 3 == 0:
                renamed = dict(zip(names, tensor.chunk(3), strict=True))
        elif match := re.fullmatch(r"(encoder|decoder)(\..+)\.layer_norms\.([012])(.+)", name):
            for norm in norms[match[1]][int(match[3]) :][:1]:
                renamed = {f"{match[1]}{match[2]}.{norm}{match[4]}": tensor}
        # One that has its newer name beside it keeps the older one, and then has no place.
        is_new = not renamed.keys() & tensors.keys()
        current |= renamed if renamed and is_new else {name: tensor}
    return current


def _carries_nothing(name: str) -> bool:
    """Whether a tensor is a mark of its version, a table that is computed anew, or a copy.

    Since 0.12 an encoder layer has a second set of weights for PyTorch's fused layer, which
    fairseq fills from the first when it loads a checkpoint.
    """
    copies = r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
    marks = r"(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights))"
    return re.fullmatch(f"{copies}|{marks}", name) is not None


def sinusoidal_table(num_positions: int, d_model: int) -> Tensor:
    """The sinusoids that fairseq adds at positions 0, 1, ..., `(num_positions, d_model)`.

    Sines, then cosines, of (p + 2) / 10000^(i / (d_model / 2 - 1)), where the paper has
    10000^(2i / d_model) (section 3.5); fairseq counts from the id after `<pad>`'s.
    """
    half = d_model // 2
    position = torch.arange(num_positions, dtype=torch.float64).unsqueeze(1) + PAD_ID + 1
    angle = position / 10000 ** (torch.arange(half, dtype=torch.float64) / (half - 1))
    odd = torch.zeros(num_positions, d_model % 2, dtype=torch.float64)
    return torch.cat((angle.sin(), angle.cos(), odd), dim=1).float()


class _Reader(TensorReader):
    """A checkpoint's tensors, read by the settings."""

    def __init__(
        self, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], differences: Differences
    ) -> None:
        super().__init__(tensors, differences)
        self.settings = settings

    def embeddings(self) -> Parts:
        """The source's, the target's and the pre-softmax matrix, and which of them are one."""
        share_all = bool(self.settings.get("share_all_embeddings", False))
        tied = share_all or bool(self.settings.get("share_decoder_input_output_embed", False))
        source = self.matrix("encoder.embed_tokens.weight")
        target = self.matrix("decoder.embed_tokens.weight")
        output = "decoder.output_projection.weight"
        weights = {
            "model.encoder.embed_tokens.weight": source,
            "model.decoder.embed_tokens.weight": target,
        }
        if share_all:
            self.refuse_unequal("decoder.embed_tokens.weight", target, source)
        if not tied:
            weights["lm_head.weight"] = self.take(output, *target.shape)
        elif output in self.tensors:  # before 0.10 there is none
            self.refuse_unequal(output, self.take(output, *target.shape), target)
        fields = {
            "vocab_size": len(source),
            "target_vocab_size": len(target),
            "share_embeddings": share_all,
            "tie_word_embeddings": tied,
        }
        return Parts(fields, weights)

    def matrix(self, name: str) -> Tensor:
        """An embedding `(V, d_model)` of any V; the checkpoint alone says how many pieces."""
        tensor = self.tensors.get(name)
        rows = len(tensor) if tensor is not None and tensor.ndim else 0
        width = self.settings[f"{name.split('.')[0]}_embed_dim"]
        return self.take(name, max(rows, len(SPECIAL_PIECES)), width)

    def refuse_unequal(self, name: str, tensor: Tensor, other: Tensor) -> None:
        if name in self.tensors and not torch.equal(tensor, other):
            key = (
                "share_all_embeddings"
                if self.settings.get("share_all_embeddings")
                else "share_decoder_input_output_embed"
            )
            self.differences.add(f"{name} is not the matrix that it is tied to, though {key}=True")

    def positions(self) -> Parts:
        """Both sides' tables, of the same length.

        Sinusoids last for the longer side's limit, a sequence beyond which fairseq refuses too; of
        learned positions there are no more than the shorter table's.
        """
        limits = {"encoder": "max_source_positions", "decoder": "max_target_positions"}
        has_none = self.settings.get("no_token_positional_embeddings", False)
        learned = {
            side: self.take(
                f"{side}.embed_positions.weight",
                self.settings[limit] + PAD_ID + 1,
                self.settings[f"{side}_embed_dim"],
            )[PAD_ID + 1 :]
            for side, limit in limits.items()
            if self.settings.get(f"{side}_learned_pos", False) and not has_none
        }
        longest = max(self.settings[limit] for limit in limits.values())
        length = min([len(table) for table in learned.values()], default=longest)
        if length < longest:
            logger.warning(
                "max_position_embeddings=%d: the shorter side has learned no more positions.",
                length,
            )
        weights = {}
        for side in limits:
            width = self.settings[f"{side}_embed_dim"]
            if has_none:
                table = torch.zeros(length, width)
            elif side in learned:
                table = learned[side][:length]
            else:
                table = sinusoidal_table(length, width)
            weights[f"model.{side}.embedding.positions.weight"] = table
        fields = {"position_encoding": "learned", "max_position_embeddings": length}
        return Parts(fields, weights)

    def layers(self) -> dict[str, Tensor]:
        """The weights of all layers, by their names here."""
        names = {"self_attn": "self_attention", "encoder_attn": "cross_attention"}
        projections = {"q": "query", "k": "key", "v": "value", "out": "output"}
        linears = {"fc1": "inner", "fc2": "outer"}
        weights = {}
        for side, layer in self.each_layer():
            here, there = f"model.{side}.layers.{layer}", f"{side}.layers.{layer}"
            d_model = self.settings[f"{side}_embed_dim"]
            d_ff = self.settings[f"{side}_ffn_embed_dim"]
            shapes = {"fc1": (d_ff, d_model), "fc2": (d_model, d_ff)}
            for theirs, ours in names.items():
                if side == "encoder" and theirs == "encoder_attn":
                    continue
                for short, long in projections.items():
                    for kind, shape in (("weight", (d_model, d_model)), ("bias", (d_model,))):
                        weights[f"{here}.{ours}.{long}_proj.{kind}"] = self.take(
                            f"{there}.{theirs}.{short}_proj.{kind}", *shape
                        )
                for kind in ("weight", "bias"):
                    weights[f"{here}.{ours}_norm.{kind}"] = self.take(
                        f"{there}.{theirs}_layer_norm.{kind}", d_model
                    )
            for theirs, ours in linears.items():
                for kind, shape in (("weight", shapes[theirs]), ("bias", shapes[theirs][:1])):
                    weights[f"{here}.feed_forward.{ours}.{kind}"] = self.take(
                        f"{there}.{theirs}.{kind}", *shape
                    )
            for kind in ("weight", "bias"):
                weights[f"{here}.feed_forward_norm.{kind}"] = self.take(
                    f"{there}.final_layer_norm.{kind}", d_model
                )
        return weights

    def each_layer(self) -> Iterator[tuple[str, int]]:
        for side in ("encoder", "decoder"):
            for layer in range(self.settings[f"{side}_layers"]):
                yield side, layer
