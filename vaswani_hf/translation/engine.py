# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The part that all engines share: sentences to batches of ids, and back to text in their order."""

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .options import check_at_least


class LongSourceError(ValueError):
    """A source has more tokens than the model has positions.

    `place` is the index of the sentence in the input, counted from 0.
    """

    def __init__(self, place: int, num_tokens: int, most: int) -> None:
        super().__init__(
            f"A sentence of {num_tokens} tokens needs as many positions, but the model has {most}; "
            f"split the sentence, or use a model with a larger max_position_embeddings."
        )
        self.place = place


class TextTranslator(abc.ABC):
    """Translates sentences, in their order; each engine implements `target_ids`.

    Args:
        tokenizer: makes source ids, each sentence ending in `</s>`; the library's, or a
            `TokenizerFile`.
        target_tokenizer: makes text of target ids; `None` where `tokenizer` does.
        batch_tokens: most padded source tokens of a batch; a longer sentence is a batch of its own.
        max_batch_sentences: most sentences of a batch.
    """

    max_extra_tokens: int
    max_positions: int | None  # most source tokens; `None` for no limit

    def __init__(
        self,
        tokenizer: Any,
        target_tokenizer: Any,
        batch_tokens: int,
        max_batch_sentences: int,
    ) -> None:
        check_at_least(1, batch_tokens=batch_tokens, max_batch_sentences=max_batch_sentences)
        self.tokenizer = tokenizer
        self.target_tokenizer = tokenizer if target_tokenizer is None else target_tokenizer
        self.batch_tokens = batch_tokens
        self.max_batch_sentences = max_batch_sentences

    def __call__(self, sentences: str | Iterable[str], *, progress: bool = False) -> list[str]:
        """Translate sentences; a blank one stays empty.

        Args:
            sentences: one sentence, or several.
            progress: whether to draw a progress bar.

        Returns:
            One translation for each sentence, in the same order.

        Raises:
            LongSourceError: if a sentence has more tokens than the model has positions; nothing is
                translated then.
        """
        sentences = [sentences] if isinstance(sentences, str) else list(sentences)
        translations = [""] * len(sentences)
        places = [place for place, sentence in enumerate(sentences) if sentence.strip()]
        if not places:
            return translations
        encoded = self.tokenizer([sentences[place] for place in places])["input_ids"]
        if self.max_positions is not None:
            for place, ids in zip(places, encoded, strict=True):
                if len(ids) > self.max_positions:
                    raise LongSourceError(place, len(ids), self.max_positions)
        with _progress_bar(len(places), is_shown=progress) as advance:
            for batch in self.batches([len(ids) for ids in encoded]):
                outputs = self.translate_ids([encoded[index] for index in batch])
                for index, translation in zip(batch, outputs, strict=True):
                    translations[places[index]] = translation
                advance(len(batch))
        return translations

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Group sentences by length, the longest first, so that memory runs out at once or never.

        Args:
            lengths: source tokens of each sentence.

        Returns:
            Lists of indices into `lengths`; each index occurs once.
        """
        batches: list[list[int]] = []
        for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
            room = self.batch_tokens // lengths[batches[-1][0]] if batches else 0
            if batches and len(batches[-1]) < min(room, self.max_batch_sentences):
                batches[-1].append(index)
            else:
                batches.append([index])
        return batches

    def translate_ids(self, sources: list[list[int]]) -> list[str]:
        """Translate one batch of source ids, each ending in `</s>`."""
        return self.target_tokenizer.batch_decode(
            self.target_ids(sources), skip_special_tokens=True
        )

    @abc.abstractmethod
    def target_ids(self, sources: list[list[int]]) -> list[list[int]]:
        """The target ids of one batch of source ids; they may include special ids."""


@contextmanager
def _progress_bar(total: int, *, is_shown: bool) -> Iterator[Callable[[int], object]]:
    """A function that moves the bar on by so many sentences."""
    if not is_shown:
        yield lambda count: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, unit="sentence") as bar:
        yield bar.update
