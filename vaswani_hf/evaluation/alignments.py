# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How good are word alignments? By the alignment error rate (Och and Ney 2003)."""

from collections.abc import Collection
from dataclasses import dataclass

from ..text.pharaoh import Link, Links


@dataclass
class AlignmentScore:
    """How the links that were found agree with reference links, over all pairs so far.

    With links A, sure references S and possible references P, which contain S (Och and Ney 2003,
    section 6.2): precision is |A and P| / |A|, recall |A and S| / |S|, and the error rate
    1 - (|A and S| + |A and P|) / (|A| + |S|).
    """

    found: int = 0
    sure: int = 0
    found_sure: int = 0
    found_possible: int = 0

    def add(self, found: Collection[Link], reference: Links) -> None:
        """Count the links of one more pair."""
        links = set(found)
        self.found += len(links)
        self.sure += len(reference.sure)
        self.found_sure += len(links & reference.sure)
        self.found_possible += len(links & reference.possible)

    @property
    def precision(self) -> float:
        """In [0, 1]; 1 where nothing was found."""
        return self.found_possible / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """In [0, 1]; 1 where nothing is sure."""
        return self.found_sure / self.sure if self.sure else 1.0

    @property
    def error_rate(self) -> float:
        """In [0, 1]; 0 where there is neither a link nor a reference."""
        both = self.found + self.sure
        return 1 - (self.found_sure + self.found_possible) / both if both else 0.0

    def __str__(self) -> str:
        return (
            f"AER {100 * self.error_rate:.1f} %, precision {100 * self.precision:.1f} %, recall "
            f"{100 * self.recall:.1f} %, {self.found} links of {self.sure} sure ones"
        )


__all__ = ["AlignmentScore"]
