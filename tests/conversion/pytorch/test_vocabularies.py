from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from tests.conversion.pytorch.models import (
    HEADS,
    PAD,
    SOURCE_PIECES,
    TARGET_PIECES,
    Translation,
    convert,
    tokenizer_of,
)
from vaswani_hf.conversion.pytorch import from_torch


def test_tokenizers_of_both_sides_come_along_and_give_the_ids(tmp_path: Path) -> None:
    torch.save(Translation().state_dict(), tmp_path / "m.pt")
    tokenizer_of(SOURCE_PIECES).save_pretrained(tmp_path / "source")
    from_torch(
        tmp_path / "m.pt",
        tmp_path / "folder",
        num_heads=HEADS,
        tokenizer=tmp_path / "source",
        target_tokenizer=tokenizer_of(TARGET_PIECES),
    )
    config = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "folder").generation_config
    assert (config.pad_token_id, config.decoder_start_token_id, config.eos_token_id) == (1, 2, 3)
    assert len(AutoTokenizer.from_pretrained(tmp_path / "folder")) == SOURCE_PIECES
    assert len(AutoTokenizer.from_pretrained(tmp_path / "folder/target_tokenizer")) == TARGET_PIECES


def test_given_ids_go_before_the_tokenizers() -> None:
    tokenizer = tokenizer_of(SOURCE_PIECES)
    model = Translation(target_pieces=SOURCE_PIECES)
    config = convert(model, tokenizer=tokenizer, decoder_start_token_id=PAD).config
    assert config.decoder_start_token_id == PAD


def test_a_vocabulary_smaller_than_its_matrix_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    convert(Translation(target_pieces=SOURCE_PIECES), tokenizer=tokenizer_of(SOURCE_PIECES - 2))
    assert f"source embedding has {SOURCE_PIECES} rows and its tokenizer 29" in caplog.text
