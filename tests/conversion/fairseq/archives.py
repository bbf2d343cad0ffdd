"""Small archives as fairseq publishes them, and what is compared of them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from tests.conversion.fairseq import reference
from vaswani_hf import VaswaniForConditionalGeneration
from vaswani_hf.conversion.fairseq import from_fairseq


PAD, EOS, UNK = 1, 2, 3
CLOSE = {"rtol": 0, "atol": 1e-5}  # float32, in another order of operations, of logits up to 7

# Tokenizers

# Merges as subword-nmt learns them: of "low", "lower", "newest", "widest" and the like.
MERGES = ["e s", "es t</w>", "l o", "lo w</w>", "n e", "ne w", "lo w", "e r</w>", "new est</w>"]
WORDS = "low lower lowest new newer newest wow twin ox o owe snow\u2603 \u2603 \u2603low".split()


def logits_of(
    model: VaswaniForConditionalGeneration, source: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    mask = source.ne(PAD).long()
    with torch.no_grad():
        return model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits


def write_dictionary(path: Path, size: int, pieces: tuple[str, ...] = ()) -> None:
    """A dictionary of fairseq with `size` pieces, its four special ones included."""
    fillers = [f"madeupword{number:04d}" for number in range(size - 4 - len(pieces))]
    lines = [f"{piece} {100 - place}\n" for place, piece in enumerate((*pieces, *fillers))]
    path.write_text("".join(lines), encoding="utf-8")


def batch_of(pieces: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    batch = reference.sentences(pieces)
    return batch["source"], batch["target"]


def assert_same_logits(
    model: VaswaniForConditionalGeneration, layers: reference.Layers, pieces: int
) -> None:
    source, target = batch_of(pieces)
    with torch.no_grad():
        expected = layers(source, target)
    is_real = target.ne(PAD)
    found = logits_of(model, source, target)
    torch.testing.assert_close(found[is_real], expected[is_real], **CLOSE)


def assert_refused(
    checkpoint: dict[str, Any], folder: Path, message: str, number: int | None = 1
) -> None:
    """The message comes, counts so many differences, and nothing is written."""
    torch.save(checkpoint, folder / "model.pt")
    before = sorted(folder.parent.rglob("*"))
    with pytest.raises(ValueError, match=message) as error:
        from_fairseq(folder, folder.parent / "new")
    assert sorted(folder.parent.rglob("*")) == before
    if number is not None:
        assert str(error.value).count("\n  - ") == number, str(error.value)


def codes_of(merges: list[str], header: str = "#version: 0.2\n", count: str = "") -> str:
    return header + "".join(f"{merge}{count}\n" for merge in merges)


def pieces_of(words: list[str], left_out: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Every letter of the words as a piece that goes on and as one that ends, and what merges."""
    letters = sorted(set("".join(words)) - {"\u2603"})
    merged = [merge.replace(" ", "") for merge in MERGES]
    pieces = [name.removesuffix("</w>") if "</w>" in name else f"{name}@@" for name in merged]
    every = [*pieces, *(f"{letter}@@" for letter in letters), *letters]
    return tuple(piece for piece in every if piece not in left_out)


def write_archive(
    folder: Path, pieces: tuple[str, ...], codes: str | None, is_tied: bool = True
) -> dict[str, int]:
    """A small archive whose dictionary has these pieces; their ids."""
    size = 4 + len(pieces)
    torch.manual_seed(0)
    checkpoint = reference.Layers(is_tied).checkpoint()
    embeddings = torch.randn(size, 16)
    for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
        checkpoint["model"][f"{name}.weight"] = embeddings if is_tied else torch.randn(size, 16)
    folder.mkdir(exist_ok=True)
    torch.save(checkpoint, folder / "checkpoint_best.pt")
    for language in ("de", "en"):
        write_dictionary(folder / f"dict.{language}.txt", size, pieces)
    if codes is not None:
        (folder / "bpecodes").write_text(codes, encoding="utf-8")
    return {piece: place for place, piece in enumerate(pieces, start=4)}


def load(folder: Path) -> tuple[Any, Any]:
    return (
        AutoModelForSeq2SeqLM.from_pretrained(folder),
        AutoTokenizer.from_pretrained(folder),
    )
