from argparse import Namespace
from pathlib import Path
from typing import Any

import torch

from tests.conversion.fairseq import reference
from tests.conversion.fairseq.archives import assert_refused, assert_same_logits
from vaswani_hf.conversion.fairseq import vaswani_from_fairseq


def test_names_of_before_2019_are_read(
    layers: reference.Layers, checkpoint: dict[str, Any]
) -> None:
    args = Namespace(share_all_embeddings=False)
    checkpoint["model"] = reference.old_names(checkpoint["model"], args)
    assert "decoder.embed_out" in checkpoint["model"]
    assert "encoder.layers.0.self_attn.in_proj_weight" in checkpoint["model"]
    assert "decoder.layers.0.layer_norms.2.bias" in checkpoint["model"]
    assert_same_logits(vaswani_from_fairseq(checkpoint), layers, reference.OTHER_PIECES)


def test_the_copies_for_pytorchs_fused_layer_are_passed_over(
    layers: reference.Layers, checkpoint: dict[str, Any]
) -> None:
    # What fairseq 0.12 writes beside the weights: zeros, as long as it trains.
    names = ("in_proj_weight", "in_proj_bias", "out_proj_weight", "out_proj_bias")
    for name in (*names, "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"):
        checkpoint["model"][f"encoder.layers.1.{name}"] = torch.zeros(3, 2)
    assert_same_logits(vaswani_from_fairseq(checkpoint), layers, reference.OTHER_PIECES)


def test_an_old_name_beside_its_new_one_is_refused(
    archive: Path, checkpoint: dict[str, Any]
) -> None:
    checkpoint["model"]["decoder.embed_out"] = torch.zeros(reference.OTHER_PIECES, 16)
    assert_refused(checkpoint, archive, r"decoder\.embed_out \(29, 16\) has no place")
