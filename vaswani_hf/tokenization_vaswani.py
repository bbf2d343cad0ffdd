# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""One byte-pair vocabulary for source and target (section 5.1), as a plain fast tokenizer.

The result is the library's own `PreTrainedTokenizerFast`, so `AutoTokenizer` loads it without this
package. It is lossless: `decode(encode(text)) == normalize(text)` for every text that can be
written as UTF-8, and `normalize` changes only the word mark.

The text "</s>" is spelled by ordinary pieces and does not end a sentence. With the `tokenizers`
library alone, set `encode_special_tokens = True` for that: it looks for the names of special pieces
in the text first, and saves no such setting in `tokenizer.json`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from .text.lines import read_lines


UNK, PAD, EOS = "<unk>", "<pad>", "</s>"
SPECIAL_TOKENS = (UNK, PAD, EOS)  # their ids are their positions here
WORD_START = "\u2581"  # stands for the space before a word, as in SentencePiece
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
ESCAPE = "\\"  # stands before a word of segmented text that has the name of a special piece
# Longer words are cut before learning, whose time grows with the square of their length.
MAX_WORD_CHARACTERS = 1000
_SOURCE_TAG = re.compile(r"<[^<>\s]+>")
SPLIT_MARK = "@@"  # ends a piece inside a word, as in subword-nmt


def normalize(text: str) -> str:
    """The text after encoding and decoding: U+2581, the word mark, becomes a space."""
    return text.replace(WORD_START, " ")


def join_pieces(text: str) -> str:
    """Joins text segmented by subword-nmt: `ein@@ und` becomes `einund`."""
    return text.replace(f"{SPLIT_MARK} ", "")


def check_vocab_size(vocab_size: int, num_whole_words: int = 0) -> int:
    """The number of pieces that every vocabulary has; a `ValueError` if there is no room for more.

    Args:
        vocab_size: number of pieces at most.
        num_whole_words: words that are a piece each.
    """
    num_fixed = len(SPECIAL_TOKENS) + len(BYTES) + num_whole_words
    if vocab_size <= num_fixed:
        names = (
            "special pieces, bytes and whole words"
            if num_whole_words
            else ("special pieces and bytes")
        )
        raise ValueError(
            f"vocab_size must be above {num_fixed} ({names}), got vocab_size={vocab_size}."
        )
    return num_fixed


def check_source_tag(tag: object) -> None:
    """Raise a `ValueError` unless a piece can stand before sources by this name, such as `<bt>`."""
    is_name = isinstance(tag, str) and _SOURCE_TAG.fullmatch(tag)
    if not is_name or tag in (*SPECIAL_TOKENS, *BYTES):
        raise ValueError(
            f"source_tag must be a name of its own in angle brackets, such as <bt>, got {tag!r}."
        )


def add_source_tags(tokenizer: PreTrainedTokenizerBase, tags: Iterable[str]) -> None:
    """Add a special piece for each tag that has none; their ids follow all others.

    A tag stands before the pieces of a source, such as one that a model has made (Caswell et al.
    2019). As with `</s>`, no text comes to it, and decoding leaves it out.

    Args:
        tokenizer: a fast one, which is changed.
        tags: names such as `<bt>`.

    Raises:
        ValueError: if a tag is not named as one or is a piece of text, or the tokenizer would find
            it in text.
    """
    for tag in tags:
        check_source_tag(tag)
        if not tokenizer.is_fast or not tokenizer.split_special_tokens:
            raise ValueError(
                f"source_tag={tag} needs a fast tokenizer that never takes text for a special "
                f'piece: one with "split_special_tokens": true in its tokenizer_config.json.'
            )
        token = tokenizer.get_vocab().get(tag)
        if token is None:
            tokenizer.backend_tokenizer.add_special_tokens([tag])
        elif token not in tokenizer.added_tokens_decoder:
            raise ValueError(
                f"source_tag={tag} is a piece of text in the vocabulary; name another tag."
            )


