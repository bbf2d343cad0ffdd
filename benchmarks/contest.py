# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Ours and the library's Marian of one shape: models, a batch, the loss, the table of a contest.

The peer is `MarianMTModel`: post-norm, sinusoidal positions, tied embeddings, as ours. Its loss is
label smoothing over its logits as the library's `Seq2SeqTrainer` does it, by `LabelSmoother`; ours
is the model's own. Both get the same batch, the target shifted already.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel, PreTrainedModel
from transformers.trainer_pt_utils import LabelSmoother

from benchmarks.report import medians
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


OURS, PEER = "vaswani_hf", "MarianMTModel"
PAD, FIRST_PIECE = 1, 3  # ids; those below 3 are special
SMOOTHING = 0.1


def vaswani(config: VaswaniConfig) -> PreTrainedModel:
    """Ours, in training mode."""
    torch.manual_seed(0)
    return VaswaniForConditionalGeneration(config).train()


def marian(config: VaswaniConfig, *, use_cache: bool = False, seed: int = 0) -> PreTrainedModel:
    """The library's model of the same shape, in training mode."""
    torch.manual_seed(seed)
    shape = {
        **{"encoder_layers": config.encoder_layers, "decoder_layers": config.decoder_layers},
        **{"encoder_ffn_dim": config.d_ff, "decoder_ffn_dim": config.d_ff},
        **{"encoder_attention_heads": config.num_heads},
        **{"decoder_attention_heads": config.num_heads},
    }
    peer = MarianConfig(
        vocab_size=config.vocab_size,
        d_model=config.d_model,
        **shape,
        dropout=config.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=config.max_position_embeddings,
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
        forced_eos_token_id=None,
        use_cache=use_cache,
    )
    return MarianMTModel(peer).train()


MODELS = {OURS: vaswani, PEER: marian}


def draw_batch(
    vocab_size: int, sentences: int, tokens: int, padding_share: float, seed: int = 0
) -> dict[str, Tensor]:
    """Random pairs whose lengths fall evenly from `tokens`, so far that padding has its share.

    Args:
        vocab_size: V.
        sentences: B.
        tokens: S and T, the longest source and target.
        padding_share: of all positions, at most 0.5.
        seed: of pieces, and of which source stands beside which target.
    """
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.linspace(tokens, tokens * (1 - 2 * padding_share), sentences).round().long()
    drawn, real = [], []
    for _ in range(2):
        own = lengths[torch.randperm(sentences, generator=generator)]
        real.append(torch.arange(tokens) < own[:, None])
        shape = (sentences, tokens)
        drawn.append(torch.randint(FIRST_PIECE, vocab_size, shape, generator=generator))
    source, target = (ids.where(is_real, PAD) for ids, is_real in zip(drawn, real, strict=True))
    start = torch.full((sentences, 1), PAD)
    return {
        "input_ids": source,
        "attention_mask": real[0].long(),
        "labels": target.where(real[1], -100),
        "decoder_input_ids": torch.cat((start, target[:, :-1]), dim=1),
    }


def num_target_tokens(batch: Mapping[str, Tensor]) -> int:
    """Real ones: what speeds count."""
    return int((batch["labels"] >= 0).sum())


def smoothed_loss(model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
    """The loss that training goes down, of ours or of the peer."""
    if isinstance(model, VaswaniForConditionalGeneration):
        return model(**batch).loss
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    return LabelSmoother(epsilon=SMOOTHING)(model(**inputs), batch["labels"])


def adam(model: PreTrainedModel) -> torch.optim.Optimizer:
    """Section 5.3's, fused: what `optim: adamw_torch_fused`, the library's default, runs."""
    return torch.optim.Adam(model.parameters(), lr=1e-5, betas=(0.9, 0.98), eps=1e-9, fused=True)


def contest_rows(seconds: Mapping[str, list[float]], tokens: int) -> list[dict[str, Any]]:
    """Median seconds, tokens per second, and the ratio of speeds to the peer's."""
    times = medians(seconds)
    return [
        {
            "model": name,
            "median_seconds": round(median, 4),
            "target_tokens_per_second": round(tokens / median, 1),
            "times_marian": round(times[PEER] / median, 3),
        }
        for name, median in times.items()
    ]
