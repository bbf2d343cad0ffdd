# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The tensors of a model: taken out of Marian's file, and put into one."""

import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ...configuration_vaswani import VaswaniConfig
from ...modeling_vaswani import VaswaniForConditionalGeneration
from ..positions import pairs_to_halves, permute_model_dimension
from ..tensors import TensorReader, build_model
from .names import OLD_OUTPUT, OUTPUT, OUTPUT_BIAS, SIDES, embedding_names, layer_names


MAX_POSITIONS = 1024
NEVER = -1e4  # a bias that leaves a piece no probability, in any dtype


def marian_positions(num_positions: int, d_model: int) -> Tensor:
    """The sinusoids of Marian, `(num_positions, d_model)` in float32.

    All sines, then all cosines, of p / 10000^(i / (d_model / 2 - 1)), where the paper has
    10000^(2i / d_model) (section 3.5).
    """
    half = d_model // 2
    position = torch.arange(num_positions, dtype=torch.float64).unsqueeze(1)
    angle = position / 10000 ** (torch.arange(half, dtype=torch.float64) / (half - 1))
    return torch.cat((angle.sin(), angle.cos()), dim=1).float()


def read_model(
    reader: TensorReader, fields: dict[str, Any], pad_token_id: int | None
) -> VaswaniForConditionalGeneration:
    """The model of a file, in float32 and evaluation mode.

    Args:
        reader: of the file's tensors.
        fields: of the configuration, all but those of vocabularies and padding.
        pad_token_id: id of a piece that stands for nothing else; `None` for a new one, after the
            last of both vocabularies.

    Raises:
        ValueError: if a tensor is missing, unexpected or of another shape, all listed.
    """
    d_model = fields["d_model"]
    names = embedding_names(fields["share_embeddings"])
    num_rows = [len(reader.tensors[name]) if name in reader.tensors else 1 for name in names]
    matrices = [
        reader.take(name, rows, d_model) for name, rows in zip(names, num_rows, strict=True)
    ]
    num_targets = num_rows[1]
    bias = torch.zeros(num_targets)
    if fields["output_bias"]:
        bias = reader.take(OUTPUT_BIAS, 1, num_targets)[0]
    if fields["tie_word_embeddings"]:
        output = matrices[1]
    elif OLD_OUTPUT in reader.tensors:
        output = reader.take(OLD_OUTPUT, d_model, num_targets).T
    else:
        output = reader.take(OUTPUT, num_targets, d_model)
    if pad_token_id is None:
        pad_token_id = max(num_rows)
        matrices = [_with_rows(matrix, pad_token_id + 1) for matrix in matrices]
        output = _with_rows(output, pad_token_id + 1)
        bias = F.pad(bias, (0, pad_token_id + 1 - num_targets), value=NEVER)
    config = VaswaniConfig(
        vocab_size=len(matrices[0]),
        target_vocab_size=len(matrices[1]),
        max_position_embeddings=MAX_POSITIONS,
        pad_token_id=pad_token_id,
        **fields | {"output_bias": True},
    )
    weights = {"lm_head.weight": output, "lm_head.bias": bias}
    if config.share_embeddings:
        weights["model.shared.weight"] = matrices[0]
    for side, matrix in zip(SIDES, matrices, strict=True):
        weights[f"model.{side}.embed_tokens.weight"] = matrix
        weights[f"model.{side}.embedding.positions.weight"] = marian_positions(
            MAX_POSITIONS, d_model
        )
    with torch.device("meta"):
        shapes = VaswaniForConditionalGeneration(config).state_dict()
    for ours, theirs, is_matrix in layer_names(config):
        shape = shapes[ours].shape
        if is_matrix:
            weights[ours] = reader.take(theirs, *reversed(shape)).T
        else:
            weights[ours] = reader.take(theirs, 1, *shape)[0]
    reader.refuse_rest()
    reader.differences.check()
    return build_model(config, weights)


def _with_rows(matrix: Tensor, num_rows: int) -> Tensor:
    """The matrix with rows of zeros after its own."""
    return F.pad(matrix, (0, 0, 0, num_rows - len(matrix)))


@torch.no_grad()
def write_tensors(
    model: VaswaniForConditionalGeneration, num_rows: tuple[int, int]
) -> dict[str, Tensor]:
    """The tensors of a file that holds a model, by their names, in float32 on the CPU.

    Args:
        model: left as it is.
        num_rows: how many pieces of source and target Marian is to have, the first ones.
    """
    config = model.config
    if config.position_encoding == "sinusoidal":
        model = copy.deepcopy(model)
        permute_model_dimension(model, pairs_to_halves(config.d_model))
    state = {name: tensor.detach().float().cpu() for name, tensor in model.state_dict().items()}
    target_rows = num_rows[1]
    tensors = {}
    names = embedding_names(config.share_embeddings)
    for side, name, rows in zip(SIDES, names, num_rows, strict=True):
        tensors[name] = state[f"model.{side}.embed_tokens.weight"][:rows].clone()
    bias = state.get("lm_head.bias", torch.zeros(config.num_target_pieces))[:target_rows].clone()
    if not config.tie_word_embeddings:
        tensors[OUTPUT] = state["lm_head.weight"][:target_rows]
    pad = config.pad_token_id
    if pad == config.decoder_start_token_id:  # Marian starts from zeros, and never writes padding
        for name in names:
            tensors[name][pad : pad + 1] = 0.0
        bias[pad : pad + 1] = NEVER
    tensors[OUTPUT_BIAS] = bias.unsqueeze(0)
    no_bias = torch.zeros(config.d_model)  # of attention
    for ours, theirs, is_matrix in layer_names(config):
        tensor = state.get(ours, no_bias)
        tensors[theirs] = tensor.T if is_matrix else tensor.unsqueeze(0)
    return {name: tensor.contiguous() for name, tensor in tensors.items()}
