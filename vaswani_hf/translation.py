# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Text in, translated text out."""

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Self

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging


class Translator:
    """A model and its tokenizer: sentences in, translations out, in the same order.

    Args:
        model: any sequence-to-sequence model of the library; put into evaluation mode.
        tokenizer: its tokenizer.
        num_beams: beam width; `None` for the one in the model's generation config.
        length_penalty: exponent of the library's length penalty; `None` likewise.
        max_extra_tokens: a translation has at most so many tokens more than the longest source of
            its batch (section 6.1: 50).
        batch_tokens: padded source tokens in a batch, at most; a longer sentence is a batch alone.
        max_batch_sentences: sentences in a batch, at most.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        *,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        max_extra_tokens: int = 50,
        batch_tokens: int = 4096,
        max_batch_sentences: int = 64,
    ) -> None:
        for name, value in [
            ("num_beams", num_beams),
            ("batch_tokens", batch_tokens),
            ("max_batch_sentences", max_batch_sentences),
        ]:
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {name}={value}.")
        if max_extra_tokens < 0:
            raise ValueError(
                f"max_extra_tokens must be at least 0, got max_extra_tokens={max_extra_tokens}."
            )
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_extra_tokens = max_extra_tokens
        self.batch_tokens = batch_tokens
        self.max_batch_sentences = max_batch_sentences
        given = {"num_beams": num_beams, "length_penalty": length_penalty}
        self.generation = {name: value for name, value in given.items() if value is not None}

    @classmethod
    def from_pretrained(
        cls, folder: str | PathLike[str], *, device: str | None = None, **options: object
    ) -> Self:
        """Load a folder or a Hub id; `device` such as `"cuda"`, `options` as for `Translator`."""
        model = AutoModelForSeq2SeqLM.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(model.to(device), tokenizer, **options)  # type: ignore[arg-type]

    def __call__(self, sentences: str | Iterable[str], *, progress: bool = False) -> list[str]:
        """Translate sentences; a blank one stays empty.

        Args:
            sentences: one sentence, or several.
            progress: whether to draw a progress bar.

        Returns:
            One translation a sentence, in the order they came.
        """
        sentences = [sentences] if isinstance(sentences, str) else list(sentences)
        translations = [""] * len(sentences)
        places = [place for place, sentence in enumerate(sentences) if sentence.strip()]
        if not places:
            return translations
        encoded = self.tokenizer([sentences[place] for place in places])["input_ids"]
        bar = logging.tqdm(total=len(places), disable=not progress, unit="sentence")
        with bar:
            for batch in self.batches([len(ids) for ids in encoded]):
                outputs = self.translate_ids([encoded[index] for index in batch])
                for index, translation in zip(batch, outputs, strict=True):
                    translations[places[index]] = translation
                bar.update(len(batch))
        return translations

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Group sentences by length, longest first, so that memory runs out at once or not at all.

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

    @torch.inference_mode()
    def translate_ids(self, sources: list[list[int]]) -> list[str]:
        """Translate one batch of source ids, each ending in `</s>`."""
        longest = max(map(len, sources))
        input_ids = torch.full((len(sources), longest), self.tokenizer.pad_token_id)
        attention_mask = torch.zeros_like(input_ids)
        for row, source in enumerate(sources):
            input_ids[row, : len(source)] = torch.tensor(source)
            attention_mask[row, : len(source)] = 1
        outputs = self.model.generate(
            input_ids=input_ids.to(self.model.device),
            attention_mask=attention_mask.to(self.model.device),
            max_new_tokens=longest + self.max_extra_tokens,
            **self.generation,
        )
        return self.tokenizer.batch_decode(outputs, skip_special_tokens=True)


__all__ = ["Translator"]
