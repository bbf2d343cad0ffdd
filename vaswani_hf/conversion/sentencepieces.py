# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Marian's tokenizer as one or two of the `tokenizers` library, and back.

A `MarianTokenizer` cuts text by SentencePiece, by one model a side, and looks up the pieces in a
vocabulary of another order, which both sides may share. The `tokenizers` library makes the same
pieces far sooner, with offsets, and loads without sentencepiece.
"""

import base64
import itertools
import json
import math
import random
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging

from ..extras import require
from ..hub.names import SENTENCEPIECE, SETTINGS_OF_MARIAN


logger = logging.get_logger(__name__)

Tokenizers = tuple[PreTrainedTokenizerFast, PreTrainedTokenizerFast | None]
MARK = "\u2581"  # the start of a word
# Before a piece of the vocabulary that the side's model does not make. No text has it where pieces
# are looked for, as MARK stands for spaces there. A single character is looked up all the same.
FOREIGN = " "
NORMAL, USER_DEFINED = 1, 4  # types of pieces, in sentencepiece_model.proto
UNIGRAM, BPE = 1, 2  # types of models
UNKNOWN_PENALTY = 10.0  # by which SentencePiece scores an unknown character below all pieces
ROUNDING = 1e-3  # of a sum of scores in float32
MODEL_FILE = PreTrainedTokenizerFast.vocab_files_names["vocab_file"]  # tokenizer.model
UNKNOWN_CHARACTER = "\uffff"  # which is no character
OUTER_SPACES = Regex("^ +| +$")
OUTER_WHITESPACE = Regex(r"^\s+|\s+$")  # `str.strip()`, by which Marian's text ends
SAMPLE_LINES, SAMPLE_PIECES = 1000, 30  # of a made-up sample: lines, and most pieces of a line
# Written with other characters, or not at all, by most normalizations; or in no vocabulary.
ODDITIES = (
    *("\u00a0", "\u3000", "\t", "  ", "\u200b", "\ufeff", "\u00ad", "\u2028", "\ufb01", "\uff21"),
    *("e\u0301", "\u00bd", "\u2026", "\u1e9e", "\U0001f600", "\u0e33", "\u2122", "\u4e00", "\x07"),
)


class NotTheSameError(ValueError):
    """A fast tokenizer would make other pieces; the message says why."""


def fast_tokenizers(marian: Any, sample: Sequence[tuple[str, str]] | None = None) -> Tokenizers:
    """Fast tokenizers that make the ids and the text that a `MarianTokenizer` makes.

    They keep the paths of the SentencePiece models, which `hub.folder.save_tokenizers` copies, and
    of which `marian_tokenizer` makes the `MarianTokenizer` again. Text cannot name special pieces:
    `</s>` is spelled.

    Args:
        marian: a `MarianTokenizer`.
        sample: pairs of text that both are compared on; unless given, made up of the pieces.

    Returns:
        The tokenizer of the sources, and that of the targets; `None` if both sides are cut by the
        same model into one vocabulary.

    Raises:
        NotTheSameError: if they make other ids or other text of the sample, or cannot be made.
        ValueError: if a SentencePiece model and its vocabulary have no piece in common.
        ImportError: if a package is missing.
    """
    target_ids = marian.target_encoder if marian.separate_vocabs else marian.encoder
    source_path, target_path = map(Path, marian.spm_files)
    source = _Side(source_path, marian.spm_source, marian.encoder, marian)
    target = _Side(target_path, marian.spm_target, target_ids, marian)
    for side in (source, target):
        if side.scores.keys().isdisjoint(side.ids):
            raise ValueError(
                f"The vocabulary has none of the pieces of {side.path}: they are of two models."
            )
    if source.special != target.special:
        raise NotTheSameError("the special pieces have other ids on the side of the targets")
    sides = [source, target]
    if not marian.separate_vocabs and source.content == target.content:
        sides = [source]
    made = [side.tokenizer() for side in sides]
    if sample is None:
        sample = list(zip(source.made_up_lines(), target.made_up_lines(), strict=True))
    sources, targets = map(list, zip(*sample, strict=True))
    source.compare(made[0], sources, marian(sources, verbose=False)["input_ids"])
    wanted = marian(text_target=targets, verbose=False)["input_ids"]
    target.compare(made[-1], targets, wanted)
    written, found = (
        each.batch_decode(wanted, skip_special_tokens=True) for each in (marian, made[-1])
    )
    _refuse_differences(targets, written, found, "writes")
    return made[0], made[1] if len(made) > 1 else None


class _Side:
    """One side of a `MarianTokenizer`: a SentencePiece model, and the ids of pieces.

    Args:
        path: of the model's file.
        processor: has the model.
        ids: of the vocabulary; its pieces are those of this model and others.
        marian: the tokenizer.
    """

    def __init__(self, path: Path, processor: Any, ids: Mapping[str, int], marian: Any) -> None:
        self.path, self.name, self.ids, self.marian = path, path.name, ids, marian
        self.content = processor.serialized_model_proto()
        self.proto = require("sentencepiece.sentencepiece_model_pb2").ModelProto()
        self.proto.ParseFromString(self.content)
        self.special = {
            piece: ids.get(piece)
            for piece in (marian.eos_token, marian.unk_token, marian.pad_token)
        }
        self.scores = {
            piece.piece: piece.score for piece in self.proto.pieces if piece.type == NORMAL
        }
        self.is_unigram = self.proto.trainer_spec.model_type == UNIGRAM

    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The fast tokenizer.

        Raises:
            NotTheSameError: if there is none that makes these pieces.
        """
        self._check()
        marian, spec = self.marian, self.proto.normalizer_spec
        languages = marian.supported_language_codes  # `>>deu<<`, before a source
        whole = {*self.scores, *self.special, *languages}
        ids = {
            piece if piece in whole or len(piece) == 1 else FOREIGN + piece: token
            for piece, token in self.ids.items()
        }
        tokenizer = Tokenizer(self._unigrams(ids) if self.is_unigram else self._byte_pairs(ids))
        tokenizer.normalizer = self._normalizer()
        # Cut at spaces beforehand, which is faster, where no piece goes on over one.
        is_cut = not any(MARK in piece[1:] for piece in self.scores)
        prefix: Any = "always" if spec.add_dummy_prefix else "never"
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(MARK, prefix, split=is_cut)
        tokenizer.decoder = decoders.Sequence(
            [
                decoders.Replace(FOREIGN, ""),
                decoders.Replace(MARK, " "),
                decoders.Fuse(),
                decoders.Replace(OUTER_WHITESPACE, ""),
            ]
        )
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {marian.eos_token}",
            special_tokens=[(marian.eos_token, self.ids[marian.eos_token])],
        )
        tokenizer.add_tokens([AddedToken(code, normalized=False) for code in languages])
        settings = {key: marian.init_kwargs.get(key) for key in SETTINGS_OF_MARIAN}
        return PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            pad_token=marian.pad_token,
            unk_token=marian.unk_token,
            eos_token=marian.eos_token,
            model_max_length=marian.model_max_length,
            model_input_names=["input_ids", "attention_mask"],
            clean_up_tokenization_spaces=False,
            split_special_tokens=True,
            vocab_file=str(self.path),
            **{SENTENCEPIECE: MODEL_FILE},
            **{key: value for key, value in settings.items() if value is not None},
        )

    def _check(self) -> None:
        kind = self.proto.trainer_spec.model_type
        if kind not in (UNIGRAM, BPE):
            raise NotTheSameError(f"{self.name} is a model neither of unigrams nor of byte pairs")
        if any(piece.type == USER_DEFINED for piece in self.proto.pieces):
            raise NotTheSameError(f"{self.name} has symbols that its user defined")
        if sorted(self.ids.values()) != list(range(len(self.ids))):
            raise NotTheSameError(f"the vocabulary of {self.name} leaves out ids")
        lacking = len(self.scores.keys() - self.ids.keys())
        if lacking and kind == BPE:
            raise NotTheSameError(f"{self.name} merges byte pairs into pieces that have no id")
        if lacking:
            logger.info(
                f"{lacking} of the {len(self.scores)} pieces of {self.name} have no id. Text that "
                f"has them, which was {self.marian.unk_token} to Marian, is cut into other pieces."
            )

    def _unigrams(self, ids: Mapping[str, int]) -> models.Unigram:
        unknown = min(self.scores.values()) - UNKNOWN_PENALTY
        scored = [
            (piece, self.scores.get(piece, unknown)) for piece in sorted(ids, key=ids.__getitem__)
        ]
        return models.Unigram(scored, self.ids[self.marian.unk_token], byte_fallback=False)

    def _byte_pairs(self, ids: Mapping[str, int]) -> models.BPE:
        # Whatever two halves make a piece, SentencePiece makes the piece with the highest score.
        merges = [
            (piece[:place], piece[place:])
            for piece in sorted(self.scores, key=self.scores.__getitem__, reverse=True)
            for place in range(1, len(piece))
            if piece[:place] in self.scores and piece[place:] in self.scores
        ]
        return models.BPE(dict(ids), merges, unk_token=self.marian.unk_token, fuse_unk=True)

    def _normalizer(self) -> normalizers.Normalizer:
        spec = self.proto.normalizer_spec
        steps: list[Any] = []
        if spec.precompiled_charsmap:
            steps.append(normalizers.Precompiled(spec.precompiled_charsmap))
        if spec.remove_extra_whitespaces:
            steps.append(normalizers.Replace(OUTER_SPACES, ""))
            steps.append(normalizers.Replace(Regex(" {2,}"), " "))
        # Marian looks up unknown characters in a row as one piece, which there is not.
        known = re.escape("".join({" ", *"".join(self.scores)}))
        if any(len(piece) == 1 and piece not in self.scores for piece in self.ids):
            steps.append(normalizers.Replace(Regex(f"[^{known}]{{2,}}"), UNKNOWN_CHARACTER))
        # Else text could name special pieces.
        steps += [normalizers.Replace(piece, f"{piece[0]} {piece[1:]}") for piece in self.special]
        return normalizers.Sequence(steps)

    def made_up_lines(self) -> list[str]:
        """Lines of random pieces that have an id, by their probability, among them oddities."""
        chooser = random.Random(0)
        pieces = [piece for piece in self.scores if piece in self.ids]
        # The scores of byte pairs are no logarithms of probabilities, but ranks.
        weights = [math.exp(self.scores[piece]) if self.is_unigram else 1.0 for piece in pieces]
        cumulative = list(itertools.accumulate(weights))
        lines = []
        for number in range(SAMPLE_LINES):
            length = chooser.randint(1, SAMPLE_PIECES)
            line = chooser.choices(pieces, cum_weights=cumulative, k=length)
            if number % 4 == 0:  # the rare ones too
                line[0] = chooser.choice(pieces)
            if number % 4 == 1:
                line.insert(chooser.randint(0, length), chooser.choice(ODDITIES))
            lines.append("".join(line).replace(MARK, " "))
        return lines

    def compare(self, tokenizer: Any, texts: list[str], expected: Sequence[Sequence[int]]) -> None:
        """Refuse a tokenizer that makes other ids of texts than expected.

        Where two ways to cut a text are equally probable, SentencePiece's choice follows from
        rounding to float32; the other way is as good, and is only counted.
        """
        found = tokenizer(texts, verbose=False)["input_ids"]
        same = [
            wanted if self._are_alike(wanted, ids) else ids
            for wanted, ids in zip(expected, found, strict=True)
        ]
        _refuse_differences(texts, expected, same, "cuts")
        num_others = sum(one != other for one, other in zip(expected, found, strict=True))
        if num_others:
            logger.info(
                f"{num_others} of {len(texts)} lines are cut into other pieces than by "
                f"{self.name}, which are as probable: SentencePiece rounds to float32."
            )

    def _are_alike(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether two ways to cut a text are equally probable, but for rounding."""
        if not self.is_unigram or one == other:
            return one == other
        scores = {self.ids.get(piece): score for piece, score in self.scores.items()}
        others = [[token for token in ids if token not in scores] for ids in (one, other)]
        totals = [sum(scores.get(token, 0.0) for token in ids) for ids in (one, other)]
        return others[0] == others[1] and abs(totals[0] - totals[1]) < ROUNDING


def _refuse_differences(
    texts: Sequence[str], expected: Sequence[Any], found: Sequence[Any], what: str
) -> None:
    both = zip(texts, expected, found, strict=True)
    differing = [text for text, one, other in both if one != other]
    if differing:
        raise NotTheSameError(
            f"it {what} {len(differing)} of {len(texts)} lines otherwise, such as {differing[0]!r}"
        )


def load_sentencepiece(path: Path) -> Any:
    """The processor of a SentencePiece model's file.

    Raises:
        ValueError: if it is damaged, or another file.
        ImportError: if sentencepiece is not installed.
    """
    sentencepiece = require("sentencepiece")
    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError) as error:
        raise ValueError(f"{path} is no model of SentencePiece, or damaged.") from error


def are_marians(*tokenizers: Any) -> bool:
    """Whether all of them were made by `fast_tokenizers`."""
    return all(SENTENCEPIECE in each.init_kwargs for each in tokenizers)


def marian_tokenizer(tokenizer: Any, target_tokenizer: Any = None) -> Any | None:
    """The `MarianTokenizer` that `fast_tokenizers` was given, pieces and ids alike.

    Args:
        tokenizer: of the sources.
        target_tokenizer: of the targets; `None` if they have none of their own.

    Returns:
        `None` if the tokenizers were not made by `fast_tokenizers`.

    Raises:
        ValueError: if the file of a SentencePiece model is missing.
        ImportError: if a package is missing.
    """
    both = (tokenizer, target_tokenizer or tokenizer)
    if not are_marians(*both):
        return None
    require("sentencepiece")
    from transformers import MarianTokenizer

    vocabularies = [
        {piece.removeprefix(FOREIGN): token for piece, token in each.get_vocab().items()}
        for each in both
    ]
    is_separate = vocabularies[0] != vocabularies[1]
    # It reads its files at once, and writes them again when it is saved.
    with tempfile.TemporaryDirectory(prefix="vaswani_hf_") as name:
        folder = Path(name)
        for side, each, vocabulary in zip(("source", "target"), both, vocabularies, strict=True):
            (folder / f"{side}.spm").write_bytes(_sentencepiece_model(each))
            ordered = dict(sorted(vocabulary.items(), key=lambda item: item[1]))
            (folder / f"{side}.json").write_text(json.dumps(ordered), encoding="utf-8")
        return MarianTokenizer(
            *(str(folder / file) for file in ("source.spm", "target.spm", "source.json")),
            target_vocab_file=str(folder / "target.json") if is_separate else None,
            separate_vocabs=is_separate,
            unk_token=tokenizer.unk_token,
            eos_token=tokenizer.eos_token,
            pad_token=tokenizer.pad_token,
            model_max_length=tokenizer.model_max_length,
            **{
                key: tokenizer.init_kwargs[key]
                for key in SETTINGS_OF_MARIAN
                if key in tokenizer.init_kwargs
            },
        )


def _sentencepiece_model(tokenizer: Any) -> bytes:
    """The content of the model's file, which older folders have as base64 in its place."""
    entry = tokenizer.init_kwargs[SENTENCEPIECE]
    if entry != MODEL_FILE:
        return base64.b64decode(entry)
    if not tokenizer.can_save_slow_tokenizer:
        raise ValueError(
            f"{tokenizer.name_or_path or 'The tokenizer'} has lost its SentencePiece model, "
            f"{MODEL_FILE}; copy it from the folder that `convert --from marian` wrote."
        )
    return Path(tokenizer.vocab_file).read_bytes()
