# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""BPE-dropout: a word is cut anew each time it is asked for (Provilkov et al. 2020, algorithm 1).

`tokenizers` has a dropout of its own, whose random numbers have no seed: no run could be repeated
with it, nor resumed as it would have gone on. This one takes its numbers from the caller.

Byte-pair encoding puts two neighbouring pieces together, again and again: those whose merge comes
first in its list. With dropout each possible merge is left out of a step with a probability, and
the first one of those that remain is made; none remains, and the word is done. As the merges are
looked at in their order until one is not left out, two draws skip many steps: how many first merges
in a row are made, and how many are left out before the next is. What follows from what is kept for
the next time, for words come again.
"""

import json
import math
from itertools import pairwise
from random import Random

from tokenizers import Tokenizer


MOST_KEPT_PIECES = 4_000_000  # of all cuts that are kept, about 220 MB; then they are forgotten
NEVER = 1 << 60  # the rank of two pieces that no merge puts together


class Cut:
    """A way to cut a word.

    Attributes:
        ids: of the pieces.
        ranks: of the merge of each piece with the next, `NEVER` where there is none.
        chain: this cut and those after it, each by the first merge of the one before, as far as
            they have been asked for.
        possible: the places of the pieces that a merge puts together with the next, in the order of
            the merges; `None` until it is asked for.
        is_done: whether no merge is possible.
    """

    __slots__ = ("chain", "ids", "is_done", "possible", "ranks")

    def __init__(self, ids: tuple[int, ...], ranks: tuple[int, ...]) -> None:
        self.ids, self.ranks = ids, ranks
        self.chain = [self]
        self.possible: list[int] | None = None
        self.is_done = min(ranks, default=NEVER) == NEVER


class BPEDropout:
    """Cuts the words of encoded texts anew.

    Args:
        tokenizer: of the `tokenizers` library; it encodes as it did before.
        dropout: with what probability a merge is left out of a step, above 0 and below 1.

    Raises:
        ValueError: if the tokenizer does not put pieces together by merges.
    """

    def __init__(self, tokenizer: Tokenizer, dropout: float) -> None:
        model = json.loads(tokenizer.to_str())["model"]
        if model["type"] != "BPE":
            raise ValueError(
                f"bpe_dropout={dropout} leaves out merges of byte-pair encoding, and the tokenizer "
                f"is of type {model['type']}; leave out bpe_dropout, or name another tokenizer."
            )
        self._log_made, self._log_dropped = math.log1p(-dropout), math.log(dropout)
        ids, inner = model["vocab"], model["continuing_subword_prefix"] or ""
        self._merges: dict[tuple[int, int], tuple[int, int]] = {}  # rank and result
        self._halves: dict[int, tuple[int, int]] = {}
        for rank, (left, right) in enumerate(model["merges"]):
            halves, merged = (ids[left], ids[right]), ids[left + right.removeprefix(inner)]
            self._merges[halves] = (rank, merged)
            self._halves.setdefault(merged, halves)
        self._forget()

    def _forget(self) -> None:
        self._starts: dict[tuple[int, ...], Cut] = {}  # by the pieces of a word without dropout
        self._cuts: dict[tuple[int, ...], Cut] = {}
        self._num_kept = 0

    def __call__(self, ids: list[int], words: list[int | None], chooser: Random) -> list[int]:
        """The ids of a text whose words are cut anew.

        Args:
            ids: as the tokenizer makes them.
            words: the number of the word that each is a piece of, `None` of special pieces.
            chooser: draws, by its `random` alone, whose numbers Python keeps from version to
                version.
        """
        if self._num_kept > MOST_KEPT_PIECES:
            self._forget()
        cut: list[int] = []
        first = 0
        for end in range(1, len(ids) + 1):
            if end == len(ids) or words[end] != words[first]:
                cut += self._draw(tuple(ids[first:end]), chooser)
                first = end
        return cut

    def _draw(self, word: tuple[int, ...], chooser: Random) -> tuple[int, ...]:
        cut = self._starts.get(word)
        if cut is None:
            characters = tuple(piece for whole in word for piece in self._characters(whole))
            cut = self._starts[word] = self._cut_of(characters, None)
        random, log = chooser.random, math.log
        while True:
            # Each step makes its first merge with probability 1 - dropout. `random` is below 1.
            num_made = int(log(1.0 - random()) / self._log_made)
            chain = cut.chain
            if num_made >= len(chain):
                self._follow(chain, num_made)
            cut = chain[min(num_made, len(chain) - 1)]
            if cut.is_done:
                return cut.ids
            num_dropped = 1 + int(log(1.0 - random()) / self._log_dropped)
            possible = self._possible(cut) if cut.possible is None else cut.possible
            if num_dropped >= len(possible):
                return cut.ids
            cut = self._merge(cut, possible[num_dropped])

    def _characters(self, piece: int) -> tuple[int, ...]:
        """What merges have made a piece of."""
        if piece not in self._halves:
            return (piece,)
        left, right = self._halves[piece]
        return self._characters(left) + self._characters(right)

    def _follow(self, chain: list[Cut], num_made: int) -> None:
        """Lengthen the chain of a cut to so many merges, or until none is possible."""
        while len(chain) <= num_made and not (last := chain[-1]).is_done:
            chain.append(self._merge(last, last.ranks.index(min(last.ranks))))

    def _possible(self, cut: Cut) -> list[int]:
        possible = [place for place, rank in enumerate(cut.ranks) if rank < NEVER]
        possible.sort(key=cut.ranks.__getitem__)  # of equal ranks the leftmost is first
        cut.possible = possible
        self._num_kept += len(possible)
        return possible

    def _merge(self, cut: Cut, place: int) -> Cut:
        """The cut in which the piece at a place and the next are one."""
        ids, ranks = cut.ids, cut.ranks
        merged = self._merges[ids[place], ids[place + 1]][1]
        before, after = ids[:place], ids[place + 2 :]
        left = (*ranks[: place - 1], self._rank(before[-1], merged)) if before else ()
        right = (self._rank(merged, after[0]), *ranks[place + 2 :]) if after else ()
        return self._cut_of((*before, merged, *after), left + right)

    def _cut_of(self, ids: tuple[int, ...], ranks: tuple[int, ...] | None) -> Cut:
        cut = self._cuts.get(ids)
        if cut is None:
            if ranks is None:
                ranks = tuple(self._rank(*both) for both in pairwise(ids))
            cut = self._cuts[ids] = Cut(ids, ranks)
            self._num_kept += len(ids)
        return cut

    def _rank(self, left: int, right: int) -> int:
        return self._merges.get((left, right), (NEVER,))[0]
