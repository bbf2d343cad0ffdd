# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The tokenizers that BLEU may be given, and what they do to a text."""

import re
from collections.abc import Callable

from ..extras import require


MOSES = "moses-"  # and a language code: a tokenizer that sacrebleu does not have
TOKENISED = "none"


def preparation(tokenize: str, is_split: bool) -> tuple[Callable[[str], str], str]:
    """What is done to a sentence before sacrebleu sees it, and the tokenizer that sacrebleu uses.

    Args:
        tokenize: one of sacrebleu's tokenizers, or `moses-` and a language code.
        is_split: whether hyphenated compounds are split.

    Raises:
        ValueError: if there is no such tokenizer, or it would tokenise what has been split.
        ImportError: if its package is missing.
    """
    if tokenize.startswith(MOSES):
        tokens = moses_tokenizer(tokenize.removeprefix(MOSES))
        return (lambda text: split_compounds(tokens(text))) if is_split else tokens, TOKENISED
    tokenizers = require("sacrebleu").BLEU.TOKENIZERS
    if tokenize not in tokenizers:
        known = ", ".join(tokenizers)
        raise ValueError(
            f"tokenize must be one of sacrebleu's tokenizers ({known}) or '{MOSES}' and a language "
            f"code, got tokenize='{tokenize}'."
        )
    if is_split and tokenize != TOKENISED:
        raise ValueError(
            f"split_compounds=True splits tokens, and tokenize='{tokenize}' would come after it; "
            f"set tokenize to 'none' for text that is tokenised, or to '{MOSES}de'."
        )
    return (split_compounds if is_split else str), tokenize


def split_compounds(text: str) -> str:
    """Split hyphenated tokens, `rich-text` to `rich ##AT##-##AT## text` (`get_ende_bleu.sh`).

    A split needs a character other than a space on both sides and uses up both: `a-b-c` is split
    once, at its first hyphen. The script's characters are bytes, so `a-ä-c` is split twice, and a
    no-break space is not a space.
    """
    return re.sub(rb"(\S)-(\S)", rb"\1 ##AT##-##AT## \2", text.encode()).decode()


def moses_tokenizer(language: str) -> Callable[[str], str]:
    """The Moses tokenizer of `get_ende_bleu.sh`: from a sentence to its tokens, joined by spaces.

    Unicode punctuation is replaced by ASCII first. Nothing is escaped as for XML, which changes no
    score.

    Raises:
        ImportError: if sacremoses is not installed.
        ValueError: if it does not know the language.
    """
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
        from sacremoses.corpus import NonbreakingPrefixes
    except ImportError as error:
        raise ImportError(
            f"tokenize='{MOSES}{language}' needs sacremoses: pip install sacremoses"
        ) from error
    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in known:
        raise ValueError(
            f"tokenize='{MOSES}{language}': sacremoses knows the languages {', '.join(known)}."
        )
    plain, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)

    def tokens(text: str) -> str:
        return tokenizer.tokenize(plain.replace_unicode_punct(text), return_str=True, escape=False)

    return tokens
