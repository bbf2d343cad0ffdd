# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Attention as a page of HTML: one file, which loads nothing from elsewhere."""

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ..translation.alignment import READS
from .attention import CROSS, DECODER, ENCODER, KINDS, Attention


if TYPE_CHECKING:
    import torch


TEMPLATE = Path(__file__).with_name("page.html")
LARGEST = 65535  # a weight of 1, as a whole number of two bytes


def attention_page(attention: Attention) -> str:
    """A page on which a reader chooses kind, layer and heads, and sees what each word looks at.

    It needs no network, follows the reader's light or dark colours, and works by mouse, finger and
    keyboard, from 390 pixels on. Weights are rounded to 1 / 65535.

    Args:
        attention: what `attention_of` has found.

    Returns:
        HTML, to be written as UTF-8.
    """
    said = "read" if attention.step == READS else "predicted"
    target = f"target, {said}"
    data = {
        "source": attention.source,
        "target": attention.target,
        "named": {
            ENCODER: ["source", "source"],
            DECODER: [target, "target"],
            CROSS: [target, "source"],
        },
        "explained": {
            ENCODER: "Encoder self-attention: source words look at source words.",
            DECODER: f"Decoder self-attention: target words, when they are {said}, look at those "
            f"read so far.",
            CROSS: f"Cross-attention: target words, when they are {said}, look at source words.",
        },
        "kinds": {
            kind: {
                "layers": attention.weights[kind].shape[0],
                "heads": attention.weights[kind].shape[1],
                "queries": attention.queries[kind],
                "keys": attention.keys[kind],
                "weights": _encoded(attention.weights[kind]),
            }
            for kind in KINDS
        },
    }
    # Nothing in the words may end the script that holds them.
    encoded = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    before, after = TEMPLATE.read_text(encoding="utf-8").split("DATA", 1)
    return f"{before}{encoded}{after}"


def _encoded(weights: "torch.Tensor") -> str:
    """Base64 of the weights in the order of the tensor, each two bytes, the lower one first."""
    whole = (weights.double().clamp(0, 1) * LARGEST).round().flatten().tolist()
    return base64.b64encode(b"".join(int(one).to_bytes(2, "little") for one in whole)).decode()


__all__ = ["attention_page"]
