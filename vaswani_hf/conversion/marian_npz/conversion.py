# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Marian's files to a model or its folder, and back."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.utils import logging

from ...hub.download import find
from ...hub.folder import export, save_tokenizers
from ...modeling_vaswani import VaswaniForConditionalGeneration
from ...search_settings_vaswani import POWER
from ...tokenization_vaswani import PAD
from ...translation.loading import check_finite, load_tokenizers
from ..differences import Differences
from ..folders import load_vaswani
from ..heads import with_aligning_head_first
from ..targets import AnyPath, check_target, new_folder
from ..tensors import TensorReader
from .files import DECODER, MODEL, Files, find_files, read_npz, write_decoder, write_npz
from .names import SIDES, embedding_names
from .settings import config_fields, model_options
from .vocabularies import (
    SEGMENTERS,
    Vocabulary,
    make_tokenizers,
    pieces_of,
    read_vocabulary,
    write_vocabularies,
)
from .weights import MAX_POSITIONS, marian_positions, read_model, write_tensors


logger = logging.get_logger(__name__)

BEAMS = 12  # of `marian-decoder` without options
EXTRA_TOKENS = 200
# Relative to the largest logit: what rounding and the epsilon of `MarianMTModel` make of it.
TOLERANCE = 1e-4
# A table of sinusoids of any wavelengths, moved a little by training, stays below it.
MAX_MOVE = 0.5


def from_marian_npz(
    source: AnyPath,
    target: AnyPath,
    *,
    source_vocabulary: AnyPath | None = None,
    target_vocabulary: AnyPath | None = None,
) -> None:
    """Write a folder that translates as a model of Marian does.

    Its generation config has `beam-size` and `normalize` of `decoder.yml`, and never writes
    `<unk>`, as Marian does not. It stops 200 tokens after the source's length, where Marian stops
    at three times that length. Dropout rates are not in the file: they are ours.

    Args:
        source: a folder with `decoder.yml` or one `.npz` file, or one of these files itself.
        target: a new folder.
        source_vocabulary: a `.spm`, `.yml`, `.json` or text file; `None` for that of `decoder.yml`.
            Beside a `.yml`, `source.spm` and `target.spm` cut the text into pieces, as in OPUS-MT;
            where they are missing, text must come cut into pieces.
        target_vocabulary: likewise; `None` for the source's where that is given.

    Raises:
        ValueError: if something cannot be carried over exactly, with every difference listed, or a
            file is damaged; nothing is written then.
        FileNotFoundError: if a file is missing.
        FileExistsError: if the target exists and is not an empty folder.
        ImportError: if a vocabulary needs sentencepiece, which is not installed.
    """
    check_target(target)
    files = find_files(Path(source))
    tensors, options = read_npz(files.model)
    differences = Differences(str(files.model))
    fields = config_fields(options, differences)
    search = _search(files.decoder, differences)
    vocabularies = _read_vocabularies(files, source_vocabulary, target_vocabulary)
    names = embedding_names(fields["share_embeddings"])
    for name, vocabulary in zip(names, vocabularies, strict=True):
        if name not in tensors:
            continue
        shape, num_pieces = tuple(tensors[name].shape), len(vocabulary.pieces)
        if len(shape) != 2:
            differences.add(f"{name} has shape {shape}, expected a matrix")
        elif num_pieces > shape[0]:
            differences.add(
                f"{vocabulary.path} has {num_pieces} pieces, but {name} has {shape[0]} rows"
            )
    differences.check()
    pad_token_id = _padding(vocabularies, [tensors[name] for name in names if name in tensors])
    model = read_model(
        TensorReader(tensors, differences),
        fields | {"eos_token_id": vocabularies[1].eos_id},
        pad_token_id,
    )
    model.name_or_path = str(files.model)
    check_finite(model)
    _set_search(model, search, vocabularies[1])
    pad = (_name_of_padding(vocabularies, pad_token_id), model.config.pad_token_id)
    folder_of_vocabularies = vocabularies[0].path.parent
    tokenizer, target_tokenizer = make_tokenizers(
        vocabularies, pad, MAX_POSITIONS, folder_of_vocabularies
    )
    with new_folder(target) as folder:
        export(model, tokenizer, folder, target_tokenizer=target_tokenizer)


