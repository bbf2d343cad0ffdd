# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The vocabularies of Marian, `.spm` and `.yml`, and tokenizers that have their ids."""

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ...extras import require
from ...text.lines import read_lines
from ...tokenization_vaswani import (
    EOS,
    PAD,
    UNK,
    WORD_START,
    decoder_of_segmented_text,
    normalizer_of_segmented_text,
)
from ...translation.loading import load_tokenizers
from ..sentencepieces import load_sentencepiece


SPM = ".spm"
OLD_NAMES = {"eos": (0, EOS), "UNK": (1, UNK)}  # of Nematus, with the ids that they must have
SEGMENTERS = ("source.spm", "target.spm")  # beside the `.yml` of OPUS-MT
# What cannot stand in a quoted text of YAML as it is, or what some reader takes for a line's end.
ESCAPED = re.compile("[\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff]")


class Vocabulary(NamedTuple):
    """The pieces of a file in the order of their ids, and which of them are `</s>` and `<unk>`."""

    path: Path
    pieces: list[str]
    eos_id: int
    unk_id: int


def read_vocabulary(path: Path) -> Vocabulary:
    """A vocabulary of any kind that Marian has, but for factored ones.

    Raises:
        ValueError: if it is none, or lacks `</s>` or `<unk>`.
        FileNotFoundError: if there is no such file.
        ImportError: if it needs sentencepiece, which is not installed.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing; name the vocabularies by source_vocabulary and target_vocabulary."
        )
    if path.suffix == SPM:
        return _read_spm(path)
    if path.suffix == ".fsv":
        raise ValueError(f"{path} is a factored vocabulary, which this model lacks.")
    if path.suffix == ".json":
        entries = _read_json(path)
    elif path.suffix in (".yml", ".yaml"):
        entries = _read_yaml(path)
    else:
        entries = [(piece, place) for place, piece in enumerate(read_lines(path))]
    by_id = {token: piece for piece, token in entries}
    if sorted(by_id) != list(range(len(entries))):
        raise ValueError(f"{path} must have the ids 0 to {len(entries) - 1}, each once.")
    pieces = [by_id[token] for token in range(len(entries))]
    for old, (token, name) in OLD_NAMES.items():
        if name not in pieces and pieces[token : token + 1] in ([old], [""]):
            pieces[token] = name
    for name in (EOS, UNK):
        if name not in pieces:
            raise ValueError(f"{path} lacks the piece {name}, which Marian needs.")
    return Vocabulary(path, pieces, pieces.index(EOS), pieces.index(UNK))


def _read_spm(path: Path) -> Vocabulary:
    processor = load_sentencepiece(path)
    if processor.eos_id() < 0:
        raise ValueError(f"{path} lacks the piece {EOS}, which Marian needs.")
    pieces = [processor.id_to_piece(token) for token in range(processor.get_piece_size())]
    return Vocabulary(path, pieces, processor.eos_id(), processor.unk_id())


def _read_json(path: Path) -> list[tuple[str, int]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON ({error}).") from None
    if not isinstance(content, dict) or any(type(token) is not int for token in content.values()):
        raise ValueError(f"{path} must map pieces to ids.")
    return list(content.items())


def _read_yaml(path: Path) -> list[tuple[str, int]]:
    """The entries of a file, `piece: id` in a line, or `? piece` and `: id` in two.

    Not read as YAML, which takes the pieces `no`, `~` and U+2028 for something else.
    """
    entries = []
    piece = None
    for number, line in enumerate(read_lines(path), start=1):
        if not line or line == "---":
            continue
        if line.startswith("? "):
            piece = line[2:]
            continue
        key, _, token = line.rpartition(":")
        piece, key = None, key if piece is None else piece
        if not key or not token.strip().isdecimal():
            raise ValueError(f'{path}, line {number} must be "piece: id", got {line!r}.')
        entries.append((_unquoted(key.strip(" "), path, number), int(token)))
    return entries


def _unquoted(text: str, path: Path, number: int) -> str:
    if text[:1] not in ('"', "'"):
        return text
    try:
        return str(yaml.load(text, Loader=yaml.BaseLoader))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}, line {number} has a damaged piece, {text!r}.") from error


def write_yaml(pieces: list[str], path: Path) -> None:
    """Write a vocabulary, a piece a line, every one in quotes."""
    lines = []
    for token, piece in enumerate(pieces):
        text = piece.replace("\\", "\\\\").replace('"', '\\"')
        text = ESCAPED.sub(_escape, text)
        lines.append(f'"{text}": {token}\n')
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}"


# From vocabularies to tokenizers


def make_tokenizers(
    vocabularies: tuple[Vocabulary, Vocabulary], pad: tuple[str, int], limit: int, folder: Path
) -> tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase | None]:
    """The tokenizer, and the target's where it has a vocabulary of its own.

    Where the vocabularies are SentencePiece models, or such models lie beside them as in OPUS-MT,
    the tokenizers take plain text. So they do if tokenizers with the same ids lie beside them, as
    `to_marian_npz` leaves them. Else text must come cut into pieces.

    Args:
        vocabularies: of source and target.
        pad: name and id of the padding piece.
        limit: tokens of the longest sequence.
        folder: where the vocabularies lie.
    """
    source, target = vocabularies
    is_one = source.pieces == target.pieces
    if (folder / "tokenizer_config.json").is_file():
        found = load_tokenizers(folder)
        if _has_ids(found[0], source) and _has_ids(found[1] or found[0], target):
            return found
    segmenters = [folder / name for name in SEGMENTERS]
    if all(vocabulary.path.suffix == SPM for vocabulary in vocabularies):
        segmenters = [source.path, target.path]
    if all(path.is_file() for path in segmenters):
        if is_one:
            return _marian_tokenizer(source, segmenters, pad, limit), None
        return (
            _marian_tokenizer(source, segmenters[:1] * 2, pad, limit),
            _marian_tokenizer(target, segmenters[1:] * 2, pad, limit),
        )
    tokenizer = _tokenizer_of_pieces(source, pad, limit)
    return tokenizer, None if is_one else _tokenizer_of_pieces(target, pad, limit)


def _has_ids(tokenizer: PreTrainedTokenizerBase, vocabulary: Vocabulary) -> bool:
    pieces = tokenizer.get_vocab()
    return all(pieces.get(piece) == token for token, piece in enumerate(vocabulary.pieces))


def _marian_tokenizer(
    vocabulary: Vocabulary, segmenters: list[Path], pad: tuple[str, int], limit: int
) -> PreTrainedTokenizerBase:
    """The library's `MarianTokenizer`, which needs sentencepiece."""
    require("sentencepiece")
    from transformers import MarianTokenizer

    pieces = {piece: token for token, piece in enumerate(vocabulary.pieces)} | dict([pad])
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "vocab.json"
        path.write_text(json.dumps(pieces), encoding="utf-8")
        source, target = map(str, segmenters)
        return MarianTokenizer(
            source,
            target,
            str(path),
            unk_token=vocabulary.pieces[vocabulary.unk_id],
            eos_token=vocabulary.pieces[vocabulary.eos_id],
            pad_token=pad[0],
            model_max_length=limit,
            split_special_tokens=True,  # a text that says "</s>" does not end
        )


