# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""A search that finds nothing but trees: what cannot become one over the sentence is forbidden.

Shapes: `B` sentences, `K` beams, `V` pieces, `P` pieces of trees.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessor, PreTrainedTokenizerBase

from ..tokenization_vaswani import BYTES, SPECIAL_TOKENS, WORD_START


@dataclass(frozen=True)
class TreePieces:
    """The pieces of a vocabulary that trees are made of: each tag and each bracket is one.

    Args:
        tags: id and tag of each piece that stands for a word.
        opening: id and label of each bracket that opens.
        closing: id and label of each bracket that closes.
        end: id of the piece that ends a sequence.
        word_starts: `(V,)`, the pieces that a word of a sentence begins with.
    """

    tags: dict[int, str]
    opening: dict[int, str]
    closing: dict[int, str]
    end: int
    word_starts: Tensor

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> "TreePieces":
        """Those of a tokenizer that `train_tokenizer` has made with `whole_words=tree_words(...)`.

        Raises:
            ValueError: if it has none.
        """
        pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        tags, opening, closing = {}, {}, {}
        for token in range(len(SPECIAL_TOKENS) + len(BYTES), len(pieces)):
            word = pieces[token].removeprefix(WORD_START)
            if word == pieces[token] or not word:
                break  # of a letter: these are what was learned
            if word[0] == "(":
                opening[token] = word[1:]
            elif word[0] == ")":
                closing[token] = word[1:]
            elif opening:
                break
            else:
                tags[token] = word
        if not tags or not opening or set(opening.values()) != set(closing.values()):
            raise ValueError(
                f"The tokenizer of {tokenizer.name_or_path or 'this model'} has no pieces for tags "
                f"and brackets; the model was not trained with task: parsing."
            )
        starts = [piece.startswith(WORD_START) for piece in pieces]
        return cls(tags, opening, closing, int(tokenizer.eos_token_id), torch.tensor(starts))

    def num_words(self, input_ids: Tensor) -> list[int]:
        """The words of each sentence of ids `(B, S)`."""
        return self.word_starts.to(input_ids.device)[input_ids].sum(dim=1).tolist()


def tree_words(trees: Iterable[Sequence[str]]) -> list[str]:
    """Tags and brackets of sequences, in the order in which a vocabulary has them.

    A bracket that opens has its counterpart, even where the sequences lack it.

    Args:
        trees: as `linearize` gives them.
    """
    tags, labels = set(), set()
    for tokens in trees:
        for token in tokens:
            if token[0] in "()":
                labels.add(token[1:])
            else:
                tags.add(token)
    brackets = [f"{side}{label}" for side in "()" for label in sorted(labels)]
    return [*sorted(tags), *brackets]


class _State(NamedTuple):
    """What a prefix leaves open: a stack of labels, and whether the innermost bracket is empty."""

    stack: "tuple[str, _Stack] | None" = None
    depth: int = 0
    num_words: int = 0
    is_empty: bool = False
    is_over: bool = False  # ended, or no beginning of a tree


_Stack = tuple[str, "_Stack"] | None
_OVER = _State(is_over=True)


