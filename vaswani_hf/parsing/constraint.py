# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""A search that finds nothing but trees: what cannot become one over the sentence is forbidden.

Shapes: `B` sentences, `K` beams, `V` pieces, `P` pieces of trees.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessor, PreTrainedTokenizerBase

from ..tokenization_vaswani import BYTES, SPECIAL_TOKENS, WORD_START
from .linearization import (
    DEPTHS,
    TAG_MARK,
    Repairs,
    is_number,
    leaves_of,
    only_numbers,
    repair_tree,
    with_marks,
)
from .trees import Tree
from .words import NUMBERS, NUMBERS_FROM_END, numbered, numbers_of, sentence_of


@dataclass(frozen=True)
class TreePieces:
    """The pieces of a vocabulary that trees are made of: each tag and each bracket is one.

    Args:
        tags: id and tag of each piece that stands for a word.
        opening: id and label of each bracket that opens, before which the digit of its depth stands
            where there are numbers.
        closing: id and label of each bracket that closes, or its digit.
        end: id of the piece that ends a sequence.
        word_starts: `(V,)`, the pieces that a word of a sentence begins with.
        has_words: whether the words stand in a sequence, each before its tag.
        has_numbers: whether words are numbered, in a sentence and in a sequence, and brackets.
        from_end: as for `numbers_of`.
    """

    tags: dict[int, str]
    opening: dict[int, str]
    closing: dict[int, str]
    end: int
    word_starts: Tensor
    has_words: bool = False
    has_numbers: bool = False
    from_end: bool = False

    @property
    def has_leaves(self) -> bool:
        """Whether something stands before each tag: the word, its number, or both."""
        return self.has_words or self.has_numbers

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> "TreePieces":
        """Those of a tokenizer that `train_tokenizer` has made with `whole_words=tree_words(...)`.

        Raises:
            ValueError: if it has none.
        """
        pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        tags, opening, closing = {}, {}, {}
        begin = len(SPECIAL_TOKENS) + len(BYTES)
        for token in range(begin, len(pieces)):
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
        begin += len(tags) + len(opening) + len(closing)
        from_end = pieces[begin : begin + 1] == [WORD_START + NUMBERS_FROM_END[0]]
        numbers = [WORD_START + number for number in (NUMBERS_FROM_END if from_end else NUMBERS)]
        has_numbers = pieces[begin : begin + len(numbers)] == numbers
        names = {label[:1] if has_numbers else label for label in opening.values()}
        if not tags or not opening or names != set(closing.values()):
            raise ValueError(
                f"The tokenizer of {tokenizer.name_or_path or 'this model'} has no pieces for tags "
                f"and brackets; the model was not trained with task: parsing."
            )
        starts = [
            piece in numbers if has_numbers else piece.startswith(WORD_START) for piece in pieces
        ]
        has_words = all(len(tag) > 1 and tag.startswith(TAG_MARK) for tag in tags.values())
        if has_words:
            tags = {token: tag.removeprefix(TAG_MARK) for token, tag in tags.items()}
        end = int(tokenizer.eos_token_id)
        word_starts = torch.tensor(starts)
        return cls(tags, opening, closing, end, word_starts, has_words, has_numbers, from_end)

    def sentence_of(self, words: Sequence[str]) -> str:
        """A sentence as the model reads it, with a space between two words."""
        if not self.has_numbers:
            return sentence_of(words)
        return numbered(words, from_end=self.from_end)

    def words_of(self, sentence: str) -> list[str]:
        """The words of what `sentence_of` gives."""
        return sentence.split(" ")[1::2] if self.has_numbers else sentence.split(" ")

    def num_words(self, input_ids: Tensor) -> list[int]:
        """The words of each sentence of ids `(B, S)`."""
        return self.word_starts.to(input_ids.device)[input_ids].sum(dim=1).tolist()

    def tree_of(self, sequence: str, words: Sequence[str]) -> tuple[Tree, Repairs]:
        """The tree that a decoded sequence is of, or is mended to, and what was mended.

        Args:
            sequence: with a space between two tokens.
            words: of the sentence.
        """
        return self._read(sequence, words, set(self.tags.values()))

    def gold_tree_of(self, sequence: str, words: Sequence[str]) -> Tree:
        """The tree that the sequence of a training pair is of; arguments are those of `tree_of`.

        Raises:
            ValueError: if it is none.
        """
        tree, repairs = self._read(sequence, words, None)
        if repairs:
            raise ValueError(f"'{sequence}' is no tree over {len(words)} words: {repairs}.")
        return tree

    def _read(
        self, sequence: str, words: Sequence[str], tags: Collection[str] | None
    ) -> tuple[Tree, Repairs]:
        tokens, leaves = [token for token in sequence.split(" ") if token], words
        if self.has_numbers:
            tokens = only_numbers(tokens) if self.has_words else with_marks(tokens)
            leaves = numbers_of(words, from_end=self.from_end)
        tree, repairs = repair_tree(
            tokens, leaves, tags, has_words=self.has_leaves, has_depths=self.has_numbers
        )
        return tree.with_words(words), repairs

    def words(self, input_ids: Tensor) -> list[list[list[int]]]:
        """What stands before the tags of each sentence of ids `(B, S)`, as pieces."""
        starts = self.word_starts.to(input_ids.device)[input_ids].tolist()
        sentences = []
        for row, is_start in zip(input_ids.tolist(), starts, strict=True):
            places = [place for place, starts_word in enumerate(is_start) if starts_word]
            end = row.index(self.end) if self.end in row else len(row)
            bounds = zip(places, [*places[1:], end], strict=True)
            words = [row[begin:stop] for begin, stop in bounds]
            sentences.append(words if self.has_words else [word[:1] for word in words])
        return sentences


