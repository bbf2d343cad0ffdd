import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conversion.fairseq import reference
from tests.conversion.fairseq.archives import assert_refused, assert_same_logits, write_dictionary
from vaswani_hf.conversion.fairseq import vaswani_from_fairseq


@pytest.mark.parametrize("is_tied", [False, True])
def test_logits_are_those_of_pytorchs_layers(is_tied: bool) -> None:
    torch.manual_seed(0)
    layers = reference.Layers(is_tied).eval()
    model = vaswani_from_fairseq(layers.checkpoint())
    pieces = reference.PIECES if is_tied else reference.OTHER_PIECES
    assert_same_logits(model, layers, pieces)
    assert model.config.share_embeddings is is_tied
    assert model.config.tie_word_embeddings is is_tied


def test_weights_in_half_precision_become_single_precision(checkpoint: dict[str, Any]) -> None:
    checkpoint["model"] = {name: tensor.half() for name, tensor in checkpoint["model"].items()}
    model = vaswani_from_fairseq(checkpoint)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_sinusoids_last_for_the_longer_side(checkpoint: dict[str, Any]) -> None:
    model = vaswani_from_fairseq(checkpoint)
    assert model.config.max_position_embeddings == 40  # of 30 and 40
    for stack in (model.model.encoder, model.model.decoder):
        table = stack.embedding.positions.weight
        for position, dimension in ((0, 0), (1, 7), (17, 8), (39, 15)):
            expected = reference.sinusoid(position, dimension, 16)
            assert table[position, dimension].item() == pytest.approx(expected, abs=1e-6)


def test_layers_that_training_left_out_are_warned_of(
    checkpoint: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint["args"].encoder_layerdrop = 0.2
    vaswani_from_fairseq(checkpoint)
    assert "encoder_layerdrop=0.2 is not carried over" in caplog.text


def test_learned_positions_begin_after_the_padding_and_end_with_the_shorter_side(
    checkpoint: dict[str, Any],
) -> None:
    args, state = checkpoint["args"], checkpoint["model"]
    args.encoder_learned_pos = args.decoder_learned_pos = True
    del state["encoder.embed_positions._float_tensor"]
    state["encoder.embed_positions.weight"] = source = torch.randn(32, 16)
    state["decoder.embed_positions.weight"] = target = torch.randn(42, 16)
    model = vaswani_from_fairseq(checkpoint)
    assert model.config.max_position_embeddings == 30
    # fairseq's first position is that of the id after <pad>'s: row 2
    assert torch.equal(model.model.encoder.embedding.positions.weight, source[2:])
    assert torch.equal(model.model.decoder.embedding.positions.weight, target[2:32])


def test_all_differences_come_at_once(archive: Path, checkpoint: dict[str, Any]) -> None:
    args, state = checkpoint["args"], checkpoint["model"]
    args.encoder_normalize_before = True
    args.cross_self_attention = True
    state["encoder.layer_norm.weight"] = torch.ones(16)
    state["decoder.layers.0.fc1.bias"] = torch.ones(23)
    del state["encoder.layers.1.self_attn.k_proj.bias"]
    write_dictionary(archive / "dict.de.txt", 30)
    message = (
        r"(?s)model\.pt: 6 differences.*encoder_normalize_before=True.*cross_self_attention=True"
        r".*encoder\.layers\.1\.self_attn\.k_proj\.bias is missing"
        r".*decoder\.layers\.0\.fc1\.bias has shape \(23,\), expected \(24,\)"
        r".*encoder\.layer_norm\.weight \(16,\) has no place"
        r".*dict\.de\.txt has 30 pieces, .*encoder\.embed_tokens\.weight has 37 rows"
    )
    assert_refused(checkpoint, archive, message, number=6)


def test_tied_matrices_that_differ_are_refused(archive: Path) -> None:
    torch.manual_seed(0)
    checkpoint = reference.Layers(is_tied=True).checkpoint()
    shutil.copyfile(archive / "dict.de.txt", archive / "dict.en.txt")
    checkpoint["model"]["decoder.output_projection.weight"][5, 5] += 1
    message = r"decoder\.output_projection\.weight is not the .* though share_all_embeddings=True"
    assert_refused(checkpoint, archive, message)


def test_a_checkpoint_without_weights_is_refused(archive: Path, checkpoint: dict[str, Any]) -> None:
    del checkpoint["model"]
    assert_refused(checkpoint, archive, 'there is no state dict under "model"', number=None)