def _tokenizer_of_pieces(
    vocabulary: Vocabulary, pad: tuple[str, int], limit: int
) -> PreTrainedTokenizerFast:
    """Takes text that is cut into pieces, with spaces between them, and joins them in decoding."""
    pieces = {piece: token for token, piece in enumerate(vocabulary.pieces)} | dict([pad])
    special = (EOS, UNK, pad[0])
    tokenizer = Tokenizer(models.WordLevel(pieces, unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", behavior="removed")
    if any(piece.startswith(WORD_START) for piece in vocabulary.pieces):
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace(WORD_START, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
    else:
        tokenizer.normalizer = normalizer_of_segmented_text(special)
        tokenizer.decoder = decoder_of_segmented_text(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}", pair=f"$A {EOS} $B {EOS}", special_tokens=[(EOS, vocabulary.eos_id)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=EOS,
        unk_token=UNK,
        pad_token=pad[0],
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=limit,
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
    )


# From tokenizers to vocabularies


def pieces_of(tokenizer: PreTrainedTokenizerBase, pad_token_id: int) -> list[str]:
    """The pieces in the order of their ids, as Marian names them, without padding at the end."""
    by_id = {token: piece for piece, token in tokenizer.get_vocab().items()}
    by_id[pad_token_id] = PAD
    for name, token in ((EOS, tokenizer.eos_token_id), (UNK, tokenizer.unk_token_id)):
        if token is not None:
            by_id[token] = name
    num_pieces = 1 + max(token for token in by_id if token != pad_token_id)
    return [by_id.get(token, f"<unused {token}>") for token in range(num_pieces)]


def write_vocabularies(
    tokenizers: tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase],
    pieces: tuple[list[str], list[str]],
    folder: Path,
) -> list[str]:
    """Write the vocabularies of source and target, and what cuts text into their pieces.

    Returns:
        The names of the two files of vocabularies: SentencePiece models, if the tokenizers have the
        same pieces as theirs; else `.yml`, for text that is cut into pieces.
    """
    if all(hasattr(tokenizer, "spm_files") for tokenizer in tokenizers):
        segmenters = [Path(each.spm_files[place]) for place, each in enumerate(tokenizers)]
        for name, segmenter in zip(SEGMENTERS, segmenters, strict=True):
            shutil.copyfile(segmenter, folder / name)
        if tuple(_read_spm(segmenter).pieces for segmenter in segmenters) == pieces:
            return list(SEGMENTERS)
    is_one = pieces[0] == pieces[1]
    names = ["vocab.yml"] * 2 if is_one else ["vocab.source.yml", "vocab.target.yml"]
    for name, own in zip(names, pieces, strict=True):
        write_yaml(own, folder / name)
    return names
