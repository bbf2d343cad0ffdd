import pytest
import torch

from tests.conversion.pytorch.models import (
    CLOSE,
    HEADS,
    IDS,
    Translation,
    annotated_transformer,
    batch,
    logits_of,
)
from vaswani_hf.conversion.pytorch import vaswani_from_torch


def test_stacks_are_found_under_any_prefix() -> None:
    model, (source, target) = Translation(), batch()
    tensors = {f"_orig_mod.net.{name}": tensor for name, tensor in model.state_dict().items()}
    converted = vaswani_from_torch(tensors, num_heads=HEADS, **IDS)
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)


def test_stacks_may_have_prefixes_of_their_own() -> None:
    model, (source, target) = Translation(), batch()
    tensors = {
        name.replace("transformer.encoder.", "encoder.trunk.").replace("transformer.", ""): tensor
        for name, tensor in model.state_dict().items()
    }
    assert "encoder.trunk.layers.0.self_attn.in_proj_weight" in tensors
    converted = vaswani_from_torch(tensors, num_heads=HEADS, **IDS)
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)


def test_the_annotated_transformer_is_refused_with_both_reasons() -> None:
    with pytest.raises(ValueError, match="Annotated Transformer") as refusal:
        vaswani_from_torch(annotated_transformer(), num_heads=HEADS, **IDS)
    reasons = str(refusal.value)
    assert "normalizes before each sub-layer (pre-norm)" in reasons
    assert "unbiased standard deviation plus epsilon" in reasons
    assert "no exact conversion exists" in reasons
