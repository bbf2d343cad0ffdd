import pytest
import torch

from tests.conversion.pytorch.models import CLOSE, HEADS, IDS, batch, learned, logits_of, renamed
from vaswani_hf.conversion.pytorch import vaswani_from_torch


@pytest.mark.parametrize(
    ("source_name", "target_name", "output_name", "positions_name"),
    [
        ("src_embed.0", "trg_embed.0", "fc_out", "pe"),
        ("encoder.embedding", "decoder.embedding", "decoder.output", "pos_encoder"),
        ("enc_emb", "dec_emb", "out", "position_table"),
    ],
)
def test_common_names_are_recognized(
    source_name: str, target_name: str, output_name: str, positions_name: str
) -> None:
    model, (source, target) = learned(), batch()  # whose positions must be found, not supposed
    tensors = renamed(
        model,
        src_tok_emb=source_name,
        tgt_tok_emb=target_name,
        generator=output_name,
        positional_encoding=positions_name,
    )
    converted = vaswani_from_torch(tensors, num_heads=HEADS, **IDS)
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)
