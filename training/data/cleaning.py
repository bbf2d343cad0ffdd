# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which pairs are trained on: every pair that is left out has a reason, and is counted under it.

Some reasons need the text alone, and are found before a vocabulary is learned from what is kept.
The others need lengths in tokens, and are found once the pairs are encoded.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset

from vaswani_hf.tokenization_vaswani import join_pieces

from ..settings.fields import DataArguments
from .corpora import CorpusPlan
from .lengths import arrow_tables


KEPT = 0
# In the order in which they are asked; a pair counts under the first that holds.
REASONS = {
    "dropped_undecodable": "not UTF-8",
    "dropped_empty": "with an empty side",
    "dropped_copy": "with a target that is its source",
    "dropped_too_long": "too long",
    "dropped_length_ratio": "of too unequal lengths",
    "dropped_duplicate": "seen before",
}
UNDECODABLE, EMPTY, COPY, TOO_LONG, LENGTH_RATIO, DUPLICATE = range(1, len(REASONS) + 1)
PERCENT = "percent_of_read"


@dataclass(frozen=True)
class CleaningRules:
    """What makes a pair unusable, beside an empty side and bytes that are not UTF-8.

    Args:
        max_length: tokens that a side may have, `</s>` included.
        max_length_ratio: how many times the shorter side's tokens the longer may have, `</s>` not
            counted; `None` for any.
        drop_copies: whether a pair goes whose target is its source, but for outer white space.
        drop_duplicates: whether a pair goes that is there already, both sides alike.
    """

    max_length: int
    max_length_ratio: float | None = None
    drop_copies: bool = False
    drop_duplicates: bool = False

    @classmethod
    def of(cls, arguments: DataArguments) -> "CleaningRules":
        """The rules that a recipe sets."""
        return cls(
            arguments.max_length,
            arguments.max_length_ratio,
            arguments.drop_copies,
            arguments.drop_duplicates,
        )

    def reason_by_text(self, source: str | None, target: str | None) -> int:
        """`KEPT`, or what is wrong with the text of a pair; duplicates are not seen.

        Args:
            source: text, or `None` where it could not be decoded.
            target: likewise.
        """
        if source is None or target is None:
            return UNDECODABLE
        source, target = source.strip(), target.strip()
        if not source or not target:
            return EMPTY
        return COPY if self.drop_copies and source == target else KEPT

    def reasons_by_length(
        self, source_lengths: np.ndarray, target_lengths: np.ndarray
    ) -> np.ndarray:
        """For each pair `KEPT`, or what is wrong with its lengths, `(pairs,)`.

        Args:
            source_lengths: `(pairs,)`, tokens of each source, `</s>` included.
            target_lengths: `(pairs,)`, likewise.
        """
        shorter = np.minimum(source_lengths, target_lengths)
        longer = np.maximum(source_lengths, target_lengths)
        reasons = np.full(len(longer), KEPT, dtype=np.int8)
        if self.max_length_ratio is not None:
            reasons[longer - 1 > self.max_length_ratio * (shorter - 1)] = LENGTH_RATIO
        reasons[longer > self.max_length] = TOO_LONG
        return reasons


@dataclass(frozen=True)
class CheckedText:
    """What is known of pairs before they are encoded.

    Args:
        by_text: `(pairs,)`, for each pair `KEPT`, or what is wrong with its text.
        hashes: `(pairs,)`, 64 bits of each pair's text, by which duplicates are known; `None` where
            they are kept. Among 5 million pairs, two different ones have the same hash with a
            probability below 1e-6.
    """

    by_text: np.ndarray
    hashes: np.ndarray | None = None

    def reasons(self, by_length: np.ndarray | None = None) -> np.ndarray:
        """For each pair `KEPT`, or the first reason in `REASONS` that holds, counted from 1.

        Args:
            by_length: `(pairs,)`, as `CleaningRules.reasons_by_length` gives them; `None` before
                the pairs are encoded.
        """
        reasons = self.by_text.copy()
        if by_length is not None:
            reasons = np.where(reasons == KEPT, by_length, reasons)
        if self.hashes is not None:
            kept = np.flatnonzero(reasons == KEPT)
            is_first = np.zeros(len(kept), dtype=bool)
            is_first[np.unique(self.hashes[kept], return_index=True)[1]] = True
            reasons[kept[~is_first]] = DUPLICATE
        return reasons