def train_tokenizer(
    corpus: Iterable[str | PathLike[str]] | Iterable[str],
    vocab_size: int = 37000,
    *,
    are_files: bool = True,
    max_characters: int | None = None,
    split_digits: bool = False,
    whole_words: Sequence[str] = (),
    model_max_length: int | None = None,
    show_progress: bool = True,
) -> PreTrainedTokenizerFast:
    """Learn one byte-pair encoding of source and target together (section 5.1).

    Args:
        corpus: paths of text files, a sentence a line, UTF-8, plain or gzipped (`.gz`), of both
            languages; or, with `are_files=False`, the sentences themselves, such as a column of a
            dataset.
        vocab_size: number of pieces at most: 3 special ones, 256 bytes, the characters, and merges.
            The paper's is about 37,000 for English-German.
        are_files: whether `corpus` holds paths.
        max_characters: how many characters, the most frequent ones, become pieces; others are
            spelled by their UTF-8 bytes. `None` for a quarter of `vocab_size`.
        split_digits: whether every digit is a piece of its own.
        whole_words: words that are a piece each, whether or not the corpus has them, such as the
            tags and brackets of trees; their ids follow those of the bytes, in this order.
        model_max_length: a longer sequence, in tokens, makes the tokenizer warn; `None` for none.
        show_progress: whether to draw a progress bar.

    Returns:
        A tokenizer that ends source and target (`text_target=`) with `</s>`.

    Raises:
        ValueError: if `vocab_size` leaves no room for merges, the corpus has no text, or a line is
            not UTF-8.
        FileNotFoundError: if a file is missing.
    """
    whole = [WORD_START + word for word in whole_words]
    num_fixed = check_vocab_size(vocab_size, len(whole))
    sentences = _lines_of(corpus) if are_files else iter(corpus)
    learner = Tokenizer(models.BPE())
    learner.normalizer = _normalizer()
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [_pre_tokenizer(split_digits), pre_tokenizers.FixedLength(MAX_WORD_CHARACTERS)]
    )
    num_learned = vocab_size - num_fixed
    trainer = BpeTrainer(
        vocab_size=num_learned,
        limit_alphabet=max_characters or max(1, min(vocab_size // 4, num_learned)),
        show_progress=show_progress,
    )
    learner.train_from_iterator(sentences, trainer)
    learned = json.loads(learner.to_str())["model"]
    if not learned["vocab"]:
        raise ValueError("The corpus holds no text to learn a vocabulary from.")
    pieces = sorted(learned["vocab"], key=learned["vocab"].get)
    # A corpus in which "<0x41>" or "</s>" is frequent would learn it as a piece of its own.
    fixed = (*SPECIAL_TOKENS, *BYTES)
    vocabulary = dict.fromkeys([*fixed, *whole, *pieces])
    merges = [tuple(merge) for merge in learned["merges"] if "".join(merge) not in fixed]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: token for token, piece in enumerate(vocabulary)},
            merges=merges,
            unk_token=UNK,
            byte_fallback=True,
            ignore_merges=bool(whole),  # a word that is a piece is not put together of others
        )
    )
    tokenizer.normalizer, tokenizer.pre_tokenizer = _normalizer(), _pre_tokenizer(split_digits)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(WORD_START, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),  # the space that the normalizer put before the first word
        ]
    )
    return _finish(tokenizer, model_max_length)