def tree_words(
    trees: Iterable[Sequence[str]],
    *,
    has_words: bool = False,
    has_numbers: bool = False,
    from_end: bool = False,
) -> list[str]:
    """Tags, brackets and numbers of sequences, in the order in which a vocabulary has them.

    A bracket that opens has its counterpart, even where the sequences lack it.

    Args:
        trees: as `linearize` gives them, or `with_numbers`.
        has_words: as for `linearize`.
        has_numbers: whether they have numbers; there is a bracket of each label and depth then.
        from_end: as for `numbers_of`.
    """
    tags, labels = set(), set()
    for tokens in trees:
        if has_numbers:
            tokens = only_numbers(tokens) if has_words else [t for t in tokens if not is_number(t)]
        pairs = leaves_of(tokens) if has_words else ((token, None) for token in tokens)
        for token, word in pairs:
            if word is not None:
                tags.add(TAG_MARK + token)
            elif token[0] not in "()":
                tags.add(token)
            elif not has_numbers:
                labels.add(token[1:])
            elif token[0] == "(":
                labels.add(token[2:])
    opening = sorted(labels)
    if has_numbers:
        opening = [f"{digit}{label}" for digit in DEPTHS for label in opening]
    closing = DEPTHS if has_numbers else opening
    brackets = [*(f"({label}" for label in opening), *(f"){label}" for label in closing)]
    numbers = NUMBERS_FROM_END if from_end else NUMBERS
    return [*sorted(tags), *brackets, *(numbers if has_numbers else ())]


class _State(NamedTuple):
    """What a prefix leaves open: the stack of what closes it, and if the innermost is empty."""

    stack: "tuple[str, _Stack] | None" = None
    depth: int = 0
    num_words: int = 0  # whole ones, with their tags
    num_pieces: int = 0  # of the next word, that are written already
    is_empty: bool = False
    is_over: bool = False  # ended, or no beginning of a tree


_Stack = tuple[str, "_Stack"] | None
_OVER = _State(is_over=True)