def to_marian_npz(source: AnyPath, target: AnyPath) -> None:
    """Write `model.npz`, `decoder.yml` and vocabularies, which Marian decodes.

    Marian starts a translation from zeros, has sinusoids of other wavelengths, and a fixed epsilon.
    How far that moves the logits is measured on random ids, and logged. A model that came from
    Marian, and was not trained further, stays as it was.

    The vocabularies are SentencePiece models where the tokenizer has their ids. Else they are
    `.yml` files, which take text that is cut into pieces; the tokenizer that cuts it, or
    `source.spm` and `target.spm`, lie beside them.

    Args:
        source: folder or Hub id of a `VaswaniForConditionalGeneration` and its tokenizer.
        target: a new folder.

    Raises:
        ValueError: if the source is not a Vaswani model, lacks weights or a tokenizer, or has what
            Marian lacks, all listed. Nothing is written then.
        FileExistsError: if the target exists and is not an empty folder.
    """
    check_target(target)
    found = find(source)
    model = load_vaswani(found, source)
    model.name_or_path = str(source)
    tokenizer, target_tokenizer = load_tokenizers(found)
    tokenizers = (tokenizer, target_tokenizer or tokenizer)
    config, differences = model.config, _differences_to_marian(model)
    for side, each in zip(("source", "target"), tokenizers, strict=True):
        for name in ("eos_token", "unk_token"):
            differences.refuse_if(
                getattr(each, name) is None,
                f"the {side}'s tokenizer has no {name}, which every vocabulary of Marian has",
            )
    differences.check()
    pad = config.pad_token_id
    source_pieces, target_pieces = (pieces_of(each, pad) for each in tokenizers)
    num_rows = (len(source_pieces), len(target_pieces))
    tensors, options = marian_npz_from_vaswani(model, num_rows=num_rows)
    with new_folder(target) as folder:
        names = write_vocabularies(tokenizers, (source_pieces, target_pieces), folder)
        if not all((folder / name).is_file() for name in SEGMENTERS):
            save_tokenizers(folder, tokenizer, target_tokenizer)
        write_npz(tensors, options, folder / MODEL)
        write_decoder(_decoder_options(model.generation_config, names), folder / DECODER)


def vaswani_from_marian_npz(
    tensors: Mapping[str, Tensor],
    options: Mapping[str, Any],
    *,
    eos_token_id: int = 0,
    pad_token_id: int | None = None,
    name: str = "this Marian model",
) -> VaswaniForConditionalGeneration:
    """A model that computes what a model of Marian does.

    Args:
        tensors: the arrays of its file, by name.
        options: those of `special:model.yml`.
        eos_token_id: id of `</s>` in the target's vocabulary.
        pad_token_id: id of a piece of both vocabularies that stands for nothing else, and whose row
            is zeros; `None` for a new one, after the last.
        name: what a message calls it.

    Returns:
        The model, in float32 and evaluation mode.

    Raises:
        ValueError: if something cannot be carried over exactly, with every difference listed.
    """
    differences = Differences(name)
    fields = config_fields(options, differences) | {"eos_token_id": eos_token_id}
    return read_model(TensorReader(tensors, differences), fields, pad_token_id)