def tokenizer_of_segmented_text(
    corpus: Iterable[str | PathLike[str]] | Iterable[str],
    *,
    are_files: bool = True,
    model_max_length: int | None = None,
) -> PreTrainedTokenizerFast:
    r"""A tokenizer for text that subword-nmt has segmented, such as `ein@@ und`.

    Every piece of the corpus gets an id, the most frequent first. Text is split at spaces only, an
    unknown piece becomes `<unk>`, and decoding joins `ein@@ und` into `einund`. A word with the
    name of a special piece, such as `</s>`, becomes the piece `\</s>`. This is for published
    protocols that come as segmented text; for other text, use `train_tokenizer`.

    Args:
        corpus: paths, or with `are_files=False` sentences, as in `train_tokenizer`.
        are_files: whether `corpus` holds paths.
        model_max_length: as in `train_tokenizer`.

    Raises:
        ValueError: if the corpus has no text.
    """
    counts: dict[str, int] = {}
    for sentence in _lines_of(corpus) if are_files else corpus:
        for piece in str(sentence).split():
            counts[piece] = counts.get(piece, 0) + 1
    counts = {_escape(piece): count for piece, count in counts.items()}
    if not counts:
        raise ValueError("The corpus holds no text to make a vocabulary of.")
    pieces = sorted(counts, key=lambda piece: (-counts[piece], piece))
    vocabulary = dict.fromkeys([*SPECIAL_TOKENS, *pieces])
    tokenizer = Tokenizer(
        models.WordLevel({piece: token for token, piece in enumerate(vocabulary)}, unk_token=UNK)
    )
    tokenizer.normalizer = normalizer_of_segmented_text()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoder_of_segmented_text()
    return _finish(tokenizer, model_max_length)


def normalizer_of_segmented_text(
    special_tokens: Iterable[str] = SPECIAL_TOKENS,
) -> normalizers.Normalizer:
    r"""Writes the word `</s>` as `\</s>`, and that as `\\</s>`, so that none is a special piece."""
    words = rf"(?<!\S)(?={_special_words(special_tokens)}(?!\S))"
    return normalizers.Replace(Regex(words), ESCAPE)


def decoder_of_segmented_text(special_tokens: Iterable[str] = SPECIAL_TOKENS) -> decoders.Decoder:
    """Joins pieces of subword-nmt: `ein@@`, `und` become `einund`."""
    return decoders.Sequence(
        [
            decoders.Replace(Regex(rf"^\\(?={_special_words(special_tokens)}$)"), ""),
            decoders.Replace(Regex("$"), " "),
            decoders.Replace(f"{SPLIT_MARK} ", ""),
            decoders.Fuse(),
            decoders.Replace(Regex(" $"), ""),
        ]
    )


def _special_words(special_tokens: Iterable[str]) -> str:
    """An expression for the names of special pieces, with or without escapes before them."""
    return rf"\\*(?:{'|'.join(map(re.escape, special_tokens))})"


def _escape(word: str) -> str:
    return ESCAPE + word if re.fullmatch(_special_words(SPECIAL_TOKENS), word) else word


def _normalizer() -> normalizers.Normalizer:
    return normalizers.Sequence(
        [normalizers.Prepend(WORD_START), normalizers.Replace(" ", WORD_START)]
    )


def _pre_tokenizer(split_digits: bool) -> pre_tokenizers.PreTokenizer:
    # Not `Metaspace`: where the text starts with a space it adds no mark, and so loses the space.
    words = pre_tokenizers.Split(WORD_START, behavior="merged_with_next")
    if not split_digits:
        return words
    return pre_tokenizers.Sequence([words, pre_tokenizers.Digits(individual_digits=True)])


def _finish(tokenizer: Tokenizer, model_max_length: int | None) -> PreTrainedTokenizerFast:
    eos_id = tokenizer.token_to_id(EOS)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}", pair=f"$A {EOS} $B {EOS}", special_tokens=[(EOS, eos_id)]
    )
    limit = {} if model_max_length is None else {"model_max_length": model_max_length}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNK,
        pad_token=PAD,
        eos_token=EOS,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,  # a text that says "</s>" is spelled out, not ended
        **limit,
    )


def _lines_of(paths: Iterable[str | PathLike[str]]) -> Iterator[str]:
    for path in paths:
        yield from read_lines(Path(path))


__all__ = ["join_pieces", "normalize", "tokenizer_of_segmented_text", "train_tokenizer"]
