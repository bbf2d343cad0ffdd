# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The tensors of a checkpoint, under the names of this model."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers.utils import logging

from ..differences import Differences
from ..tensors import TensorReader
from .dictionary import BOS_ID, EOS_ID, PAD_ID, SPECIAL_PIECES
from .model import Parts
from .names import current_names
from .settings import ARCHITECTURES, complete_settings


logger = logging.get_logger(__name__)


def read_parts(
    checkpoint: Mapping[str, Any], settings: Mapping[str, Any], differences: Differences
) -> Parts:
    """Configuration and weights of a checkpoint; what cannot be carried over is noted.

    Raises:
        ValueError: if it is no checkpoint of a known architecture.
    """
    full = complete_settings(settings, differences)
    if full.get("arch") not in ARCHITECTURES:
        differences.check()
    state = checkpoint.get("model")
    if not isinstance(state, Mapping):
        differences.add('there is no state dict under "model"')
        state = {}
    tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    for name in state.keys() - tensors.keys():
        differences.add(f"{name} is of type {type(state[name]).__name__}, no tensor")
    reader = CheckpointReader(current_names(tensors), full, differences)
    fields = _config_fields(full)
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
                "%s_layerdrop=%s is not carried over: further training drops no layers.",
                *(side, share),
            )
    return Parts(fields, weights)


def _config_fields(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the configuration that do not come from tensors."""
    return {
        "d_model": settings["encoder_embed_dim"],
        "d_ff": settings["encoder_ffn_embed_dim"],
        "num_heads": settings["encoder_attention_heads"],
        "encoder_layers": settings["encoder_layers"],
        "decoder_layers": settings["decoder_layers"],
        "dropout": settings["dropout"],
        "attention_dropout": settings["attention_dropout"],
        "activation_dropout": settings["activation_dropout"] or settings["relu_dropout"],
        "activation_function": settings["activation_fn"],
        "label_smoothing": settings["label_smoothing"],
        "layer_norm_eps": 1e-5,  # PyTorch's
        "attention_bias": True,
        "scale_embedding": not settings.get("no_scale_embedding", False),
        "pad_token_id": PAD_ID,
        "eos_token_id": EOS_ID,
        "bos_token_id": BOS_ID,
        "decoder_start_token_id": EOS_ID,
    }


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


class CheckpointReader(TensorReader):
    """A checkpoint's tensors, read as its settings say."""

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

        Sinusoids reach to the longer side's limit; fairseq refuses longer sequences too. Learned
        tables are cut to the shorter one.
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
                "max_position_embeddings=%d: one side has learned no more positions.", length
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
        weights: dict[str, Tensor] = {}
        for side in ("encoder", "decoder"):
            for layer in range(self.settings[f"{side}_layers"]):
                weights |= self.layer(
                    side, f"{side}.layers.{layer}", f"model.{side}.layers.{layer}"
                )
        return weights

    def layer(self, side: str, there: str, here: str) -> dict[str, Tensor]:
        d_model, d_ff = self.settings[f"{side}_embed_dim"], self.settings[f"{side}_ffn_embed_dim"]
        attentions = {"self_attn": "self_attention"}
        if side == "decoder":
            attentions["encoder_attn"] = "cross_attention"
        projections = {"q": "query", "k": "key", "v": "value", "out": "output"}
        weights: dict[str, Tensor] = {}
        for theirs, ours in attentions.items():
            for short, long in projections.items():
                weights |= self.take_affine(
                    f"{there}.{theirs}.{short}_proj", f"{here}.{ours}.{long}_proj", d_model, d_model
                )
            weights |= self.take_affine(
                f"{there}.{theirs}_layer_norm", f"{here}.{ours}_norm", d_model
            )
        inner, outer = f"{here}.feed_forward.inner", f"{here}.feed_forward.outer"
        weights |= self.take_affine(f"{there}.fc1", inner, d_ff, d_model)
        weights |= self.take_affine(f"{there}.fc2", outer, d_model, d_ff)
        norm = f"{here}.feed_forward_norm"
        return weights | self.take_affine(f"{there}.final_layer_norm", norm, d_model)
