# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Rows of a model's matrices, dropped and added together with the pieces of its tokenizers."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers.utils import logging

from ..configuration_vaswani import VaswaniConfig
from ..conversion.folders import load_vaswani
from ..conversion.targets import AnyPath, check_target, new_folder
from ..conversion.tensors import build_model
from ..hub.download import find
from ..hub.folder import export
from ..hub.names import TARGET_TOKENIZER
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..text.lines import read_lines
from ..tokenization_vaswani import add_source_tags
from ..translation.loading import load_tokenizers
from .pieces import EditableTokenizer


logger = logging.get_logger(__name__)

SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
OUTPUT, OUTPUT_BIAS, SHARED = "lm_head.weight", "lm_head.bias", "model.shared.weight"
# Entries of a generation config that hold ids of the target.
ID_SETTINGS = (
    *("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"),
    *("forced_bos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens"),
    "bad_words_ids",
)


def trim_vocabulary(
    source: AnyPath,
    target: AnyPath,
    *,
    source_text: Sequence[AnyPath],
    target_text: Sequence[AnyPath],
) -> None:
    """Write a folder without the pieces that a text never uses.

    The text is cut into pieces as before. Bytes, single characters and special pieces stay, so that
    any other text can be cut too, if into more pieces. The pieces that stay keep their rows, and
    their logits.

    Args:
        source: folder or Hub id of a `VaswaniForConditionalGeneration` and its tokenizer.
        target: a new folder.
        source_text: files of source text, plain or gzipped.
        target_text: files of target text. With one tokenizer for both sides, what either uses
            stays on both.

    Raises:
        ValueError: if the source is no such model, its tokenizer cannot be edited, or a text uses
            no piece.
        FileNotFoundError: if a file is missing.
        FileExistsError: if the target exists and is not an empty folder.
    """
    model, tokenizers = _load(source, target)
    texts = (source_text, target_text)
    needed = []
    for tokenizer, lines in zip(tokenizers, _lines(texts, len(tokenizers)), strict=True):
        used = tokenizer.used(lines)
        if used <= tokenizer.special_ids:
            raise ValueError(
                f"The {tokenizer.side}'s text uses no piece of the vocabulary; give text like what "
                f"the model will translate."
            )
        needed.append(tokenizer.needed(used))
    pad = model.config.pad_token_id
    kept = [sorted(ids | {pad}) for ids in needed]
    if len(kept) == 2:  # padding has one id on both sides
        kept = [[pad, *(token for token in ids if token != pad)] for ids in kept]
    for tokenizer, ids in zip(tokenizers, kept, strict=True):
        tokenizer.keep(ids)
    _renumber(model, {old: new for new, old in enumerate(kept[-1])})
    source_rows, target_rows = ([[token] for token in ids] for ids in (kept[0], kept[-1]))
    _save(_with_rows(model, source_rows, target_rows), tokenizers, target, source)


def extend_vocabulary(
    source: AnyPath,
    target: AnyPath,
    *,
    num_pieces: int = 0,
    source_text: Sequence[AnyPath] = (),
    target_text: Sequence[AnyPath] = (),
    source_tags: Sequence[str] = (),
) -> None:
    """Write a folder with more pieces, for a new domain or language that it is then trained on.

    New pieces are characters that were spelled in bytes, and the most frequent pairs of pieces, as
    if the learning of the byte-pair encoding had gone on with this text. Their rows are the means
    of the rows of their parts. The old pieces keep their rows and logits.

    Args:
        source: folder or Hub id of a `VaswaniForConditionalGeneration` and its tokenizer, a
            byte-pair encoding.
        target: a new folder.
        num_pieces: how many pieces to learn; of two tokenizers, by each that has text.
        source_text: files of source text, plain or gzipped.
        target_text: files of target text.
        source_tags: special pieces to add to the source's tokenizer, such as `<bt>`, which training
            puts before the sources of a corpus by `source_tag`.

    Raises:
        ValueError: if the source is no such model, its tokenizer cannot be edited, the text is too
            short, or a tag is not named as one or is there already.
        FileNotFoundError: if a file is missing.
        FileExistsError: if the target exists and is not an empty folder.
    """
    has_text = bool(source_text or target_text)
    if num_pieces < 1 and (has_text or not source_tags):
        raise ValueError(f"num_pieces must be at least 1, got {num_pieces}.")
    if num_pieces and not has_text:
        raise ValueError("New pieces are learned from text; give source_text or target_text.")
    model, tokenizers = _load(source, target, source_tags)
    texts = (source_text, target_text)
    rows = []
    both = zip(tokenizers, _lines(texts, len(tokenizers)), texts, strict=False)
    for tokenizer, lines, files in both:
        old = [[token] for token in range(tokenizer.size)]
        is_given = has_text if len(tokenizers) == 1 else bool(files)
        rows.append(old + (tokenizer.learn(lines, num_pieces) if is_given else []))
    for tag in source_tags:
        rows[0][tokenizers[0].ids()[tag]] = tokenizers[0].spelled(tag)
    _save(_with_rows(model, rows[0], rows[-1]), tokenizers, target, source)


