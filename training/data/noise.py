# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Noise in training text, by which a model learns what users write: other cases, and typos."""

import re
from dataclasses import dataclass
from random import Random

from ..settings.fields import NOISE, DataArguments


LETTERS = re.compile(r"[^\W\d_]{2,}")  # a word that may have a typo
# The rows of a keyboard, each half a key to the right of the one above it.
ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_PLACES = {key: (row, place) for row, keys in enumerate(ROWS) for place, key in enumerate(keys)}
# Beside a key, above it and below it.
_STEPS = ((0, -1), (0, 1), (-1, 0), (-1, 1), (1, -1), (1, 0))
NEIGHBOURS = {
    key: "".join(
        ROWS[row + down][place + right]
        for down, right in _STEPS
        if 0 <= row + down < len(ROWS) and 0 <= place + right < len(ROWS[row + down])
    )
    for key, (row, place) in _PLACES.items()
}


@dataclass(frozen=True)
class Noise:
    """What is done to the pairs of a corpus, each time that one is trained on.

    Args:
        upper_case_noise: share of the pairs of which both sides are in capitals.
        title_case_noise: share of the pairs of which both sides have a capital at the beginning of
            each word.
        lower_case_noise: share of the pairs whose source has no capitals.
        typo_noise: share of the words of two letters or more in sources that have a typo: two
            letters are swapped, one is missing, one is doubled, or one is that of a key beside
            it on an English keyboard; each as often. A word without such a key has one of the
            others.

    Raises:
        ValueError: if the shares of pairs sum to more than 1.
    """

    upper_case_noise: float = 0.0
    title_case_noise: float = 0.0
    lower_case_noise: float = 0.0
    typo_noise: float = 0.0

    def __post_init__(self) -> None:
        total = self.upper_case_noise + self.title_case_noise + self.lower_case_noise
        if total > 1:
            raise ValueError(
                f"upper_case_noise, title_case_noise and lower_case_noise are shares of all pairs "
                f"and sum to {total:g}; lower them to 1 together."
            )

    @classmethod
    def of(cls, arguments: DataArguments) -> "Noise":
        """The noise of a corpus."""
        return cls(**{name: getattr(arguments, name) for name in NOISE})

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def __call__(self, source: str, target: str, chooser: Random) -> tuple[str, str]:
        """A pair with noise.

        Args:
            source: text.
            target: its translation.
            chooser: draws, by its `random` alone.
        """
        if not self:
            return source, target
        drawn = chooser.random() - self.upper_case_noise
        if drawn < 0:
            source, target = source.upper(), target.upper()
        elif (drawn := drawn - self.title_case_noise) < 0:
            source, target = title_case(source), title_case(target)
        elif drawn < self.lower_case_noise:
            source = source.lower()
        if self.typo_noise:
            source = LETTERS.sub(lambda found: self._typo(found[0], chooser), source)
        return source, target

    def _typo(self, word: str, chooser: Random) -> str:
        return typo(word, chooser) if chooser.random() < self.typo_noise else word


def title_case(text: str) -> str:
    """A capital at the beginning of each word; white space and other letters stay."""
    return re.sub(r"\S+", lambda found: found[0][0].upper() + found[0][1:], text)


def typo(word: str, chooser: Random) -> str:
    """A word with one typo, as `Noise` says.

    Two equal letters that are swapped leave it as it is.

    Args:
        word: of two letters or more.
        chooser: draws, by its `random` alone.
    """
    on_keys = [place for place, letter in enumerate(word) if letter.lower() in NEIGHBOURS]
    kind = _below(4 if on_keys else 3, chooser)
    if kind == 3:
        place = on_keys[_below(len(on_keys), chooser)]
        letter = word[place]
        near = NEIGHBOURS[letter.lower()]
        key = near[_below(len(near), chooser)]
        return word[:place] + (key.upper() if letter.isupper() else key) + word[place + 1 :]
    place = _below(len(word) - (kind == 0), chooser)
    before, letter, after = word[:place], word[place], word[place + 1 :]
    if kind == 0:
        return before + after[0] + letter + after[1:]
    return before + (letter * 2 if kind == 2 else "") + after


def _below(count: int, chooser: Random) -> int:
    return int(count * chooser.random())
