# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Tokenizers, the ids that they give, and whether they fit the embeddings."""

from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from ...translation.loading import load_tokenizers
from ..differences import Differences
from ..folders import AnyPath


logger = logging.get_logger(__name__)


def load_tokenizer(tokenizer: AnyPath | PreTrainedTokenizerBase | None) -> Any:
    """The tokenizer itself, or the one in a folder.

    Raises:
        FileNotFoundError: if there is no such folder.
    """
    if tokenizer is None or isinstance(tokenizer, PreTrainedTokenizerBase):
        return tokenizer
    if not Path(tokenizer).is_dir():
        raise FileNotFoundError(f"{tokenizer} is not a folder; name one with a tokenizer.")
    return load_tokenizers(tokenizer)[0]


def token_ids(
    given: dict[str, int | None],
    tokenizer: PreTrainedTokenizerBase | None,
    target_tokenizer: PreTrainedTokenizerBase | None,
    differences: Differences,
) -> dict[str, int]:
    """The ids of the configuration: the given ones, else the tokenizers'."""
    differences.refuse_if(
        tokenizer is None and target_tokenizer is not None,
        "target_tokenizer is given and tokenizer, the source's, is not",
    )
    writer = tokenizer if target_tokenizer is None else target_tokenizer
    names = {
        "pad_token_id": "pad_token_id",
        "eos_token_id": "eos_token_id",
        "decoder_start_token_id": "bos_token_id",
    }
    ids: dict[str, int] = {}
    for field, name in names.items():
        token = getattr(writer, name, None) if given[field] is None else given[field]
        if token is None:
            lack = "" if writer is None else f", and the tokenizer has no {name}"
            differences.add(f"{field} is missing: no state dict says it{lack}; give {field}")
        else:
            ids[field] = token
    if given["pad_token_id"] is None and tokenizer is not None and writer is not None:
        differences.refuse_if(
            tokenizer.pad_token_id != writer.pad_token_id,
            f"tokenizer pads with {tokenizer.pad_token_id} and target_tokenizer with "
            f"{writer.pad_token_id}; give pad_token_id",
        )
    return ids


def check_sizes(
    fields: dict[str, Any],
    tokenizer: PreTrainedTokenizerBase | None,
    target_tokenizer: PreTrainedTokenizerBase | None,
    differences: Differences,
) -> None:
    """Note a tokenizer with more pieces than its embedding has rows; warn of one with fewer."""
    if "vocab_size" not in fields:  # which is noted already
        return
    writer = tokenizer if target_tokenizer is None else target_tokenizer
    sides = {
        "source": (fields["vocab_size"], tokenizer),
        "target": (fields["target_vocab_size"], writer),
    }
    for side, (num_rows, vocabulary) in sides.items():
        if vocabulary is None or len(vocabulary) == num_rows:
            continue
        sizes = f"the {side} embedding has {num_rows} rows and its tokenizer {len(vocabulary)}"
        if len(vocabulary) > num_rows:
            differences.add(f"{sizes} pieces; give the tokenizer that the model was trained with")
        else:
            logger.warning(
                "%s pieces: rows %d and after stand for none. Unless they only fill up the matrix, "
                "this is not the tokenizer that the model was trained with.",
                *(sizes, len(vocabulary)),
            )