class TreeConstraint(LogitsProcessor):
    """Lets through only what can still become a tree over the words of its sentence.

    A tree has one root, each of its brackets holds a word, and it has as many tags as the sentence
    has words. Words that stand in it are those of the sentence, and the next one has the score of
    all words together. Where room gets short, only what ends in time is let through. The state of a
    prefix follows from that of the step before, so that a step costs the same however long it is.

    Args:
        pieces: of the tokenizer.
        num_words: of each sentence of the batch; its beams stand one after the other.
        max_tokens: tokens that each sequence may have, with its end; `None` for any number, whose
            trees may then be cut off by the limit of the search.
        words: the pieces of each word of each sentence, by `pieces.words`; needed where the words
            stand in a sequence. `TreeConstraint.of` finds them.

    Raises:
        ValueError: if a sentence has no words, or not even the smallest tree has room.
    """

    def __init__(
        self,
        pieces: TreePieces,
        num_words: Sequence[int],
        max_tokens: Sequence[int] | None = None,
        words: Sequence[Sequence[Sequence[int]]] | None = None,
    ) -> None:
        self.pieces, self.num_words = pieces, list(num_words)
        if pieces.has_leaves != (words is not None):
            raise ValueError(
                "Words or their numbers stand in the trees of this vocabulary; use "
                "TreeConstraint.of."
                if pieces.has_leaves
                else "The trees of this vocabulary are without words; leave out words."
            )
        self.words = words or [[[]] * count for count in self.num_words]
        # Tokens that the words from each one on take, with their tags.
        self._tokens_from = [_sums_to_the_end(map(len, words)) for words in self.words]
        self.max_tokens = [math.inf] * len(self.num_words) if max_tokens is None else max_tokens
        for place, (words_of_one, most) in enumerate(
            zip(self.num_words, self.max_tokens, strict=True)
        ):
            if words_of_one < 1:
                raise ValueError(f"Sentence {place} of the batch (counted from 0) has no words.")
            least = self._tokens_from[place][0] + 3  # a bracket around them, and the end
            if most < least:
                raise ValueError(
                    f"A tree over {words_of_one} words needs {least} tokens, and sentence {place} "
                    f"of the batch (counted from 0) may have {most}; raise the limit of the search."
                )
        ids = [*pieces.tags, *pieces.opening, *pieces.closing, pieces.end]
        self._ids = torch.tensor(ids)  # (P,)
        self._tags = slice(0, len(pieces.tags))
        # Those of one depth stand together.
        num_depths = len(DEPTHS) if pieces.has_numbers else 1
        size = len(pieces.opening) // num_depths
        begins = [len(pieces.tags) + depth * size for depth in range(num_depths)]
        self._opening = [slice(begin, begin + size) for begin in begins]
        self._closing = {label: ids.index(token) for token, label in pieces.closing.items()}
        self._states: dict[bytes, _State] = {}
        self._prompt_length = 0

    @classmethod
    def of(
        cls, pieces: TreePieces, input_ids: Tensor, max_tokens: Sequence[int] | None = None
    ) -> Self:
        """For a batch of sentences.

        Args:
            pieces: of the tokenizer.
            input_ids: `(B, S)`, the sentences.
            max_tokens: as for `TreeConstraint`.

        Raises:
            ValueError: as for `TreeConstraint`.
        """
        words = pieces.words(input_ids) if pieces.has_leaves else None
        return cls(pieces, pieces.num_words(input_ids), max_tokens, words)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Forbid pieces after prefixes `(B * K, length)` in their scores `(B * K, V)`."""
        rows = input_ids.cpu().numpy()
        if not self._states or rows.shape[1] <= self._prompt_length:
            self._prompt_length = rows.shape[1]
        num_beams = len(rows) // len(self.num_words)
        allowed = np.zeros((len(rows), len(self._ids)), dtype=bool)
        of_words: list[tuple[int, int]] = []  # a row, and the piece of a word that may follow
        states: dict[bytes, _State] = {}
        for place, row in enumerate(rows):
            prefix = row.tobytes()
            sentence = place // num_beams
            # Sentences may begin alike, and differ in their words.
            key = sentence.to_bytes(4) + prefix
            state = states.get(key)
            if state is None:
                before = self._states.get(key[: -row.itemsize])
                state = (
                    self._after(row, sentence)
                    if before is None
                    else self._step(before, int(row[-1]), sentence)
                )
                states[key] = state
            num_tokens = rows.shape[1] - self._prompt_length
            piece = self._allow(allowed[place], state, sentence, num_tokens)
            if piece is not None:
                of_words.append((place, piece))
        self._states = states
        ids = self._ids.to(scores.device)
        is_forbidden = torch.from_numpy(~allowed).to(scores.device)
        kept = scores[:, ids].masked_fill(is_forbidden, -math.inf)
        result = torch.full_like(scores, -math.inf).index_copy_(1, ids, kept)
        if of_words:
            places, words = torch.tensor(of_words, device=scores.device).T
            # What the model is asked is whether a word comes, not which: else it would rather open
            # brackets than say a word that it has not expected.
            is_no_word = torch.zeros_like(scores[0], dtype=torch.bool).index_fill_(0, ids, True)
            any_word = scores[places].masked_fill(is_no_word, -math.inf).logsumexp(dim=1)
            result[places, words] = any_word
        return result

    def _after(self, row: Sequence[int], sentence: int) -> _State:
        """The state after a whole prefix."""
        state = _State()
        for token in row[self._prompt_length :]:
            state = self._step(state, int(token), sentence)
        return state

    def _step(self, state: _State, token: int, sentence: int) -> _State:
        """The state after one more token; what is forbidden leads nowhere."""
        if state.is_over:
            return _OVER
        word = self._next_word(state, sentence)
        if state.num_pieces < len(word) and token == word[state.num_pieces]:
            return state._replace(num_pieces=state.num_pieces + 1)
        is_word_left = state.num_words < self.num_words[sentence]
        if token in self.pieces.tags and is_word_left and state.num_pieces == len(word):
            return state._replace(num_words=state.num_words + 1, num_pieces=0, is_empty=False)
        if state.num_pieces:
            return _OVER
        if (label := self.pieces.opening.get(token)) is not None:
            name = label[:1] if self.pieces.has_numbers else label
            return state._replace(stack=(name, state.stack), depth=state.depth + 1, is_empty=True)
        if self.pieces.closing.get(token) is not None and state.stack is not None:
            return state._replace(stack=state.stack[1], depth=state.depth - 1, is_empty=False)
        return _OVER

    def _next_word(self, state: _State, sentence: int) -> Sequence[int]:
        """The pieces of the word that comes next; none after the last one, or without words."""
        words = self.words[sentence]
        return words[state.num_words] if state.num_words < len(words) else []

    def _allow(
        self, allowed: np.ndarray, state: _State, sentence: int, num_tokens: int
    ) -> int | None:
        """Mark what may follow among `(P,)` pieces; after the end, the end again.

        Returns:
            The piece of a word that may follow, if one may.
        """
        words_left = self.num_words[sentence] - state.num_words
        is_root_there = state.stack is None and not state.num_pieces and state.num_words
        if is_root_there or state.is_over:
            allowed[-1] = True
            return None
        word = self._next_word(state, sentence)
        if state.num_pieces:
            if state.num_pieces < len(word):
                return word[state.num_pieces]
            allowed[self._tags] = True
            return None
        # What is open must be closed, and each word be there with its tag, before the end.
        needed = self._tokens_from[sentence][state.num_words] + state.depth + 1
        room = self.max_tokens[sentence] - num_tokens
        if state.stack is not None and not state.is_empty and (state.depth > 1 or not words_left):
            allowed[self._closing[state.stack[0]]] = True
        if words_left:
            allowed[self._opening[state.depth % len(self._opening)]] = room >= needed + 2
            # Alone, a word needs no bracket.
            if state.stack is not None or self.num_words[sentence] == 1:
                if word:
                    return word[0]
                allowed[self._tags] = True
        return None


def _sums_to_the_end(lengths: Iterable[int]) -> list[int]:
    """How many tokens the words from each place on have, a tag each included, and 0 at the end."""
    sums = [0]
    for length in reversed(list(lengths)):
        sums.append(sums[-1] + length + 1)
    return sums[::-1]
