# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which source words does a target word come from? Where a head of the model looks says so.

A head looks at the source twice for each target piece: at the step that predicts the piece, and at
the next one, which reads it. Which of the two aligns differs between heads and models: Garg et al.
(2019) take the first, Chen et al. (2020) and Kobayashi et al. (2020) found the second better.

A head that was trained to align (`alignment_layer` and `alignment_head` of a model's configuration)
is taken, at the step that predicts, as it was trained. Of other models most heads do not align.
What a caller does not name is chosen by prediction difference (Li et al. 2019, "On the Word
Alignment from Neural Machine Translation"): the source piece that matters to a target piece is the
one without which that piece, all others given, loses most log-probability. The head and step are
taken that look most at that source piece most often, over all target pieces of a sample. This needs
no reference alignments and no gradients, and depends on nothing but the model and the sample.
"""

import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from ..text.pharaoh import format_links
from .forcing import end_ids_of, forced, forced_log_probs
from .pairs import Pair, PairError, PairReader, Side
from .words import Segmentation, segment


READS, PREDICTS = STEPS = ("reads", "predicts")
SAMPLE_PAIRS = 32
LONG_SOURCE = 100  # pieces; the work for a pair of the sample grows with their square


class Head(NamedTuple):
    """A head of the attention over the memory, at one of two steps.

    `layer` of the decoder and `head` in it are counted from 0. `step` is `"reads"` or `"predicts"`:
    what the step, at which we look, does to the target piece.
    """

    layer: int
    head: int
    step: str


@dataclass(frozen=True)
class Alignment:
    """Where a head looks for each piece of a target.

    `matrix` is `(T, S)`, and its rows sum to 1: a row for each target piece, without the last
    `</s>`, and a column for each source piece, with `</s>`, where a head looks that finds nothing.
    `pairs` are the places of source and target words that belong together, counted from 0: the
    words of each target piece, and those of the source piece that it looks at most. `</s>` and
    other special pieces take no part.
    """

    source: Segmentation
    target: Segmentation
    matrix: Tensor
    pairs: list[tuple[int, int]]
    head: Head

    @property
    def pharaoh(self) -> str:
        """The pairs in the format of Pharaoh, such as `0-0 1-2`, source first."""
        return format_links(self.pairs)


def trained_head(model: Any) -> Head | None:
    """The head of a model that was trained to align, if any was."""
    layer, head = (getattr(model.config, f"alignment_{part}", None) for part in ("layer", "head"))
    if not isinstance(layer, int) or not isinstance(head, int):
        return None
    return Head(layer, head, PREDICTS)


class Aligner:
    """Aligns pairs by a model of transformers.

    Args:
        model: any sequence-to-sequence model of transformers that can tell where it looks.
        tokenizer: the source's.
        target_tokenizer: the target's.
        batch_tokens: most padded tokens of a batch, where a head is chosen.
    """

    def __init__(
        self, model: Any, tokenizer: Any, target_tokenizer: Any, batch_tokens: int
    ) -> None:
        self.model, self.batch_tokens = model, batch_tokens
        self.tokenizer, self.target_tokenizer = tokenizer, target_tokenizer
        self.end_ids, self.padding = end_ids_of(model), tokenizer.pad_token_id

    def read_ids(self, target: list[int]) -> list[int]:
        """The ids of a target that a step reads: all but the one that ends it."""
        return target[:-1] if target[-1] in self.end_ids else target

    def align(self, pairs: Sequence[Pair], head: Head) -> list[Alignment]:
        """The alignment of each pair of a batch.

        Raises:
            ValueError: if the model has no such head or does not tell where it looks, or if it is
                not known which characters a piece spells.
        """
        matrices = self.matrices(pairs, head)
        return [
            self._alignment(pair, matrix, head)
            for pair, matrix in zip(pairs, matrices, strict=True)
        ]

    def matrices(self, pairs: Sequence[Pair], head: Head) -> list[Tensor]:
        """Where a head looks for each piece of the targets of a batch: of each pair `(T, S)`.

        Raises:
            ValueError: if the model has no such head, or does not tell where it looks.
        """
        layers = self.attention(pairs)
        _check_place("layer", head.layer, len(layers))
        _check_place("head", head.head, layers[0].shape[1])
        weights = layers[head.layer][:, head.head].float().cpu()  # (B, 1 + T, S)
        first = 1 if head.step == READS else 0
        found = []
        for pair, rows in zip(pairs, weights, strict=True):
            num_rows = len(self.read_ids(pair.target))
            matrix = rows[first : first + num_rows, : len(pair.source)]
            # Of float16 they sum to 1 only nearly.
            found.append(matrix / matrix.sum(dim=-1, keepdim=True))
        return found

    def _alignment(self, pair: Pair, matrix: Tensor, head: Head) -> Alignment:
        try:
            side = "source"
            source = segment(self.tokenizer, pair.source, pair.source_text)
            side = "target"
            target = segment(self.target_tokenizer, pair.target, pair.target_text, is_target=True)
        except ValueError as error:
            raise PairError(pair.place, side, str(error)) from None
        num_rows = len(matrix)
        target = Segmentation(target.text, target.pieces[:num_rows], target.spans[:num_rows])
        return Alignment(source, target, matrix, word_pairs(source, target, matrix), head)

    @torch.inference_mode()
    def attention(self, pairs: Sequence[Pair]) -> tuple[Tensor, ...]:
        """Where targets look, `(B, H, 1 + T, S)` for each layer.

        Row i is of the step that predicts target piece i; it reads the one before, or the start.

        Raises:
            ValueError: if the model does not tell.
        """
        sources, targets = [pair.source for pair in pairs], [self.read_ids(p.target) for p in pairs]
        with eager_attention(self.model):
            outputs = forced(self.model, self.padding, sources, targets, output_attentions=True)
        layers = getattr(outputs, "cross_attentions", None)
        if not layers or any(weights is None for weights in layers):
            raise ValueError(
                f"This {type(self.model).__name__} does not tell where it looks: with "
                f"output_attentions it returns no cross_attentions. It cannot align."
            )
        return layers

    def chosen_head(
        self,
        pairs: Sequence[Pair],
        layer: int | None = None,
        head: int | None = None,
        step: str | None = None,
    ) -> Head:
        """The head that is named; what is not named is what agrees best with the sample.

        A head that was trained to align needs no sample, unless another one is named. How the heads
        agree is kept with the model, and not asked again but for a sample of at least twice the
        size. Of heads that agree equally often the first is taken, and of a sample that says
        nothing the first of all.

        Args:
            pairs: the sample is made of the first ones.
            layer: `None` for any.
            head: `None` for any.
            step: `None` for either.

        Raises:
            ValueError: if the model has no such head, or does not tell where it looks.
        """
        if step not in (None, *STEPS):
            raise ValueError(f'step must be "{READS}" or "{PREDICTS}", got {step=}.')
        if layer is not None and head is not None and step is not None:
            return Head(layer, head, step)
        trained = trained_head(self.model)
        if trained and layer in (None, trained.layer) and head in (None, trained.head):
            return trained._replace(step=step or trained.step)
        size, rates = _agreement.get(self.model, (0, {}))
        if size < SAMPLE_PAIRS:
            sample = self.sample(pairs)
            if len(sample) >= 2 * size and sample:
                rates = self.agreement(sample)
                _agreement[self.model] = len(sample), rates
        if not rates:
            return Head(layer or 0, head or 0, step or READS)
        last = max(rates)
        _check_place("layer", layer, last.layer + 1)
        _check_place("head", head, last.head + 1)
        named = (layer, head, step)
        allowed = (found for found in rates if all(map(lambda a, b: a in (None, b), named, found)))
        return max(allowed, key=lambda found: rates[found])

    def sample(self, pairs: Sequence[Pair]) -> list[Pair]:
        # One source piece beside </s>, or </s> as the whole target, does not tell heads apart.
        telling = [pair for pair in pairs if len(pair.source) > 2 and self.read_ids(pair.target)]
        short = [pair for pair in telling if len(pair.source) <= LONG_SOURCE]
        return short[:SAMPLE_PAIRS] or sorted(telling, key=lambda pair: pair.length)[:1]

    def agreement(self, pairs: Sequence[Pair]) -> dict[Head, float]:
        """For how many target pieces each head looks most at the source piece that matters most.

        Returns:
            A rate for each head and step.
        """
        agreeing, num_pieces = torch.zeros(()), 0
        for pair in pairs:
            matters = self.prediction_difference(pair)  # (T, S - 1)
            looks = torch.stack([layer[0] for layer in self.attention([pair])]).cpu()
            steps = torch.stack((looks[:, :, 1:], looks[:, :, :-1]))  # as STEPS
            most = steps[..., : matters.shape[1]].argmax(dim=-1)  # (2, layers, H, T)
            agreeing = agreeing + (most == matters.argmax(dim=-1)).sum(dim=-1)
            num_pieces += len(matters)
        return {
            Head(layer, head, step): float(agreeing[place, layer, head]) / num_pieces
            for place, step in enumerate(STEPS)
            for layer in range(agreeing.shape[1])
            for head in range(agreeing.shape[2])
        }

    def prediction_difference(self, pair: Pair) -> Tensor:
        """How much log-probability each target piece loses without each source piece.

        The unknown piece takes its place.

        Returns:
            `(T, S - 1)`: neither `</s>` takes part.
        """
        target = self.read_ids(pair.target)
        nothing = self.tokenizer.unk_token_id
        if nothing is None:
            nothing = self.padding
        num_columns = len(pair.source) - 1
        sources = [pair.source] + [
            [*pair.source[:place], nothing, *pair.source[place + 1 :]]
            for place in range(num_columns)
        ]
        size = max(1, self.batch_tokens // pair.length)
        rows: list[list[float]] = []
        for first in range(0, len(sources), size):
            batch = sources[first : first + size]
            rows += forced_log_probs(self.model, self.padding, batch, [target] * len(batch))
        log_probs = torch.tensor(rows)
        return (log_probs[0] - log_probs[1:]).T


# Of how many pairs, and how often each head agrees; kept while the model is.
_agreement: "weakref.WeakKeyDictionary[Any, tuple[int, dict[Head, float]]]"
_agreement = weakref.WeakKeyDictionary()


def _check_place(name: str, place: int | None, count: int) -> None:
    if place is not None and not 0 <= place < count:
        raise ValueError(
            f"{name} must be from 0 to {count - 1} for this model, got {name}={place}."
        )


def align_pairs(
    reader: PairReader,
    sources: Iterable[Side],
    targets: Iterable[Side],
    aligner: Aligner,
    layer: int | None = None,
    head: int | None = None,
    step: str | None = None,
) -> Iterator[Alignment]:
    """The alignment of each pair, in their order.

    Args:
        reader: makes ids and batches.
        sources: texts, or ids.
        targets: as many; ids as in `score_pairs`.
        aligner: aligns them.
        layer: as in `Aligner.chosen_head`, which chooses by the first pairs.
        head: likewise.
        step: likewise.

    Raises:
        PairError: if a pair has more tokens than the model has positions, or a side none, or if it
            is not known which characters a piece spells.
        UnequalLengthError: if one side has fewer, after the pairs before that.
        ValueError: if the model has no such head, or does not tell where it looks.
    """
    chosen: Head | None = None

    def answer(batch: list[Pair]) -> list[Alignment]:
        return aligner.align(batch, cast(Head, chosen))

    for pairs in reader.chunks(sources, targets, lambda ids: 1 + len(aligner.read_ids(ids))):
        chosen = aligner.chosen_head(pairs, layer, head, step)
        yield from reader.answers(pairs, answer)


def word_pairs(source: Segmentation, target: Segmentation, matrix: Tensor) -> list[tuple[int, int]]:
    """The places of source and target words that belong together, in their order.

    Those of each target piece and of the source piece that it looks at most; of equal ones, the
    first. Pieces that no word has, such as `</s>`, take no part.

    Args:
        source: of S pieces.
        target: of T pieces.
        matrix: `(T, S)`, where each target piece looks.
    """
    columns = [place for place, words in enumerate(source.words_of_pieces) if words]
    if not columns:
        return []
    found: set[tuple[int, int]] = set()
    best = matrix[:, columns].argmax(dim=-1).tolist()
    for column, target_words in zip(best, target.words_of_pieces, strict=True):
        for source_word in source.words_of_pieces[columns[column]]:
            found.update((source_word, target_word) for target_word in target_words)
    return sorted(found)


_switching = threading.Lock()


@contextmanager
def eager_attention(model: Any) -> Iterator[None]:
    """Attention that gives its weights, for a while; a second thread waits for the first."""
    with _switching:
        before = model.config._attn_implementation
        model.set_attn_implementation("eager")
        try:
            yield
        finally:
            model.set_attn_implementation(before)


__all__ = ["PREDICTS", "READS", "STEPS", "Aligner", "Alignment", "Head"]