def check_text(pairs: Dataset, rules: CleaningRules, segmented: bool = False) -> CheckedText:
    """Ask of each pair what needs no ids.

    Args:
        pairs: columns `source` and `target`; `None` where a text could not be decoded.
        rules: which pairs are wanted.
        segmented: the text is cut by subword-nmt; words are compared, not their pieces.
    """
    by_text = np.empty(len(pairs), dtype=np.int8)
    hashes = np.empty(len(pairs), dtype=np.uint64) if rules.drop_duplicates else None
    first = 0
    for table in arrow_tables(pairs, ["source", "target"]):
        sides = [table[side].to_pylist() for side in ("source", "target")]
        if segmented:
            sides = [[text and join_pieces(text) for text in side] for side in sides]
        for place, pair in enumerate(zip(*sides, strict=True), start=first):
            by_text[place] = rules.reason_by_text(*pair)
            if hashes is not None:
                hashes[place] = _hash(*pair)
        first += len(table)
    return CheckedText(by_text, hashes)


def _hash(source: str | None, target: str | None) -> int:
    text = f"{len(source or '')} {source}{target}"  # the length says where the target begins
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    )


# Counts


def count_reasons(reasons: np.ndarray) -> dict[str, int]:
    """`pairs_read`, each key of `REASONS` and `pairs_kept`, of what `CheckedText.reasons` gave."""
    kept, *dropped = np.bincount(reasons, minlength=len(REASONS) + 1).tolist()
    return {
        "pairs_read": len(reasons),
        **dict(zip(REASONS, dropped, strict=True)),
        "pairs_kept": kept,
    }


def count_by_corpus(
    plans: list[CorpusPlan], sizes: list[int], reasons: np.ndarray, rules: CleaningRules
) -> dict[str, dict[str, int]]:
    """What `count_reasons` makes of each corpus, by its name.

    Args:
        plans: the corpora.
        sizes: how many pairs each of them has; they stand one after the other.
        reasons: `(pairs,)`, of all of them.
        rules: which pairs are wanted.

    Raises:
        ValueError: if nothing is left of a corpus.
    """
    counts: dict[str, dict[str, int]] = {}
    first = 0
    for plan, size in zip(plans, sizes, strict=True):
        counts[plan.name] = of_one = count_reasons(reasons[first : first + size])
        if not of_one["pairs_kept"]:
            name = "training pair" if len(plans) == 1 else f"pair of {plan.name}"
            raise ValueError(
                f"No {name} is usable: {describe(of_one)}. The limits are max_length="
                f"{rules.max_length} tokens and max_length_ratio={rules.max_length_ratio}."
            )
        first += size
    return counts


def report(plans: list[CorpusPlan], counts: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """What `results.json` says: the counts over all corpora, with percent, and of each one.

    Args:
        plans: the corpora.
        counts: by a corpus' name, what `count_reasons` makes; a key that is not there is 0.
    """
    keys = ("pairs_read", *REASONS, "pairs_kept")
    total: dict[str, Any] = {
        key: sum(of_one.get(key, 0) for of_one in counts.values()) for key in keys
    }
    read = max(total["pairs_read"], 1)
    total[PERCENT] = {key: round(100 * total[key] / read, 4) for key in keys[1:]}
    if len(plans) > 1:
        total["corpora"] = {
            plan.name: {"weight": plan.weight}
            | {key: counts[plan.name].get(key, 0) for key in keys}
            for plan in plans
        }
    return total


def describe(counts: Mapping[str, Any]) -> str:
    """The counts in a sentence, with percent of the pairs that were read."""

    def of_read(key: str) -> str:
        return f"{counts[key]:,} ({100 * counts[key] / max(counts['pairs_read'], 1):.2f} %)"

    dropped = [f"{of_read(key)} {name}" for key, name in REASONS.items() if counts[key]]
    return (
        f"{counts['pairs_read']:,} pairs read, {of_read('pairs_kept')} kept, dropped "
        f"{', '.join(dropped) or 'none'}"
    )
