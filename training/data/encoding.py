# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Text to ids that end in `</s>`."""

import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, List, Value, concatenate_datasets
from datasets.fingerprint import Hasher
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from vaswani_hf.tokenization_vaswani import join_pieces

from .corpus import Corpus
from .files import unwrap_dataset_errors
from .links import PIECE_LINKS, WORD_LINKS, piece_links


def encode_splits(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    segmented: bool = False,
    target_tokenizer: PreTrainedTokenizerBase | None = None,
) -> dict[str, Dataset]:
    """Each split of a corpus by `encode_pairs`; training sources with the tags of their corpora."""
    encoded = {}
    for name, split in corpus.splits.items():
        parts = corpus.tagged_parts() if name == "train" else [(split, None)]
        pairs = [
            encode_pairs(part, tokenizer, segmented, target_tokenizer, tag) for part, tag in parts
        ]
        encoded[name] = concatenate_datasets(pairs) if len(pairs) > 1 else pairs[0]
    return encoded


def encode_pairs(
    pairs: Dataset,
    tokenizer: PreTrainedTokenizerBase,
    segmented: bool = False,
    target_tokenizer: PreTrainedTokenizerBase | None = None,
    source_tag: str | None = None,
) -> Dataset:
    """Add `input_ids` and `labels`, both ending in `</s>`, to columns `source` and `target`.

    To pairs with links of words the links of pieces are added.

    What is read from files or the Hub is encoded once: a later run with the same text and the same
    tokenizer finds it in the cache of `datasets`.

    Args:
        pairs: columns `source` and `target`; `None` where a text could not be decoded.
        tokenizer: makes the ids.
        segmented: the text is cut by subword-nmt; its words are joined again, so that translations
            are compared with words.
        target_tokenizer: makes those of the targets, where they have one of their own.
        source_tag: a piece that stands before each source.
    """
    tag = tag_ids(tokenizer, source_tag)

    def encode(rows: dict[str, list[str | None]]) -> dict[str, list[Any]]:
        encoded: dict[str, list[Any]] = encode_texts(
            rows["source"], rows["target"], tokenizer, target_tokenizer
        )
        if WORD_LINKS in rows:
            tokenizers = (tokenizer, target_tokenizer or tokenizer)
            encoded[PIECE_LINKS] = _piece_links(rows, encoded, tokenizers, len(tag))
        if tag:
            encoded["input_ids"] = [tag + ids for ids in encoded["input_ids"]]
        if segmented:
            encoded |= {side: [text and join_pieces(text) for text in rows[side]] for side in rows}
        return encoded

    # A fingerprint of our own: the library would hash the tokenizer object, whose state changes
    # with its use.
    made_of: tuple[Any, ...] = (pairs._fingerprint, _content_of(tokenizer), segmented, _VERSION)
    if target_tokenizer is not None:
        made_of += (_content_of(target_tokenizer),)
    if source_tag is not None:
        made_of += (source_tag,)
    fingerprint, features = Hasher.hash(made_of), None
    if WORD_LINKS in pairs.column_names:
        # Else the types are those of the first 1,000 pairs, of which none may have a link.
        columns = {"input_ids": "int32", "labels": "int64", PIECE_LINKS: "int64"}
        lists = {name: List(Value(kind)) for name, kind in columns.items()}
        features = Features({**pairs.features, **lists})
    with unwrap_dataset_errors():
        return pairs.map(
            encode, batched=True, desc="Encoding", features=features, new_fingerprint=fingerprint
        )


def _piece_links(
    rows: dict[str, list[Any]],
    encoded: dict[str, list[Any]],
    tokenizers: tuple[Any, Any],
    num_before: int,
) -> list[list[int]]:
    """The links of pieces; so many pieces come before each source."""
    texts = zip(rows["source"], rows["target"], strict=True)
    ids = zip(encoded["input_ids"], encoded["labels"], strict=True)
    return [
        piece_links(links, both, of_both, tokenizers, num_before)
        for links, both, of_both in zip(rows[WORD_LINKS], texts, ids, strict=True)
    ]


_VERSION = 1  # of what `encode_pairs` gives; another number has all text encoded again


def tag_ids(tokenizer: PreTrainedTokenizerBase, source_tag: str | None) -> list[int]:
    """What stands before the ids of each source of a corpus: its tag, or nothing."""
    return [] if source_tag is None else [tokenizer.convert_tokens_to_ids(source_tag)]


def encode_texts(
    sources: Sequence[str | None],
    targets: Sequence[str | None],
    tokenizer: PreTrainedTokenizerBase,
    target_tokenizer: PreTrainedTokenizerBase | None = None,
) -> dict[str, list[list[int]]]:
    """`input_ids` and `labels` of pairs; `None` is encoded as an empty text.

    Args:
        sources: texts.
        targets: their translations.
        tokenizer: of the sources, and of the targets too unless these have one of their own.
        target_tokenizer: the targets' own.
    """
    lefts, rights = ([text or "" for text in side] for side in (sources, targets))
    if target_tokenizer is None and type(tokenizer) is PreTrainedTokenizerFast:
        ids = _encode(tokenizer, lefts + rights)  # at once, on all threads
        return {"input_ids": ids[: len(lefts)], "labels": ids[len(lefts) :]}
    return {
        "input_ids": _encode(tokenizer, lefts),
        "labels": _encode(target_tokenizer or tokenizer, rights, are_targets=True),
    }


def _encode(
    tokenizer: PreTrainedTokenizerBase, texts: list[str], are_targets: bool = False
) -> list[list[int]]:
    if type(tokenizer) is not PreTrainedTokenizerFast:  # its targets may be encoded differently
        side = {"text_target" if are_targets else "text": texts}
        return tokenizer(**side, return_attention_mask=False, verbose=False)["input_ids"]
    # As the tokenizer's own call, without the offsets and masks that it makes beside the ids.
    return [encoding.ids for encoding in _backend_of(tokenizer).encode_batch_fast(texts)]


def _backend_of(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = tokenizer.split_special_tokens
    return backend


def encode_words(
    texts: list[str], tokenizer: PreTrainedTokenizerFast
) -> list[tuple[list[int], list[int | None]]]:
    """Of each text its ids, and of each id the number of its word, `None` of special pieces."""
    encodings = _backend_of(tokenizer).encode_batch(texts)
    return [(encoding.ids, encoding.word_ids) for encoding in encodings]


def _content_of(tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    """All that decides what a tokenizer makes of a text."""
    if not tokenizer.is_fast:
        with tempfile.TemporaryDirectory(prefix="vaswani_hf_") as folder:
            paths = sorted(map(Path, tokenizer.save_pretrained(folder)))
            # Some list files that they do not write.
            digests = [hashlib.sha256(path.read_bytes()) for path in paths if path.is_file()]
        return (type(tokenizer).__qualname__, *(digest.hexdigest() for digest in digests))
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    content.pop("truncation", None)  # set anew by every call
    content.pop("padding", None)
    return (
        type(tokenizer).__qualname__,
        json.dumps(content, sort_keys=True),
        str(tokenizer.split_special_tokens),
        str(getattr(tokenizer, "src_lang", None)),
        str(getattr(tokenizer, "tgt_lang", None)),
    )
