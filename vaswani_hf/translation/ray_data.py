# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Translation of a corpus by Ray Data: what its `map_batches` and `flat_map` call on the workers.

Nothing here imports Ray, whose workers import this.
"""

from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

from ..text.lines import decode_lines
from ..text.shards import Shard
from .engine import TextTranslator


class RayTranslator:
    """Translates a column of each batch; `map_batches` makes one for each of its workers.

    There is one row out for each row in, and a translation is one line.

    Args:
        model: a folder that every worker sees, or with transformers an id on the Hub.
        engine: `"transformers"` or `"ctranslate2"`.
        source_column: of the sentences.
        target_column: of their translations.
        options: as for `from_pretrained` of the engine's translator, such as `num_beams`.

    Raises:
        ValueError: if there is no such engine, or the model or an option is wrong.
    """

    def __init__(
        self,
        model: str | PathLike[str],
        *,
        engine: str = "transformers",
        source_column: str = "text",
        target_column: str = "translation",
        **options: Any,
    ) -> None:
        self.source_column, self.target_column = source_column, target_column
        self.translator: TextTranslator
        if engine == "transformers":
            from .translator import Translator

            self.translator = Translator.from_pretrained(model, **options)
        elif engine == "ctranslate2":
            from .ctranslate2 import CTranslate2Translator

            self.translator = CTranslate2Translator.from_pretrained(model, **options)
        else:
            raise ValueError(f'engine must be "transformers" or "ctranslate2", got {engine=}.')

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a batch, and one more with the translations; a blank sentence stays empty.

        Args:
            batch: column: its values, as `batch_format="numpy"`, the default, gives them.

        Raises:
            ValueError: if there is no such column, a value is no text, or a sentence has more
                tokens than the model has positions.
        """
        if self.source_column not in batch:
            raise ValueError(
                f"The batch has no column {self.source_column!r} but {', '.join(map(repr, batch))};"
                f" name one by source_column."
            )
        sentences = list(batch[self.source_column])
        for sentence in sentences:
            if not isinstance(sentence, str):
                raise ValueError(
                    f"Column {self.source_column!r} must hold texts, got "
                    f"{type(sentence).__name__}: {sentence!r:.80}."
                )
        translations = self.translator(sentences)
        lines = [" ".join(translation.splitlines()) for translation in translations]
        return {**batch, self.target_column: lines}


def lines_of_shard(row: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    r"""The lines of a part of a file, for `flat_map`; only `\n` and `\r\n` end one.

    Args:
        row: `path`, which every worker sees, and `shard`, such as `3/64`, by which no worker reads
            the whole file.

    Returns:
        For each line its `text` without the end, `line`, counted from 1 in the part, and what the
        row has.

    Raises:
        ValueError: if a line is not UTF-8, or the shard is none.
    """
    shard = Shard.parse(row["shard"])
    with open(row["path"], "rb") as file:
        lines = decode_lines(shard.lines(file), f"{row['path']}, shard {shard}")
        for number, text in enumerate(lines, start=1):
            yield {**row, "line": number, "text": text}


__all__ = ["RayTranslator", "lines_of_shard"]
