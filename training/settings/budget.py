# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How many padded tokens an update has, and how its batches share them (section 5.1)."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from transformers import TrainingArguments


SIDES = ("source", "target")


@dataclass(frozen=True)
class TokenBudget:
    """Limits of an update, over all processes, and of each of its batches.

    Everything that makes, plans or checks training batches asks this one object.

    Args:
        source_tokens: padded source tokens of an update, at most.
        target_tokens: padded target tokens of an update, at most.
        processes: which do equally many batches.
        accumulation: batches that a process does for an update.
        pad_to_multiple_of: lengths are padded to multiples of this, and batches to as many
            sentences as they hold, so that they have few different shapes. `None` pads to the
            longest pair of a batch and no further.
        max_padding: share of padding above which batches are cut smaller; 1 for batches as full as
            can be, as they are with `pad_to_multiple_of`.
        seed: of the order of the batches, and of which pairs of equal lengths share one.
        device_tokens: padded tokens a side that a device can hold, from which `accumulation`
            follows; `None` where there is no such limit.
    """

    source_tokens: int
    target_tokens: int
    processes: int = 1
    accumulation: int = 1
    pad_to_multiple_of: int | None = None
    max_padding: float = 1.0
    seed: int = 0
    device_tokens: int | None = None

    @classmethod
    def of(cls, training: TrainingArguments) -> "TokenBudget":
        """The budget of a run; `training` are its `VaswaniTrainingArguments`."""
        return cls(
            source_tokens=training.source_tokens,
            target_tokens=training.target_tokens,
            processes=training.world_size,
            accumulation=training.gradient_accumulation_steps,
            pad_to_multiple_of=training.pad_to_multiple_of,
            max_padding=training.max_padding,
            seed=training.seed if training.data_seed is None else training.data_seed,
            device_tokens=training.device_tokens,
        )

    @property
    def batches_per_update(self) -> int:
        """Batches of an update, of all processes."""
        return self.processes * self.accumulation

    @cached_property
    def batch_tokens(self) -> tuple[int, int]:
        """Padded source tokens and padded target tokens of one batch, at most."""
        num_batches = self.batches_per_update
        return self.source_tokens // num_batches, self.target_tokens // num_batches

    def of_one_process(self, seed: int) -> "TokenBudget":
        """The budget of batches of the same size that a process makes by itself."""
        source_tokens, target_tokens = self.batch_tokens
        return replace(
            self,
            source_tokens=source_tokens,
            target_tokens=target_tokens,
            processes=1,
            accumulation=1,
            seed=seed,
        )

    def padded(self, lengths: np.ndarray) -> np.ndarray:
        """Lengths, rounded up to multiples of `pad_to_multiple_of`."""
        multiple = self.pad_to_multiple_of or 1
        return -(-lengths // multiple) * multiple

    def num_sentences(self, source_length: int, target_length: int) -> int:
        """How many sentences of these padded lengths a batch holds."""
        source_tokens, target_tokens = self.batch_tokens
        return min(source_tokens // source_length, target_tokens // target_length)

    def field_to_raise(self, side: str) -> str:
        """The setting that makes batches larger on a side, `source` or `target`."""
        # Beside `device_tokens`, more tokens an update make more batches of the same size.
        is_limited_by_device = self.device_tokens is not None and self.accumulation > 1
        return "device_tokens" if is_limited_by_device else f"{side}_tokens"

    def check(self) -> None:
        """Refuse batches that hold no sentence.

        Raises:
            ValueError: naming the side and the setting to raise.
        """
        for side, tokens in zip(SIDES, self.batch_tokens, strict=True):
            if tokens < 2:
                raise ValueError(
                    f"{self._division(side)} leaves {tokens} tokens a batch, and a piece and "
                    f"`</s>` are 2; raise {self.field_to_raise(side)}."
                )

    def check_max_length(self, max_length: int) -> None:
        """Refuse a `max_length` that lets through pairs which no batch holds.

        Raises:
            ValueError: naming the side and the setting to raise.
        """
        for side, tokens in zip(SIDES, self.batch_tokens, strict=True):
            if max_length > tokens:
                raise ValueError(
                    f"max_length={max_length} but a batch holds {tokens} tokens, "
                    f"{self._division(side)}; raise {self.field_to_raise(side)} or lower "
                    f"max_length."
                )

    def check_lengths(
        self, source_lengths: np.ndarray, target_lengths: np.ndarray, of_split: str = ""
    ) -> None:
        """Refuse pairs that no batch holds.

        Args:
            source_lengths: `(pairs,)`, source tokens of each pair.
            target_lengths: `(pairs,)`, target tokens of each pair.
            of_split: what the error says behind the pair's place, such as ` of split train`.

        Raises:
            ValueError: naming the longest pair by its place from 0, and the setting to raise.
        """
        both = (source_lengths, target_lengths)
        for side, tokens, lengths in zip(SIDES, self.batch_tokens, both, strict=True):
            padded = self.padded(lengths)
            pair = int(padded.argmax())
            if padded[pair] > tokens:
                so_padded = f", padded to {padded[pair]}," if padded[pair] > lengths[pair] else ""
                raise ValueError(
                    f"Pair {pair}{of_split} has {lengths[pair]} {side} tokens{so_padded} but a "
                    f"batch holds {tokens}; raise {self.field_to_raise(side)} or lower max_length."
                )

    def _division(self, side: str) -> str:
        """How a side's tokens are divided, as errors say it."""
        tokens = getattr(self, f"{side}_tokens")
        return f"{side}_tokens={tokens} over {self.batches_per_update} batches an update"
