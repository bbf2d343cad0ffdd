# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a translation gives: hypotheses of an engine, translations of a caller, and its errors."""

from dataclasses import dataclass
from typing import NamedTuple


class Hypothesis(NamedTuple):
    """A translation of a source, as an engine has found it.

    `ids` are target ids without the start and padding, and with `</s>` if it has ended; `log_prob`
    is the sum over those that follow a forced prefix, `None` where the engine was not asked for it.
    """

    ids: list[int]
    log_prob: float | None


@dataclass(frozen=True)
class Translation:
    """One of the translations of a sentence. Logarithms are natural.

    `log_prob` is the model's log-probability of the pieces, of those alone that follow a forced
    prefix; `score` is `log_prob` divided by the length penalty of so many pieces, by which a search
    ranks. `ids` are the pieces, with `</s>` if the translation has ended.
    """

    text: str
    score: float
    log_prob: float
    ids: list[int]


@dataclass(frozen=True)
class MBRTranslation(Translation):
    """The candidate that is most like the others; `utility` says how much, 0 to 100."""

    utility: float


class LongTextError(ValueError):
    """A text has more tokens than the model has positions, or than the translator takes.

    `place` is the index of the sentence in the input, counted from 0.
    """

    def __init__(self, place: int, message: str) -> None:
        super().__init__(message)
        self.place = place


class LongSourceError(LongTextError):
    """A source is too long.

    Args:
        place: as for `LongTextError`.
        num_tokens: of the source.
        most: that it may have.
        is_choice: whether a caller may choose to have more; else the model has no more positions.
    """

    def __init__(self, place: int, num_tokens: int, most: int, *, is_choice: bool = False) -> None:
        reason = (
            f"A sentence of {num_tokens} tokens needs as many positions, but the model has {most}; "
            f"split the sentence, or use a model with a larger max_position_embeddings."
        )
        if is_choice:
            reason = (
                f"A sentence of {num_tokens} tokens is longer than the {most} that one may have; "
                f'split it (split="sentences" and --split sentences translate so), or allow more '
                f"by max_source_tokens."
            )
        super().__init__(place, reason)


class LongPrefixError(LongTextError):
    """A prefix leaves no position for what follows it, or is longer than a translation may be."""

    def __init__(self, place: int, num_tokens: int, most: int, *, is_choice: bool = False) -> None:
        reason = f"leaves nothing of the {most} positions that the model has"
        if is_choice:
            reason = f"is longer than the {most} that a translation may have"
        super().__init__(place, f"A prefix of {num_tokens} tokens {reason}; shorten the prefix.")
