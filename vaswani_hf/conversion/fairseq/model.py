# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The model of a checkpoint, with the search of `fairseq-generate`."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...configuration_vaswani import VaswaniConfig
from ...modeling_vaswani import VaswaniForConditionalGeneration
from ...search_settings_vaswani import POWER
from ..tensors import build_model
from .dictionary import PAD_ID, UNK_ID


# What `fairseq-generate` uses without options.
BEAMS, LENGTH_PENALTY, EXTRA_TOKENS = 5, 1.0, 200


class Parts(NamedTuple):
    """Fields of a model's configuration, and weights by their names here.

    A finished `Parts` has the embeddings of both sides, also where the sides share one.
    """

    fields: dict[str, Any]
    weights: dict[str, Tensor]

    def build(self, num_unknown: int = 0) -> VaswaniForConditionalGeneration:
        """The model, with `num_unknown` more source pieces that have the embedding of `<unk>`."""
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
        for entry, value in fairseq_search().items():
            setattr(model.generation_config, entry, value)
        return model


def fairseq_search() -> dict[str, Any]:
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
