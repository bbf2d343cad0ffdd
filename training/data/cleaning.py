# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which pairs are trained on: every pair that is left out has a reason, and is counted under it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset

from ..settings.fields import DataArguments
from .corpora import CorpusPlan, mix, shares
from .corpus import Corpus
from .encoding import arrow_tables, lengths_of


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

    def reason(
        self, source: str | None, target: str | None, source_tokens: int, target_tokens: int
    ) -> int:
        """`KEPT`, or the place in `REASONS`, from 1, of what is wrong; duplicates are not seen.

        Args:
            source: text, or `None` where it could not be decoded.
            target: likewise.
            source_tokens: its length, `</s>` included.
            target_tokens: likewise.
        """
        if source is None or target is None:
            return UNDECODABLE
        source, target = source.strip(), target.strip()
        if not source or not target:
            return EMPTY
        if self.drop_copies and source == target:
            return COPY
        shorter, longer = sorted((source_tokens, target_tokens))
        if longer > self.max_length:
            return TOO_LONG
        ratio = self.max_length_ratio
        if ratio is not None and longer - 1 > ratio * (shorter - 1):
            return LENGTH_RATIO
        return KEPT


def reasons_of(pairs: Dataset, rules: CleaningRules) -> np.ndarray:
    """For each encoded pair `KEPT`, or the place of its reason in `REASONS`, `(len(pairs),)`.

    Of duplicates the first is kept. They are known by a hash of 64 bits, 8 bytes a pair: among 5
    million pairs, two different ones have the same with a probability below 1e-6.
    """
    reasons = np.empty(len(pairs), dtype=np.int8)
    hashes = np.empty(len(pairs) if rules.drop_duplicates else 0, dtype=np.uint64)
    first = 0
    for table in arrow_tables(pairs, ["source", "target", "input_ids", "labels"]):
        texts = zip(table["source"].to_pylist(), table["target"].to_pylist(), strict=True)
        lengths = zip(lengths_of(table, "input_ids"), lengths_of(table, "labels"), strict=True)
        for place, (pair, tokens) in enumerate(zip(texts, lengths, strict=True), start=first):
            reasons[place] = rules.reason(*pair, *map(int, tokens))
            if rules.drop_duplicates:
                hashes[place] = _hash(*pair)
        first += len(table)
    if rules.drop_duplicates:
        kept = np.flatnonzero(reasons == KEPT)
        is_first = np.zeros(len(kept), dtype=bool)
        is_first[np.unique(hashes[kept], return_index=True)[1]] = True
        reasons[kept[~is_first]] = DUPLICATE
    return reasons


def clean_and_mix(corpus: Corpus, pairs: Dataset, rules: CleaningRules, seed: int) -> Dataset:
    """Leave out the pairs that the rules do not want, and mix the corpora by their weights.

    Args:
        corpus: its counts are set to what was read, dropped and kept.
        pairs: its encoded split `train`.
        rules: which pairs are wanted.
        seed: of the mixture.

    Raises:
        ValueError: if nothing is left of a corpus.
    """
    reasons = reasons_of(pairs, rules)
    parts, counts, first = [], {}, 0
    for plan, size in zip(corpus.plans, corpus.sizes, strict=True):
        of_part = reasons[first : first + size]
        counts[plan.name] = count_reasons(of_part)
        if not counts[plan.name]["pairs_kept"]:
            name = "training pair" if len(corpus.plans) == 1 else f"pair of {plan.name}"
            raise ValueError(
                f"No {name} is usable: {describe(counts[plan.name])}. The limits are max_length="
                f"{rules.max_length} tokens and max_length_ratio={rules.max_length_ratio}."
            )
        parts.append(first + np.flatnonzero(of_part == KEPT))
        first += size
    probabilities = shares(corpus.plans)
    corpus.counts = report(corpus.plans, counts)
    if probabilities is None or len(parts) == 1:
        if corpus.counts["pairs_kept"] == len(pairs):
            return pairs
        return pairs.select(np.concatenate(parts))
    mixed = mix([pairs.select(part) for part in parts], probabilities, seed)
    corpus.counts["pairs_per_epoch"] = len(mixed)
    return mixed


def count_reasons(reasons: np.ndarray) -> dict[str, int]:
    """`pairs_read`, each key of `REASONS` and `pairs_kept`, of what `reasons_of` gave."""
    kept, *dropped = np.bincount(reasons, minlength=len(REASONS) + 1).tolist()
    return {
        "pairs_read": len(reasons),
        **dict(zip(REASONS, dropped, strict=True)),
        "pairs_kept": kept,
    }


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


def describe(counts: dict[str, Any]) -> str:
    """The counts in a sentence, with percent of the pairs that were read."""

    def of_read(key: str) -> str:
        return f"{counts[key]:,} ({100 * counts[key] / max(counts['pairs_read'], 1):.2f} %)"

    dropped = [f"{of_read(key)} {name}" for key, name in REASONS.items() if counts[key]]
    return (
        f"{counts['pairs_read']:,} pairs read, {of_read('pairs_kept')} kept, dropped "
        f"{', '.join(dropped) or 'none'}"
    )


def _hash(source: str | None, target: str | None) -> int:
    text = f"{len(source or '')} {source}{target}"  # the length says where the target begins
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    )
