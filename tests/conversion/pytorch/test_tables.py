from collections.abc import Callable

import pytest
import torch

from tests.conversion.pytorch.models import (
    CLOSE,
    D_MODEL,
    HEADS,
    IDS,
    Translation,
    batch,
    convert,
    learned,
    logits_of,
    renamed,
    shared,
    tied_output,
)
from vaswani_hf.conversion.pytorch import vaswani_from_torch


def test_options_name_what_is_not_recognized() -> None:
    model, (source, target) = learned(), batch()
    tensors = renamed(
        model, src_tok_emb="a", tgt_tok_emb="b", generator="c", positional_encoding="d"
    )
    converted = vaswani_from_torch(
        tensors,
        num_heads=HEADS,
        source_embedding="a.embedding.weight",
        target_embedding="b.embedding.weight",
        output="c.weight",
        positions="d.pos_embedding",
        **IDS,
    )
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)


def test_logits_may_be_made_by_the_target_embedding_without_a_matrix_of_their_own() -> None:
    model, (source, target) = tied_output(), batch()
    model.generator.bias = None
    tensors = model.state_dict()
    del tensors["generator.weight"]
    converted = vaswani_from_torch(
        tensors, num_heads=HEADS, output="tgt_tok_emb.embedding.weight", **IDS
    )
    assert converted.config.tie_word_embeddings
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)


def test_one_embedding_without_a_side_serves_both() -> None:
    model, (source, target) = shared(), batch()
    tensors = renamed(model, src_tok_emb="token_embedding")
    del tensors["tgt_tok_emb.embedding.weight"]
    converted = vaswani_from_torch(tensors, num_heads=HEADS, **IDS)
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)


@pytest.mark.parametrize(
    ("build", "is_shared", "is_tied"),
    [(Translation, False, False), (tied_output, False, True), (shared, True, True)],
)
def test_matrices_are_tied_where_they_are_equal(
    build: Callable[[], Translation], is_shared: bool, is_tied: bool
) -> None:
    tensors = {name: tensor.clone() for name, tensor in build().state_dict().items()}
    config = vaswani_from_torch(tensors, num_heads=HEADS, **IDS).config
    assert (config.share_embeddings, config.tie_word_embeddings) == (is_shared, is_tied)


def test_the_tutorials_table_becomes_the_papers_sinusoids() -> None:
    config = convert(Translation()).config
    assert (config.position_encoding, config.max_position_embeddings) == ("sinusoidal", 5000)


def test_a_table_a_hundredth_off_is_carried_as_learned() -> None:
    model, (source, target) = Translation(), batch()
    model.positional_encoding.pos_embedding[3, 0, 5] += 0.01
    converted = convert(model)
    assert converted.config.position_encoding == "learned"
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("src_pos_emb.weight", "tgt_pos_emb.weight"), {}),
        (("encoder.pe", "decoder.pe"), {}),
        (("one", "two"), {"positions": "one", "target_positions": "two"}),
    ],
)
def test_each_side_keeps_its_own_learned_positions(
    names: tuple[str, str], options: dict[str, str]
) -> None:
    generator = torch.Generator().manual_seed(3)
    tables = {name: torch.randn(9, D_MODEL, generator=generator) for name in names}
    tensors = {**Translation(persistent=False).state_dict(), **tables}
    model = vaswani_from_torch(tensors, num_heads=HEADS, **IDS, **options).model
    for name, stack in zip(names, (model.encoder, model.decoder), strict=True):
        torch.testing.assert_close(stack.embedding.positions.weight.data, tables[name])
