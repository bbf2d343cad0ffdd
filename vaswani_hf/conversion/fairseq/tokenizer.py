# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The tokenizer of a dictionary and its codes."""

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from ...tokenization_vaswani import (
    SPLIT_MARK,
    decoder_of_segmented_text,
    normalizer_of_segmented_text,
)
from .codes import WORD_END, WORD_END_CHARACTER, Codes
from .dictionary import EOS_ID, SPECIAL_PIECES


def make_tokenizer(
    pieces: list[str], codes: Codes | None, model_max_length: int
) -> PreTrainedTokenizerFast:
    """The tokenizer of one dictionary; without codes, it takes text that is already segmented."""
    tokenizer = (
        tokenizer_of_dictionary(pieces) if codes is None else tokenizer_of_codes(pieces, codes)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", EOS_ID)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=model_max_length,
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,  # a text that says "</s>" does not end
    )


def tokenizer_of_dictionary(pieces: list[str]) -> Tokenizer:
    """Takes segmented text, `ein@@ und`, and joins its pieces in decoding."""
    tokenizer = Tokenizer(
        models.WordLevel({piece: place for place, piece in enumerate(pieces)}, unk_token="<unk>")
    )
    tokenizer.normalizer = normalizer_of_segmented_text(SPECIAL_PIECES)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoder_of_segmented_text(SPECIAL_PIECES)
    return tokenizer


def tokenizer_of_codes(pieces: list[str], codes: Codes) -> Tokenizer:
    """Segments words by the codes, and has the ids of the dictionary.

    Words are segmented as by subword-nmt, if its merges are in the order of learning.

    The dictionary's `ein@@` is named `ein` here, and its `und`, which ends a word, `und</w>`. A
    piece that merges make but the dictionary lacks needs an id of its own, since other pieces may
    be made of it. Such ids follow the dictionary's. An unknown character is `<unk>`.

    Raises:
        ValueError: if a piece has the name of a special one.
    """
    vocabulary = {piece: place for place, piece in enumerate(SPECIAL_PIECES)}
    for place, piece in enumerate(pieces[len(SPECIAL_PIECES) :], start=len(SPECIAL_PIECES)):
        goes_on = piece.endswith(SPLIT_MARK) and piece != SPLIT_MARK
        name = piece.removesuffix(SPLIT_MARK) if goes_on else piece + codes.end
        if name in vocabulary:
            raise ValueError(
                f"The dictionary's {piece!r} would get the name of another piece, {name!r}."
            )
        vocabulary[name] = place
    made = dict.fromkeys(name for merge in codes.merges for name in (*merge, "".join(merge)))
    for name in SPECIAL_PIECES:
        if name in made:
            raise ValueError(f"The codes make {name!r}, which is a special piece.")
    is_newer = codes.end == WORD_END
    end_merges = [] if is_newer else _word_end_merges({**vocabulary, **made}, codes.merges)
    merges = [*codes.merges, *end_merges]
    for name in (name for merge in merges for name in (*merge, "".join(merge))):
        vocabulary.setdefault(name, len(vocabulary))
    suffix = {"end_of_word_suffix": WORD_END} if is_newer else {}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", **suffix))
    if not is_newer:
        ends = Regex(r"(?<=\S)(?!\S)")
        tokenizer.normalizer = normalizers.Replace(ends, WORD_END_CHARACTER)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.Sequence(
        [
            *(decoders.Replace(Regex(f"^{name}$"), f"{name} ") for name in SPECIAL_PIECES),
            decoders.Replace(Regex(f"{codes.end}$"), " "),
            decoders.Fuse(),
            decoders.Replace(Regex(" $"), ""),
        ]
    )
    return tokenizer


def _word_end_merges(names: Iterable[str], merges: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What comes after all other merges: a word's last piece with the character that ends words."""
    end = WORD_END_CHARACTER
    characters = [name[0] for name in names if len(name) == 2 and name[1] == end]
    pieces = [name for name in (*names, *characters) if end not in name]
    last = dict.fromkeys((piece, end) for piece in pieces if piece not in ("<s>", "<pad>", "</s>"))
    known = set(merges)
    return [merge for merge in last if merge not in known]