def marian_npz_from_vaswani(
    model: VaswaniForConditionalGeneration, *, num_rows: tuple[int, int] | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The arrays of Marian's file and the options in it, for a model.

    Args:
        model: left as it is.
        num_rows: how many pieces source and target have, the first ones; `None` for all, but for a
            padding piece that is the last.

    Returns:
        What `vaswani_from_marian_npz` takes. How far the logits are from the model's is logged.

    Raises:
        ValueError: if it has what Marian lacks, all listed.
    """
    config, differences = model.config, _differences_to_marian(model)
    _refuse_what_marian_lacks(model, differences)
    differences.check()
    if num_rows is None:
        sizes = (config.vocab_size, config.num_target_pieces)
        num_source, num_target = (size - (config.pad_token_id == size - 1) for size in sizes)
        num_rows = (num_source, num_target)
    tensors = write_tensors(with_aligning_head_first(model), num_rows)
    options = model_options(config, num_rows)
    _compare(model, tensors, options, differences.what)
    return tensors, options


def _differences_to_marian(model: VaswaniForConditionalGeneration) -> Differences:
    return Differences(f"{model.name_or_path or 'this Vaswani model'} to Marian")


def _read_vocabularies(
    files: Files, source: AnyPath | None, target: AnyPath | None
) -> tuple[Vocabulary, Vocabulary]:
    paths = files.vocabularies
    if source is not None or target is not None:
        given = [path for path in (source, target) if path is not None]
        paths = [Path(given[0]), Path(given[-1])]
    if not paths:
        raise FileNotFoundError(
            f"{files.model} has no {DECODER} beside it that names its vocabularies; name them by "
            f"source_vocabulary and target_vocabulary."
        )
    return read_vocabulary(paths[0]), read_vocabulary(paths[1])


def _padding(vocabularies: tuple[Vocabulary, Vocabulary], embeddings: list[Tensor]) -> int | None:
    """The id of a `<pad>` that both have, with zeros in its row, as `to_marian_npz` leaves it."""
    ids = {
        vocabulary.pieces.index(PAD) if PAD in vocabulary.pieces else None
        for vocabulary in vocabularies
    }
    token = ids.pop()
    is_padding = token is not None and not ids
    return token if is_padding and not any(each[token].any() for each in embeddings) else None


def _name_of_padding(vocabularies: tuple[Vocabulary, Vocabulary], pad_token_id: int | None) -> str:
    """A name that no other piece has."""
    name = PAD
    while pad_token_id is None and any(name in vocabulary.pieces for vocabulary in vocabularies):
        name = f"<{name}>"
    return name


def _search(decoder: Mapping[str, Any], differences: Differences) -> dict[str, Any]:
    """Entries of a generation config, from those of `decoder.yml`."""
    beams, alpha = decoder.get("beam-size", BEAMS), decoder.get("normalize", 0)
    differences.refuse_if(
        type(beams) is not int or beams < 1, f"beam-size: {beams!r} is no positive number"
    )
    is_number = isinstance(alpha, int | float)
    differences.refuse_if(not is_number, f"normalize: {alpha!r} is no number")
    penalty = decoder.get("word-penalty")
    differences.refuse_if(
        bool(penalty), f"word-penalty: {penalty} of {DECODER} would be lost; remove it"
    )
    if decoder.get("shortlist"):
        logger.warning("shortlist: %s is not used: any piece can come.", decoder["shortlist"])
    return {
        "num_beams": beams,
        "length_penalty": float(alpha) if is_number else 0.0,
        "allow_unk": bool(decoder.get("allow-unk")),
    }


def _set_search(
    model: VaswaniForConditionalGeneration, search: dict[str, Any], target: Vocabulary
) -> None:
    config = model.generation_config
    if not search.pop("allow_unk"):
        config.suppress_tokens = [target.unk_id]
    for name, value in search.items():
        setattr(config, name, value)
    config.length_penalty_type = POWER
    config.max_extra_tokens = EXTRA_TOKENS
    config.early_stopping = "never"


def _decoder_options(config: GenerationConfig, vocabularies: list[str]) -> dict[str, Any]:
    # Of a config that leaves them out, as many of `MarianMTModel` do, the library's own.
    penalty = 1.0 if config.length_penalty is None else config.length_penalty
    if getattr(config, "length_penalty_type", POWER) != POWER:
        logger.warning(
            "Marian divides log-probabilities by the length to the power of normalize: %s; the "
            "model's own penalty is another one, so some translations will differ.",
            penalty,
        )
    return {
        "relative-paths": True,
        "models": [MODEL],
        "vocabs": vocabularies,
        "beam-size": config.num_beams or 1,
        "normalize": float(penalty),
        "word-penalty": 0,
        "mini-batch": 32,
        "maxi-batch": 100,
        "maxi-batch-sort": "src",
    }


def _refuse_what_marian_lacks(
    model: VaswaniForConditionalGeneration, differences: Differences
) -> None:
    config = model.config
    width = config.d_model / config.num_heads
    for name, value in zip(("d_k", "d_v"), config.head_widths, strict=True):
        differences.refuse_if(
            value != width, f"{name}={value}; Marian's is d_model / num_heads = {width:g}"
        )
    differences.refuse_if(
        not config.scale_embedding,
        "scale_embedding=False; Marian multiplies embeddings by sqrt(d_model)",
    )
    differences.refuse_if(
        config.d_model % 2 == 1, f"d_model={config.d_model}; Marian's sinusoids need an even width"
    )
    if config.position_encoding == "learned" and config.d_model % 2 == 0:
        state = model.state_dict()
        for side in SIDES:
            table = state[f"model.{side}.embedding.positions.weight"].float().cpu()
            move = (table - marian_positions(*table.shape)).abs().max().item()
            differences.refuse_if(
                not move <= MAX_MOVE,
                f"the {side}'s learned positions are up to {move:.2g} from Marian's sinusoids; "
                f"Marian has no others",
            )


@torch.no_grad()
def _compare(
    model: VaswaniForConditionalGeneration,
    tensors: Mapping[str, Tensor],
    options: Mapping[str, Any],
    what: str,
) -> None:
    """Log how far the logits of both are apart on random ids."""
    config, chooser = model.config, torch.Generator().manual_seed(0)
    num_source, num_target = options["dim-vocabs"]
    pad = config.pad_token_id
    is_piece = pad < min(num_source, num_target)
    marian = vaswani_from_marian_npz(
        tensors, options, eos_token_id=0, pad_token_id=pad if is_piece else None
    ).double()
    ours = copy.deepcopy(model).cpu().double().eval()
    shape = (8, min(32, config.max_position_embeddings))
    source = torch.randint(num_source, shape, generator=chooser)
    target = torch.randint(num_target, shape, generator=chooser)
    kept = torch.arange(num_target) != pad
    logits = []
    for each in (ours, marian):
        target[:, 0] = each.config.decoder_start_token_id
        result = each(input_ids=source, decoder_input_ids=target).logits
        logits.append(result[..., :num_target][..., kept])
    largest = logits[0].abs().max().item()
    difference = (logits[1] - logits[0]).abs().max().item()
    text = f"{what}: on random ids, logits up to {largest:.3g} differ by up to {difference:.2g}"
    if difference <= TOLERANCE * largest:
        logger.info(f"{text}.")
    else:
        logger.warning(
            f"{text}. Marian starts from zeros instead of the row of decoder_start_token_id="
            f"{config.decoder_start_token_id}, and its sinusoids have wavelengths of their own: "
            f"some translations will differ, so score them."
        )


__all__ = [
    "from_marian_npz",
    "marian_npz_from_vaswani",
    "to_marian_npz",
    "vaswani_from_marian_npz",
]
