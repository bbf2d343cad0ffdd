"""Checkpoints of fairseq, against fairseq itself.

fairseq is no dependency: the source distribution of its last release is fetched once into the
temporary folder of this machine, and its model is run in a process of its own. Without a network
and without that copy, the tests that need it skip; the others compare with PyTorch's own layers.
"""

import os
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from tests.conversion.fairseq import reference
from tests.conversion.fairseq.archives import (
    CLOSE,
    EOS,
    MERGES,
    PAD,
    UNK,
    WORDS,
    assert_refused,
    batch_of,
    codes_of,
    load,
    logits_of,
    pieces_of,
    write_archive,
    write_dictionary,
)
from tests.conversion.fairseq.fetching import fetch_fairseq
from vaswani_hf import VaswaniForConditionalGeneration
from vaswani_hf.conversion.fairseq import from_fairseq, vaswani_from_fairseq


@pytest.fixture(scope="module")
def fairseq_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint of each case, and what fairseq makes of it."""
    fetched = fetch_fairseq()
    folder = tmp_path_factory.mktemp("fairseq")
    result = subprocess.run(
        [sys.executable, str(reference.__file__), str(fetched), str(folder)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return folder


def converted(folder: Path, case: str) -> tuple[VaswaniForConditionalGeneration, dict[str, Any]]:
    """The model of a case, and fairseq's results."""
    with torch.serialization.safe_globals([Namespace]):
        checkpoint = torch.load(folder / f"{case}.pt", weights_only=True)
    results = torch.load(folder / f"{case}.results", weights_only=True)
    return vaswani_from_fairseq(checkpoint), results


@pytest.mark.parametrize("case", reference.CASES)
def test_logits_are_those_of_fairseq(fairseq_results: Path, case: str) -> None:
    model, results = converted(fairseq_results, case)
    assert results["source"].eq(PAD).any(dim=1).sum() > 1  # padded on the left, by fairseq's habit
    found = logits_of(model, results["source"], results["target"])
    is_real = results["target"].ne(PAD)
    torch.testing.assert_close(found[is_real], results["logits"][is_real], **CLOSE)


@pytest.mark.parametrize("case", reference.CASES)
def test_translations_are_those_of_fairseq(fairseq_results: Path, case: str) -> None:
    model, results = converted(fairseq_results, case)
    mask = results["source"].ne(PAD).long()
    for exponent, expected in results["translations"].items():
        # 1.0 is fairseq's own, and all the rest comes from the generation config.
        penalty = {} if exponent == 1.0 else {"length_penalty": exponent}
        found = model.generate(
            results["source"],
            attention_mask=mask,
            return_dict_in_generate=True,
            output_scores=True,
            **penalty,
        )
        ids = [[token for token in row if token != PAD] for row in found.sequences[:, 1:].tolist()]
        assert ids == [best for best, _ in expected]
        scores = torch.tensor([score for _, score in expected])
        torch.testing.assert_close(found.sequences_scores, scores, **CLOSE)


def test_a_folder_of_fairseqs_own_checkpoint_loads_and_computes_the_same(
    fairseq_results: Path, tmp_path: Path
) -> None:
    case = "iwslt, no embeddings one"
    write_dictionary(tmp_path / "dict.de.txt", reference.PIECES)
    write_dictionary(tmp_path / "dict.en.txt", reference.OTHER_PIECES)
    shutil.copyfile(fairseq_results / f"{case}.pt", tmp_path / "model.pt")
    from_fairseq(tmp_path, tmp_path / "new")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "new")
    _, results = converted(fairseq_results, case)
    found = logits_of(model, results["source"], results["target"])
    is_real = results["target"].ne(PAD)
    torch.testing.assert_close(found[is_real], results["logits"][is_real], **CLOSE)


def test_one_embedding_with_two_dictionaries_is_refused(archive: Path) -> None:
    torch.manual_seed(0)
    checkpoint = reference.Layers(is_tied=True).checkpoint()
    write_dictionary(archive / "dict.en.txt", reference.PIECES, ("another",))
    message = r"share_all_embeddings=True needs one dictionary, but .*dict\.de\.txt and .*dict\.en"
    assert_refused(checkpoint, archive, message)


