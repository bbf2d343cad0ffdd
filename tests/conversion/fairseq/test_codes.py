from pathlib import Path
from typing import Any

import pytest

from tests.conversion.fairseq.archives import (
    EOS,
    MERGES,
    UNK,
    WORDS,
    assert_refused,
    codes_of,
    load,
    pieces_of,
    write_archive,
)
from vaswani_hf.conversion.fairseq import from_fairseq


def test_text_cut_by_sentencepiece_is_refused_unless_it_comes_cut(
    archive: Path, checkpoint: dict[str, Any], tmp_path: Path
) -> None:
    (archive / "sentencepiece.bpe.model").write_bytes(b"")
    message = r"sentencepiece\.bpe\.model segments the text.*is_segmented=True"
    assert_refused(checkpoint, archive, message)
    from_fairseq(archive, tmp_path / "new", is_segmented=True)
    assert (tmp_path / "new" / "tokenizer.json").is_file()


def test_codes_of_fastbpe_are_those_of_subword_nmt_with_counts(tmp_path: Path) -> None:
    found = []
    for name, codes in (
        ("subword-nmt", codes_of(MERGES)),
        ("fastbpe", codes_of(MERGES, header="", count=" 17")),
    ):
        write_archive(tmp_path / name, pieces_of(WORDS), codes)
        from_fairseq(tmp_path / name, tmp_path / f"new {name}")
        found.append((tmp_path / f"new {name}" / "tokenizer.json").read_bytes())
    assert found[0] == found[1]


def test_in_codes_of_before_2017_the_end_of_a_word_is_a_symbol_of_its_own(tmp_path: Path) -> None:
    # subword-nmt 0.1: "low" is l o w </w>. The merges l o, lo w, low </w>, e r, x </w>, q </w>.
    merges = ["l o", "lo w", "low </w>", "e r", "x </w>", "q </w>"]
    pieces = ("low", "low@@", "er", "x", "o@@", "o", "l@@", "er@@")
    ids = write_archive(tmp_path / "archive", pieces, codes_of(merges, header=""), is_tied=False)
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    _, tokenizer = load(tmp_path / "new")
    # By hand, and by subword-nmt 0.3.8: "er" is merged before the end, which then merges with
    # nothing and falls away; "q" is not in the dictionary, nor is the snowman.
    cut = "low low@@ er x o@@ o <unk> o@@ <unk> o l@@ er@@ low"
    text = "low lower x oo q o\u2603 o lerlow"
    found = [token if token < 4 + len(pieces) else UNK for token in tokenizer(text)["input_ids"]]
    assert found == [*((ids | {"<unk>": UNK})[piece] for piece in cut.split()), EOS]
    text = "low lower x oo o lerlow"
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


def test_merges_are_split_at_spaces_only_and_the_first_of_two_counts(tmp_path: Path) -> None:
    # A merge of no-break spaces, as codes of real text have it, and "n e" again at the end.
    merges = ["\u00a0 \u00a0", "n e", "e w</w>", "n e"]
    pieces = ("ne@@", "n@@", "ew", "w", "\u00a0@@")
    ids = write_archive(tmp_path / "archive", pieces, codes_of(merges), is_tied=False)
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    _, tokenizer = load(tmp_path / "new")
    assert tokenizer("new")["input_ids"] == [ids["ne@@"], ids["w"], EOS]


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ("#version: 0.2\na b\na b c\n", r"bpecodes, line 3 must be two pieces.*got 'a b c'"),
        ("#version: 0.2\nab\n", r"bpecodes, line 2 must be two pieces, got"),
        ("a b 9\nab c\n", r"bpecodes, line 2 must be two pieces and a count, got 'ab c'"),
        ("a b 9\nab c d\n", r"bpecodes, line 2 must be two pieces and a count, got 'ab c d'"),
        ("#version: 0.3\na b\n", r"must be of version 0\.1 or 0\.2 of subword-nmt, got 0\.3"),
        ("#version: 0.2\n", r"bpecodes holds no codes"),
        ("#version: 0.2\n< s\n<s >\n", r"make '<s>', which is a special piece"),
    ],
)
def test_codes_that_are_none_are_refused(tmp_path: Path, codes: str, message: str) -> None:
    write_archive(tmp_path / "archive", pieces_of(WORDS), codes)
    with pytest.raises(ValueError, match=message):
        from_fairseq(tmp_path / "archive", tmp_path / "new")
    assert not (tmp_path / "new").exists()
