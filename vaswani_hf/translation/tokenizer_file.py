# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""A `tokenizer.json` by itself: the ids and the text that AutoTokenizer makes by it, far sooner."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer

from ..hub.names import SENTENCEPIECE, SETTINGS_OF_MARIAN
from .loading import read_json
from .options import first_given


# Entries of tokenizer_config.json that change neither ids nor text.
IDLE = {
    *("backend", "is_local", "local_files_only", "model_input_names", "model_max_length"),
    *("tokenizer_class", SENTENCEPIECE, *SETTINGS_OF_MARIAN),
}
NAMED = ("unk_token", "pad_token", "eos_token", "bos_token")
CLASSES = ("TokenizersBackend", "PreTrainedTokenizerFast")  # the library's names of no other class
PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


class TokenizerFile:
    """The tokenizer of a folder, with the methods of the library's that a translator calls.

    Args:
        tokenizer: of the file, set up as the library would do it.
        model_max_length: tokens of the longest source of the training; `None` if it is not known.
    """

    is_fast = False  # it tells no offsets

    def __init__(self, tokenizer: Tokenizer, model_max_length: int | None = None) -> None:
        self.tokenizer, self.model_max_length = tokenizer, model_max_length

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """The tokenizer of a folder; `None` if only the library knows what it makes of the files.

        Raises:
            ValueError: if a file is damaged.
        """
        config = read_json(folder / "tokenizer_config.json")
        content = read_json(folder / "tokenizer.json")
        if not (isinstance(config, dict) and isinstance(content, dict)):
            return None
        if not _is_plain(config, content) or any(
            (folder / name).exists() for name in ("added_tokens.json", "special_tokens_map.json")
        ):
            return None
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        # The file has no such entry: it says whether the text "</s>" is spelled out.
        tokenizer.encode_special_tokens = config.get("split_special_tokens", False)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return cls(tokenizer, config.get("model_max_length"))

    def __call__(
        self,
        text: list[str] | None = None,
        text_target: list[str] | None = None,
        verbose: bool = False,
    ) -> dict[str, list[list[int]]]:
        """The `input_ids` of sentences, special ids included.

        Args:
            text: of sources, or
            text_target: of targets, whose ids are made alike.
            verbose: nothing is ever told.
        """
        sentences = first_given(text, text_target)
        return {"input_ids": [encoded.ids for encoded in self.tokenizer.encode_batch(sentences)]}

    @property
    def all_special_ids(self) -> list[int]:
        added = self.tokenizer.get_added_tokens_decoder()
        return [token for token, content in added.items() if content.special]

    @property
    def unk_token_id(self) -> int | None:
        piece = getattr(self.tokenizer.model, "unk_token", None)
        return None if piece is None else self.tokenizer.token_to_id(piece)

    def __len__(self) -> int:
        """The number of pieces."""
        return self.tokenizer.get_vocab_size()

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str | None]:
        return [self.tokenizer.id_to_token(token) for token in ids]

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False) -> str:
        return self.tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def batch_decode(
        self, sequences: Iterable[list[int]], skip_special_tokens: bool = False
    ) -> list[str]:
        return self.tokenizer.decode_batch(list(sequences), skip_special_tokens=skip_special_tokens)


def _is_plain(config: dict[str, Any], content: dict[str, Any]) -> bool:
    """Whether the library would add nothing to the file but what `TokenizerFile.load` does."""
    named = [config[name] for name in NAMED if config.get(name) is not None]
    special = {
        token["content"]
        for token in content.get("added_tokens", [])
        if token["special"] and all(token[name] == value for name, value in PLAIN.items())
    }
    return (
        config.get("tokenizer_class") in CLASSES
        and config.keys() <= {*IDLE, *NAMED, "clean_up_tokenization_spaces", "split_special_tokens"}
        and config.get("clean_up_tokenization_spaces") is False
        and isinstance(config.get("split_special_tokens", False), bool)
        and all(isinstance(piece, str) and piece in special for piece in named)
        and content.get("post_processor") is not None
    )