def test_a_target_that_exists_is_left_alone(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").write_text("mine")
    with pytest.raises(FileExistsError, match="name a new folder"):
        from_fairseq(archive, tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["mine"]


@pytest.mark.parametrize("is_tied", [False, True])
def test_pieces_outside_the_dictionary_are_read_as_unknown(
    tmp_path: Path, is_tied: bool, caplog: pytest.LogCaptureFixture
) -> None:
    left_out = ("es@@", "low@@", "w", "est")
    pieces = pieces_of(WORDS, left_out)
    write_archive(tmp_path / "archive", pieces, codes_of(MERGES), is_tied)
    from_fairseq(tmp_path / "archive", tmp_path / "cutting")
    # The four left out: all else that the merges make is in the dictionary.
    assert "4 pieces that the codes make are not in" in caplog.text
    assert ("which the target no longer shares" in caplog.text) is is_tied
    from_fairseq(tmp_path / "archive", tmp_path / "segmented", is_segmented=True)
    model, cutter = load(tmp_path / "cutting")
    pristine, reader = load(tmp_path / "segmented")
    ours = cutter("lower lowest now ox", return_tensors="pt")["input_ids"]
    # What fairseq reads: pieces that are not in the dictionary are <unk>.
    theirs = reader("low@@ er low@@ est n@@ o@@ w o@@ x", return_tensors="pt")["input_ids"]
    assert theirs.eq(UNK).sum() == 4
    assert torch.equal(ours.masked_fill(ours >= 4 + len(pieces), UNK), theirs)
    target = torch.tensor([[EOS, 5, 9, 12]])
    torch.testing.assert_close(
        logits_of(model, ours, target), logits_of(pristine, theirs, target), **CLOSE
    )
    assert pristine.config.share_embeddings is is_tied


def test_codes_that_make_only_pieces_of_the_dictionary_keep_the_embeddings_shared(
    tmp_path: Path,
) -> None:
    pieces = pieces_of(WORDS)
    write_archive(tmp_path / "archive", pieces, codes_of(MERGES))
    from_fairseq(tmp_path / "archive", tmp_path / "new")
    model, tokenizer = load(tmp_path / "new")
    assert model.config.share_embeddings
    assert model.config.vocab_size == len(tokenizer) == 4 + len(pieces)


def test_segmented_text_and_codes_exclude_each_other(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is_segmented=True takes text that is cut already"):
        from_fairseq(archive, tmp_path / "new", is_segmented=True, bpe_codes="codes")


def test_a_target_dictionary_of_its_own_makes_a_second_tokenizer(
    archive: Path, tmp_path: Path
) -> None:
    write_dictionary(archive / "dict.de.txt", reference.PIECES, ("Haus",))
    write_dictionary(archive / "dict.en.txt", reference.OTHER_PIECES, ("small", "house"))
    from_fairseq(archive, tmp_path / "new")
    model, source = load(tmp_path / "new")
    target = AutoTokenizer.from_pretrained(tmp_path / "new" / "target_tokenizer")
    assert source("Haus")["input_ids"] == [4, EOS]
    assert target.decode([4, 5], skip_special_tokens=True) == "small house"
    assert len(source) == model.config.vocab_size == reference.PIECES
    assert len(target) == model.config.target_vocab_size == reference.OTHER_PIECES


def test_the_folder_translates_as_the_model_in_memory(
    archive: Path, checkpoint: dict[str, Any], tmp_path: Path
) -> None:
    from_fairseq(archive, tmp_path / "new")
    model, _ = load(tmp_path / "new")
    entries = ("num_beams", "length_penalty", "length_penalty_type", "early_stopping")
    # fairseq 0.12.2, dataclass/configs.py: beam, lenpen, no_early_stop
    assert [getattr(model.generation_config, entry) for entry in entries] == [5, 1, "power", True]
    source, _ = batch_of(reference.OTHER_PIECES)
    options = {"attention_mask": source.ne(PAD).long(), "max_new_tokens": 8}
    expected = vaswani_from_fairseq(checkpoint).generate(source, **options)
    assert torch.equal(model.generate(source, **options), expected)
