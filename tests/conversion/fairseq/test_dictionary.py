from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from tests.conversion.fairseq import reference
from vaswani_hf.conversion.fairseq import from_fairseq


def test_a_missing_dictionary_is_named(archive: Path, tmp_path: Path) -> None:
    (archive / "dict.en.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"dict\.en\.txt does not exist; give target_dict"):
        from_fairseq(archive, tmp_path / "new")


def test_dictionaries_without_known_languages_must_be_told_apart(
    archive: Path, checkpoint: dict[str, Any], tmp_path: Path
) -> None:
    del checkpoint["args"].source_lang, checkpoint["args"].target_lang
    torch.save(checkpoint, archive / "model.pt")
    with pytest.raises(ValueError, match=r"has dict\.de\.txt, dict\.en\.txt.*source_language"):
        from_fairseq(archive, tmp_path / "new")
    from_fairseq(archive, tmp_path / "new", source_language="de", target_language="en")
    assert AutoTokenizer.from_pretrained(tmp_path / "new").vocab_size == reference.PIECES


def test_one_dictionary_named_serves_both_sides(archive: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    torch.save(reference.Layers(is_tied=True).checkpoint(), archive / "model.pt")
    (archive / "dict.de.txt").rename(tmp_path / "both.txt")
    from_fairseq(archive, tmp_path / "new", source_dictionary=tmp_path / "both.txt")
    assert not (tmp_path / "new" / "target_tokenizer").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("word", r"dict\.de\.txt, line 2 must be PIECE COUNT, got 'word'"),
        ("word many", r"dict\.de\.txt, line 2 must be PIECE COUNT, got 'word many'"),
        ("one 5", r"dict\.de\.txt, line 2: 'one' occurs twice"),
    ],
)
def test_a_line_that_is_no_entry_of_a_dictionary_is_refused(
    archive: Path, tmp_path: Path, line: str, message: str
) -> None:
    (archive / "dict.de.txt").write_text(f"one 7\n{line}\n")
    with pytest.raises(ValueError, match=message):
        from_fairseq(archive, tmp_path / "new")