class TreeConstraint(LogitsProcessor):
    """Lets through only what can still become a tree over the words of its sentence.

    A tree has one root, each of its brackets holds a word, and it has as many tags as the sentence
    has words. Where room gets short, only what ends in time is let through. The state of a prefix
    follows from that of the step before, so that a step costs the same however long it is.

    Args:
        pieces: of the tokenizer.
        num_words: of each sentence of the batch; its beams stand one after the other.
        max_tokens: tokens that each sequence may have, with its end; `None` for any number, whose
            trees may then be cut off by the limit of the search.

    Raises:
        ValueError: if a sentence has no words, or not even the smallest tree has room.
    """

    def __init__(
        self, pieces: TreePieces, num_words: Sequence[int], max_tokens: Sequence[int] | None = None
    ) -> None:
        self.pieces, self.num_words = pieces, list(num_words)
        self.max_tokens = [math.inf] * len(self.num_words) if max_tokens is None else max_tokens
        for place, (words, most) in enumerate(zip(self.num_words, self.max_tokens, strict=True)):
            if words < 1:
                raise ValueError(f"Sentence {place} of the batch (counted from 0) has no words.")
            if most < words + 3:  # a bracket around them, and the end
                raise ValueError(
                    f"A tree over {words} words needs {words + 3} tokens, and sentence {place} of "
                    f"the batch (counted from 0) may have {most}; raise the limit of the search."
                )
        ids = [*pieces.tags, *pieces.opening, *pieces.closing, pieces.end]
        self._ids = torch.tensor(ids)  # (P,)
        labels = list(pieces.opening.values())
        closing = {label: token for token, label in pieces.closing.items()}
        begin = len(pieces.tags)
        self._tags, self._opening = slice(0, begin), slice(begin, begin + len(labels))
        self._closing = {label: ids.index(closing[label]) for label in labels}
        self._states: dict[bytes, _State] = {}
        self._prompt_length = 0

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Forbid pieces after prefixes `(B * K, length)` in their scores `(B * K, V)`."""
        rows = input_ids.cpu().numpy()
        if not self._states or rows.shape[1] <= self._prompt_length:
            self._prompt_length = rows.shape[1]
        num_beams = len(rows) // len(self.num_words)
        allowed = np.zeros((len(rows), len(self._ids)), dtype=bool)
        states: dict[bytes, _State] = {}
        for place, row in enumerate(rows):
            prefix = row.tobytes()
            sentence = place // num_beams
            # Sentences may begin alike, and differ in their words.
            key = sentence.to_bytes(4) + prefix
            state = states.get(key)
            if state is None:
                before = self._states.get(key[: -row.itemsize])
                state = self._after(row) if before is None else self._step(before, int(row[-1]))
                states[key] = state
            num_tokens = rows.shape[1] - self._prompt_length
            self._allow(allowed[place], state, sentence, num_tokens)
        self._states = states
        ids = self._ids.to(scores.device)
        is_forbidden = torch.from_numpy(~allowed).to(scores.device)
        kept = scores[:, ids].masked_fill(is_forbidden, -math.inf)
        return torch.full_like(scores, -math.inf).index_copy_(1, ids, kept)

    def _after(self, row: Sequence[int]) -> _State:
        """The state after a whole prefix."""
        state = _State()
        for token in row[self._prompt_length :]:
            state = self._step(state, int(token))
        return state

    def _step(self, state: _State, token: int) -> _State:
        """The state after one more token; what is forbidden leads nowhere."""
        if state.is_over:
            return _OVER
        if token in self.pieces.tags:
            return state._replace(num_words=state.num_words + 1, is_empty=False)
        if (label := self.pieces.opening.get(token)) is not None:
            return state._replace(stack=(label, state.stack), depth=state.depth + 1, is_empty=True)
        if self.pieces.closing.get(token) is not None and state.stack is not None:
            return state._replace(stack=state.stack[1], depth=state.depth - 1, is_empty=False)
        return _OVER

    def _allow(self, allowed: np.ndarray, state: _State, sentence: int, num_tokens: int) -> None:
        """Mark what may follow among `(P,)` pieces; after the end, the end again."""
        words_left = self.num_words[sentence] - state.num_words
        is_root_there = state.stack is None and (state.num_words or state.is_over)
        if is_root_there or state.is_over:
            allowed[-1] = True
            return
        # What is open must be closed, and each word have its tag, before the end.
        needed = words_left + state.depth + 1
        room = self.max_tokens[sentence] - num_tokens
        if words_left:
            # Alone, a word needs no bracket.
            allowed[self._tags] = state.stack is not None or self.num_words[sentence] == 1
            allowed[self._opening] = room >= needed + 2
        if state.stack is not None and not state.is_empty and (state.depth > 1 or not words_left):
            allowed[self._closing[state.stack[0]]] = True
