# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""One head of the decoder learns to align words (Garg et al. 2019).

"Jointly Learning to Align and Translate with Transformer Models". As there, the head is one of the
last layer but one, it learns at the step that predicts a target piece, and target pieces without a
link are left out. Otherwise than there, links are of words and given to all their pieces, and there
is no pass that sees later target pieces: the model aligns while it translates.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from vaswani_hf import VaswaniConfig
from vaswani_hf.loss_vaswani import accumulation_dtype, per_token
from vaswani_hf.modeling_vaswani import MultiHeadAttention, VaswaniDecoder

from ..settings.fields import VaswaniTrainingArguments


def choose_head(config: VaswaniConfig, training: VaswaniTrainingArguments) -> None:
    """Write into a configuration which head learns alignments.

    Raises:
        ValueError: if the decoder has no such head.
    """
    layer, head = training.guided_alignment_layer, training.guided_alignment_head
    if layer is None:
        layer = config.alignment_layer
    if layer is None:
        layer = max(config.decoder_layers - 2, 0)
    if head is None:
        head = config.alignment_head or 0
    for name, place, count in [
        ("guided_alignment_layer", layer, config.decoder_layers),
        ("guided_alignment_head", head, config.num_heads),
    ]:
        if place >= count:
            raise ValueError(f"{name} must be from 0 to {count - 1} for this model, got {place}.")
    config.alignment_layer, config.alignment_head = layer, head


class GuidedAlignment:
    """The loss of the head that a model's configuration names.

    Queries and keys are taken as the head's layer makes them, so that every layer keeps its fast
    attention; the weights of this one head are computed beside it.

    Args:
        model: is trained.
        weight: factor of the loss, lambda.
    """

    def __init__(self, model: nn.Module, weight: float) -> None:
        (decoder,) = (part for part in model.modules() if isinstance(part, VaswaniDecoder))
        config = decoder.config
        layer, head = cast(int, config.alignment_layer), cast(int, config.alignment_head)
        self.attention = cast(MultiHeadAttention, decoder.layers[layer].cross_attention)
        width, _ = config.head_widths
        self.columns = slice(head * width, (head + 1) * width)
        self.weight = weight
        self._made: dict[str, Tensor] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Keep the queries and keys of the passes inside, the last one's."""
        hooks = [
            getattr(self.attention, name).register_forward_hook(partial(self._keep, name))
            for name in ("query_proj", "key_proj")
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _keep(self, name: str, layer: nn.Module, inputs: Any, output: Tensor) -> None:
        self._made[name] = output[..., self.columns]

    def loss(
        self,
        links: Tensor,
        attention_mask: Tensor,
        labels: Tensor,
        num_items_in_batch: int | Tensor | None = None,
    ) -> Tensor:
        """Cross-entropy of where the head looked, against the links, in the pass that was watched.

        The target of a linked piece is even over its source pieces.

        Args:
            links: `(links, 3)`: a pair of the batch, a source piece and a target piece.
            attention_mask: `(B, S)`, nonzero at real source pieces.
            labels: `(B, T)`; -100 does not count.
            num_items_in_batch: as `per_token` has it.

        Returns:
            A scalar: nats per target token, of those without a link too, times the weight.
        """
        query, key = self._made.pop("query_proj"), self._made.pop("key_proj")
        scores = query @ key.transpose(1, 2) * self.attention.scaling  # (B, T, S)
        scores = scores.to(accumulation_dtype(scores.dtype))
        is_padding = attention_mask.eq(0).unsqueeze(1)
        log_weights = scores.masked_fill(is_padding, -torch.inf).log_softmax(dim=-1)
        pair, source, target = links.unbind(dim=1)
        piece = pair * labels.shape[1] + target
        num_links = piece.bincount(minlength=labels.numel())  # of each target piece
        total = -(log_weights[pair, target, source] / num_links[piece]).sum()
        return self.weight * per_token(total, labels, num_items_in_batch)
