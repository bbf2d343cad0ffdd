# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""A checkpoint of fairseq to a model, or to its folder with the tokenizer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers.utils import logging

from ...hub.folder import export
from ...modeling_vaswani import VaswaniForConditionalGeneration
from ..differences import Differences, listed
from ..targets import AnyPath, new_folder
from .checkpoint import find_checkpoint, read_checkpoint
from .codes import find_codes
from .dictionary import SPECIAL_PIECES, find_dictionaries, read_dictionary
from .model import Parts
from .settings import read_settings
from .tokenizer import make_tokenizer
from .weights import read_parts


logger = logging.get_logger(__name__)


def from_fairseq(
    source: AnyPath,
    target: AnyPath,
    *,
    source_dictionary: AnyPath | None = None,
    target_dictionary: AnyPath | None = None,
    bpe_codes: AnyPath | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    is_segmented: bool = False,
) -> None:
    """Write the folder of a model, with its tokenizer, out of a checkpoint of fairseq.

    The tokenizer takes text as `fairseq-interactive` does: prepared as the training text was, which
    mostly means lower-cased or not and tokenized by Moses, and with `is_segmented`, or where there
    are no codes, also cut by subword-nmt. A target dictionary that is not the source's makes a
    second tokenizer, in the subfolder `target_tokenizer`.

    Where codes can make pieces that the dictionary lacks, and they nearly always can, such pieces
    get ids after the dictionary's, and the source's embedding gets a row for each, a copy of
    `<unk>`'s: so they are read as fairseq reads them. An embedding that source and target share is
    doubled for that. `is_segmented` keeps it shared.

    Args:
        source: a checkpoint, such as `checkpoint_best.pt`; or a folder with a `model.pt` or
            `checkpoint_best.pt` in it.
        target: the new folder.
        source_dictionary: `dict.SOURCE.txt`; `None` to look for it beside the checkpoint.
        target_dictionary: `dict.TARGET.txt`; `None` for the source's where that is given, and
            otherwise to look for it beside the checkpoint.
        bpe_codes: codes of subword-nmt or fastBPE; `None` to look for `bpecodes` or `code` beside
            the checkpoint.
        source_language: the `SOURCE` of `dict.SOURCE.txt`; `None` for what the checkpoint says.
        target_language: the `TARGET` of `dict.TARGET.txt`; `None` for what the checkpoint says.
        is_segmented: whether text comes cut into pieces, `ein@@ und`; codes are not looked for.

    Raises:
        ValueError: if something cannot be carried over exactly, with every difference listed, or if
            the file needs more than tensors and settings to be loaded; nothing is written then.
        FileNotFoundError: if there is no checkpoint or no dictionary.
        FileExistsError: if the target exists and is not an empty folder.
    """
    if is_segmented and bpe_codes is not None:
        raise ValueError(
            f"is_segmented=True takes text that is cut already, but bpe_codes={str(bpe_codes)!r} "
            f"would cut it; give one of them."
        )
    with new_folder(target) as folder:
        path = find_checkpoint(Path(source))
        checkpoint = read_checkpoint(path)
        settings = read_settings(checkpoint, str(path))
        languages = (
            source_language or settings.get("source_lang"),
            target_language or settings.get("target_lang"),
        )
        files = find_dictionaries(path.parent, source_dictionary, target_dictionary, languages)
        source_pieces, target_pieces = map(read_dictionary, files)
        differences = Differences(str(path))
        parts = read_parts(checkpoint, settings, differences)
        _check_dictionaries(parts, files, (source_pieces, target_pieces), differences)
        codes = None if is_segmented else find_codes(path.parent, bpe_codes, differences)
        differences.check()
        limit = parts.fields["max_position_embeddings"]
        tokenizer = make_tokenizer(source_pieces, codes, limit)
        num_unknown = len(tokenizer) - len(source_pieces)
        has_own = target_pieces != source_pieces
        target_tokenizer = make_tokenizer(target_pieces, codes, limit) if has_own else None
        model = parts.build(num_unknown)
        export(model, tokenizer, folder, target_tokenizer=target_tokenizer)
    if num_unknown:
        is_shared = parts.fields["share_embeddings"]
        logger.warning(
            "%s: %d pieces that the codes make are not in %s. They are read as <unk>, by rows of "
            "their own in the source's embedding%s. A target that is trained on must not have "
            "them. With is_segmented=True they are not needed.",
            *(path, num_unknown, files[0]),
            ", which the target no longer shares" if is_shared else "",
        )


def vaswani_from_fairseq(
    checkpoint: Mapping[str, Any], *, name: str = "the checkpoint"
) -> VaswaniForConditionalGeneration:
    """A model that computes what fairseq's `TransformerModel` of a checkpoint does.

    Its ids are those of fairseq's dictionaries: `<s>` 0, `<pad>` 1, `</s>` 2, `<unk>` 3, and then
    the lines of the dictionary. Its generation config is what `fairseq-generate` does on its own:
    5 beams, scores divided by the length (with `</s>`), no empty translation, and an end as soon as
    5 hypotheses have ended. But fairseq stops at 200 tokens, whatever the source; here it is 200
    more than the source has, and what reaches them does not end in `</s>`.

    Args:
        checkpoint: a dictionary with `model`, the state dict, and `args` or `cfg`, the settings: as
            a `Namespace` or as a dictionary.
        name: what a message calls the checkpoint.

    Returns:
        The model, in float32 and evaluation mode.

    Raises:
        ValueError: if something cannot be carried over exactly, with every difference listed.
    """
    differences = Differences(name)
    parts = read_parts(checkpoint, read_settings(checkpoint, name), differences)
    differences.check()
    return parts.build()


def _check_dictionaries(
    parts: "Parts",
    files: tuple[Path, Path],
    pieces: tuple[list[str], list[str]],
    differences: Differences,
) -> None:
    for side, file, own in zip(("encoder", "decoder"), files, pieces, strict=True):
        rows = len(parts.weights[f"model.{side}.embed_tokens.weight"])
        differences.refuse_if(
            len(own) != rows,
            f"{file} has {len(own)} pieces, {listed(SPECIAL_PIECES)} included, but "
            f"{side}.embed_tokens.weight has {rows} rows",
        )
    differences.refuse_if(
        parts.fields["share_embeddings"] and pieces[0] != pieces[1],
        f"share_all_embeddings=True needs one dictionary, but {files[0]} and {files[1]} differ",
    )
