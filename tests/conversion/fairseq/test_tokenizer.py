import json
import random
from pathlib import Path

import pytest
from transformers import AutoTokenizer, CTRLTokenizer

from tests.conversion.fairseq.archives import (
    EOS,
    MERGES,
    PAD,
    UNK,
    WORDS,
    codes_of,
    load,
    pieces_of,
    write_archive,
)
from vaswani_hf.conversion.fairseq import from_fairseq


def test_words_are_cut_by_the_codes_and_have_the_dictionarys_ids(tmp_path: Path) -> None:
    ids = write_archive(tmp_path / "archive", pieces_of(WORDS), codes_of(MERGES))
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "new")
    # By hand: lo|w</w> is the merge 4; l o w e r: lo, then low, then er</w>.
    cut = "low low@@ er newest t@@ w@@ i@@ n o"
    encoded = tokenizer("low lower newest twin o")
    assert encoded["input_ids"] == [*(ids[piece] for piece in cut.split()), EOS]
    assert list(encoded) == ["input_ids", "attention_mask"]
    assert tokenizer.model_max_length == 40  # the positions that the checkpoint has
    special = (tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id)
    assert (*special, tokenizer.unk_token_id) == (0, PAD, EOS, UNK)
    decoded = tokenizer.decode(encoded["input_ids"], skip_special_tokens=True)
    assert decoded == "low lower newest twin o"


@pytest.mark.parametrize("left_out", [(), ("es@@", "low@@", "w", "est")])
def test_ids_are_those_of_an_independent_encoder(tmp_path: Path, left_out: tuple[str, ...]) -> None:
    # The library's tokenizer of CTRL applies codes as subword-nmt does and looks its pieces up.
    pieces = pieces_of(WORDS, left_out)
    ids = write_archive(tmp_path / "archive", pieces, codes_of(MERGES))
    ids |= {"<unk>": UNK}
    (tmp_path / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    (tmp_path / "merges.txt").write_text(codes_of(MERGES), encoding="utf-8")
    ctrl = CTRLTokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "new")
    chooser = random.Random(0)
    letters = sorted(set("".join(WORDS)))
    words = ["".join(chooser.choices(letters, k=chooser.randint(1, 8))) for _ in range(300)]
    for word in [*WORDS, *words]:
        expected = ctrl.convert_tokens_to_ids(ctrl.tokenize(word))
        found = tokenizer(word)["input_ids"][:-1]
        assert [token if token < 4 + len(pieces) else UNK for token in found] == expected, word
        if UNK not in expected:
            assert tokenizer.decode(found) == word


def test_a_character_that_occurs_nowhere_is_unknown(tmp_path: Path) -> None:
    ids = write_archive(tmp_path / "archive", pieces_of(WORDS), codes_of(MERGES))
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    _, tokenizer = load(tmp_path / "new")
    found = tokenizer("o\u2603 \u2603\u2603 o")["input_ids"]
    assert found == [ids["o@@"], UNK, UNK, UNK, ids["o"], EOS]
    assert tokenizer.decode(found) == "o<unk> <unk> <unk> o </s>"
    assert tokenizer.decode(found, skip_special_tokens=True) == "oo"


def test_a_piece_that_would_be_called_as_a_special_one_is_refused(tmp_path: Path) -> None:
    pieces = (*pieces_of(WORDS), "<s>@@")
    write_archive(tmp_path / "archive", pieces, codes_of(MERGES))
    with pytest.raises(ValueError, match="'<s>@@' would get the name of another piece, '<s>'"):
        from_fairseq(tmp_path / "archive", tmp_path / "new")


def test_text_that_comes_cut_has_the_dictionarys_ids_and_is_joined(tmp_path: Path) -> None:
    ids = write_archive(tmp_path / "archive", pieces_of(WORDS), codes=None)
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    _, tokenizer = load(tmp_path / "new")
    cut = "low@@ er never low"
    found = tokenizer(cut)["input_ids"]
    assert found == [ids["low@@"], ids["er"], UNK, ids["low"], EOS]
    assert tokenizer.decode(found, skip_special_tokens=True) == "lower low"