def _load(
    source: AnyPath, target: AnyPath, source_tags: Sequence[str] = ()
) -> tuple[VaswaniForConditionalGeneration, list[EditableTokenizer]]:
    """The model, and one tokenizer or that of each side; the source's has the tags."""
    check_target(target)
    folder = find(source)
    model = load_vaswani(folder, source)
    tokenizer, target_tokenizer = load_tokenizers(folder)
    for tag in source_tags:
        if tag in tokenizer.get_vocab():
            raise ValueError(f"source_tags: {source} has a piece {tag} already.")
    add_source_tags(tokenizer, source_tags)
    tokenizers = [EditableTokenizer(tokenizer, "source")]
    if target_tokenizer is not None:
        if model.config.share_embeddings:
            raise ValueError(
                f"{source} has one embedding for both sides, but two tokenizers: remove "
                f"{TARGET_TOKENIZER}/ if both are the same."
            )
        tokenizers.append(EditableTokenizer(target_tokenizer, "target"))
    return model, tokenizers


def _lines(texts: Sequence[Sequence[AnyPath]], num_tokenizers: int) -> list[list[str]]:
    """The lines for each tokenizer; one for both sides gets all."""
    lines = [[line for path in paths for line in read_lines(Path(path))] for paths in texts]
    return lines if num_tokenizers == 2 else [lines[0] + lines[1]]


def _with_rows(
    model: VaswaniForConditionalGeneration,
    source_rows: list[list[int]],
    target_rows: list[list[int]],
) -> VaswaniForConditionalGeneration:
    """The model with other rows of its embeddings and its output.

    Args:
        model: left as it is.
        source_rows: for each piece of the source, the old ids whose rows its row is the mean of.
        target_rows: likewise of the target.
    """
    config: VaswaniConfig = copy.deepcopy(model.config)
    weights = dict(model.state_dict())
    rows_of = {
        SOURCE: source_rows,
        SHARED: source_rows,
        TARGET: target_rows,
        OUTPUT: target_rows,
        OUTPUT_BIAS: target_rows,
    }
    for name, rows in rows_of.items():
        if name in weights:
            weights[name] = _means(weights[name], rows)
    config.vocab_size, config.target_vocab_size = len(source_rows), len(target_rows)
    changed = build_model(config, weights)
    changed.generation_config = copy.deepcopy(model.generation_config)
    return changed


def _means(matrix: Tensor, rows: list[list[int]]) -> Tensor:
    """For each list of rows their mean."""
    means = matrix[[ids[0] for ids in rows]]
    for place, ids in enumerate(rows):
        if len(ids) > 1:
            means[place] = matrix[ids].mean(dim=0)
    return means


def _renumber(model: VaswaniForConditionalGeneration, place: dict[int, int]) -> None:
    """Give the ids of both configurations their new numbers; those that are gone are left out."""
    for config in (model.config, model.generation_config):
        for name in ID_SETTINGS:
            value = getattr(config, name, None)
            if value is not None:
                numbered = _numbered(value, place)
                # The library refuses empty lists.
                setattr(config, name, None if numbered == [] else numbered)


def _numbered(value: Any, place: dict[int, int]) -> Any:
    if isinstance(value, int):
        return place.get(value)
    if value and isinstance(value[0], list):  # sequences, none of which can come in part
        return [_numbered(ids, place) for ids in value if all(token in place for token in ids)]
    return [place[token] for token in value if token in place]


def _save(
    model: VaswaniForConditionalGeneration,
    tokenizers: list[EditableTokenizer],
    target: AnyPath,
    source: AnyPath,
) -> None:
    with new_folder(target) as folder:
        export(model, None, folder)
        for tokenizer, place in zip(tokenizers, (folder, folder / TARGET_TOKENIZER), strict=False):
            tokenizer.save(place)
    logger.info(
        "%s: %d source pieces and %d target pieces.",
        *(source, model.config.vocab_size, model.config.num_target_pieces),
    )


__all__ = ["extend_vocabulary", "trim_vocabulary"]
