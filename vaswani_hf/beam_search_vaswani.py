# Copyright 2026 The vaswani_hf authors.
#
# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except
# in compliance with the License. You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License
# is distributed on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express
# or implied. See the License for the specific language governing permissions and limitations.
"""The beam search of section 6.1, by the paper's rules or by the library's.

Shapes: `B` sentences, `K` beams, `C` candidates, `V` pieces, `n` generated tokens.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor, distributed
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList
from transformers.generation import GenerateBeamEncoderDecoderOutput
from transformers.modeling_outputs import BaseModelOutput

from .beam_cache_vaswani import BeamCache, gather_hypotheses, make_beam_cache
from .decoding_vaswani import DecoderSteps, is_worth_dropping, processed
from .search_settings_vaswani import POWER, WU, power_length_penalty, wu_length_penalty


CHUNK = 64  # scores of which the largest is looked for before they are sorted


# The two sets of rules


class SearchRules(ABC):
    """What competes, what is settled and what a limit cuts off; each subclass answers.

    Args:
        num_beams: K.
        num_returned: hypotheses that are returned of each sentence.
        alpha: the exponent of the length penalty.
        early_stopping: `True` settles a sentence as soon as K hypotheses have ended. `False` and
            `"never"` ask whether the best of those that go on can still come before the ended
            ones, at no further cost: `False` supposes that it ends now, `"never"` that it reaches
            the longest length.
        max_new_tokens: tokens that the longest translation of the batch may have.
    """

    length_penalty: Callable[[int | Tensor, float], Any]

    def __init__(
        self,
        num_beams: int,
        num_returned: int,
        alpha: float,
        early_stopping: bool | str,
        max_new_tokens: int,
    ) -> None:
        self.num_beams, self.num_returned = num_beams, num_returned
        self.alpha, self.early_stopping = alpha, early_stopping
        self.max_new_tokens = max_new_tokens

    @abstractmethod
    def num_competing(self, num_candidates: int) -> int:
        """What competes: of the best continuations so many, if they have ended."""

    @abstractmethod
    def with_cut_off(self, has_ended: Tensor, is_cut_off: Tensor) -> Tensor:
        """What a limit cuts off: whether it counts as ended.

        Args:
            has_ended: `(B, C)`, continuations that end by themselves.
            is_cut_off: `(B,)`, sentences that have reached their limit.
        """

    @abstractmethod
    def num_awaited(self) -> int:
        """What is settled: a sentence of which so many ended hypotheses cannot be beaten."""

    @abstractmethod
    def longest(self, limits: Tensor) -> int | Tensor:
        """The length that `early_stopping="never"` supposes, of sentences with limits `(B,)`."""

    def scores(self, log_probs: Tensor, num_tokens: int | Tensor) -> Tensor:
        """By which hypotheses of so many tokens are ranked."""
        return log_probs / type(self).length_penalty(num_tokens, self.alpha)

    def is_settled(
        self, log_probs: Tensor, num_tokens: int, limits: Tensor, ended: Tensor
    ) -> Tensor:
        """Sentences that nothing which goes on can change, `(B,)`.

        Args:
            log_probs: `(B, K)`, of the hypotheses that go on, best first.
            num_tokens: their length.
            limits: `(B,)`, the tokens that each translation may have.
            ended: `(B, K)`, scores of the ended ones, best first; minus infinity where none is.
        """
        if self.early_stopping is True:
            return ended[:, -1] > -math.inf
        length: int | Tensor = num_tokens
        if self.early_stopping == "never" and self.alpha > 0:
            length = self.longest(limits)
        return self.scores(log_probs[:, 0], length) <= ended[:, self.num_awaited() - 1]


class PaperRules(SearchRules):
    """Those of the authors' code, with the length penalty of Wu et al. (section 6.1).

    What a limit cuts off has not ended: it is returned only where too few have.
    """

    length_penalty = staticmethod(wu_length_penalty)

    def num_competing(self, num_candidates: int) -> int:
        """All."""
        return num_candidates

    def with_cut_off(self, has_ended: Tensor, is_cut_off: Tensor) -> Tensor:
        """It does not."""
        return has_ended

    def num_awaited(self) -> int:
        """Those that are returned."""
        return self.num_returned

    def longest(self, limits: Tensor) -> int | Tensor:
        """That of each sentence."""
        return limits


class LibraryRules(SearchRules):
    """Those of the library's own beam search, so that it finds the same."""

    length_penalty = staticmethod(power_length_penalty)

    def num_competing(self, num_candidates: int) -> int:
        """The K best, or with `do_sample` the first K drawn."""
        return self.num_beams

    def with_cut_off(self, has_ended: Tensor, is_cut_off: Tensor) -> Tensor:
        """It does."""
        return has_ended | is_cut_off.unsqueeze(1)

    def num_awaited(self) -> int:
        """All K."""
        return self.num_beams

    def longest(self, limits: Tensor) -> int | Tensor:
        """That of the whole batch."""
        return self.max_new_tokens


RULES: dict[str, Callable[..., SearchRules]] = {WU: PaperRules, POWER: LibraryRules}


# The search


def beam_search(
    model: Any,
    input_ids: Tensor,
    *,
    rules: SearchRules,
    limits: Tensor,
    ends: Tensor,
    criteria: StoppingCriteriaList,
    logits_processor: LogitsProcessorList,
    generation_config: GenerationConfig,
    is_cache_given: bool,
    synced_gpus: bool = False,
    on_step: "Callable[[BeamStep], object] | None" = None,
    **model_kwargs: Any,
) -> Any:
    """Find the best translations of each sentence (section 6.1).

    At each step the 2K best continuations of a sentence are taken, or with `do_sample` 2K are drawn
    by their probabilities. Those that have ended are scored, and `rules` says which compete for K
    places; the K best of the others go on. A sentence is done when `rules` call it settled, or at
    its limit. Places that are then empty go to what the limit has cut off. Where there are fewer
    hypotheses than `num_return_sequences`, because what was given forbids the others, the last is
    returned again.

    Args:
        model: the model.
        input_ids: what each target starts with, `(B * K, length)`.
        rules: what competes, what is settled, what a limit cuts off.
        limits: `(B,)`, tokens that each translation may have; at least 1.
        ends: pieces that end a hypothesis.
        criteria: further ones that end a hypothesis.
        logits_processor: changes log-probabilities, `(B * K, V)`.
        generation_config: the merged settings.
        is_cache_given: whether the caller of `generate()` gave the cache.
        synced_gpus: whether to call the model until every process is done.
        on_step: is told of every step of every sentence.
        model_kwargs: the model's arguments, with `B * K` rows; the memory and its mask with `B`, or
            with `B * K` beside a cache that has them.

    Returns:
        Ids, `(B * num_return_sequences, length)`, best first, padded on the right; or the library's
        `GenerateBeamEncoderDecoderOutput`, whose `sequences_scores` are log-probabilities divided
        by the penalty.

    Raises:
        ValueError: if nothing at all may be said for a sentence.
    """
    num_beams, returns_dict = rules.num_beams, generation_config.return_dict_in_generate
    history = StepHistory(generation_config)
    decoder = BeamDecoder(
        model, input_ids, generation_config, logits_processor, history, is_cache_given, model_kwargs
    )
    # Sentences that are done leave the batch, unless somebody counts on its rows.
    is_counted_on = returns_dict or criteria or len(logits_processor) or synced_gpus
    drops_sentences = decoder.cache.can_drop_sentences and not (
        is_counted_on or generation_config.do_sample
    )
    # With E pieces that end a sentence, at most E * K of (1 + E) * K continuations end.
    num_candidates = (1 + max(1, len(ends))) * num_beams
    pad_token_id = generation_config.pad_token_id or 0
    ended = EndedHypotheses(input_ids, num_beams, int(limits.max()), pad_token_id)
    beams = Beams.start(input_ids, num_beams)
    while True:
        log_probs = decoder.next_log_probs(beams.ids.flatten(0, 1))
        found = beams.continued(log_probs, num_candidates, generation_config.do_sample)
        is_cut_off = (limits[beams.sentences] <= found.num_tokens) & ~beams.is_done
        ends_itself = found.has_ended(ends, criteria, history.scores)
        has_ended = rules.with_cut_off(ends_itself, is_cut_off)
        if has_ended.any():
            ended.add(*found.competing(has_ended, rules))
        beams, chosen = found.going_on(has_ended, num_beams)
        rows = found.rows.gather(1, chosen)
        if is_cut_off.any():
            scores = rules.scores(beams.log_probs, found.num_tokens)
            ended.fill(*beams.hypotheses(scores, is_cut_off))
        so_far, ahead = ended.scores[beams.sentences], limits[beams.sentences]
        is_settled = rules.is_settled(beams.log_probs, found.num_tokens, ahead, so_far)
        beams.is_done = beams.is_done | is_cut_off | is_settled
        if on_step is not None:
            for step in _watched(found, beams, chosen, rules, ends_itself, has_ended, is_cut_off):
                on_step(step)
        is_over = _is_over(beams.is_done, synced_gpus)
        if is_over and not returns_dict:
            break
        if drops_sentences and is_worth_dropping(beams.is_done):
            stays = ~beams.is_done
            beams, rows = beams.of(stays), rows[stays]
            decoder.drop_sentences(stays)
        decoder.cache.reorder(rows)
        if is_over:
            break
    best = ended.best(rules.num_returned)
    return decoder.outputs(*best) if returns_dict else best[0]


def _is_over(is_done: Tensor, synced_gpus: bool) -> bool:
    """Whether all sentences are done; with `synced_gpus` those of every process."""
    is_over = bool(is_done.all())
    if not synced_gpus:
        return is_over
    at_work = torch.tensor(0.0 if is_over else 1.0, device=is_done.device)
    distributed.all_reduce(at_work)
    return at_work.item() == 0


# Hypotheses


@dataclass
class Hypotheses:
    """`C` hypotheses of each sentence that is still in the batch."""

    sentences: Tensor  # (B,), places in the batch as it was given
    is_done: Tensor  # (B,)
    log_probs: Tensor  # (B, C), minus infinity where a hypothesis does not count
    ids: Tensor  # (B, C, length)
    beam_indices: Tensor  # (B, C, n), the row of the given batch that each token came from

    @property
    def num_tokens(self) -> int:
        """Generated tokens of each."""
        return self.beam_indices.shape[-1]


class Beams(Hypotheses):
    """The K hypotheses of each sentence that go on, best first."""

    @classmethod
    def start(cls, input_ids: Tensor, num_beams: int) -> Self:
        """Beams that hold the prompt, `(B * K, length)`, and are alike: only the first counts."""
        num_sentences, device = len(input_ids) // num_beams, input_ids.device
        log_probs = torch.zeros(num_sentences, num_beams, dtype=sum_dtype(device), device=device)
        log_probs[:, 1:] = -math.inf
        return cls(
            sentences=torch.arange(num_sentences, device=device),
            is_done=torch.zeros(num_sentences, dtype=torch.bool, device=device),
            log_probs=log_probs,
            ids=input_ids.unflatten(0, (-1, num_beams)),
            beam_indices=torch.empty(num_sentences, num_beams, 0, dtype=torch.int, device=device),
        )

    def of(self, chosen: Tensor) -> Self:
        """Those of some sentences, `(B,)` bools."""
        return type(self)(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def hypotheses(self, scores: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sentences, scores, ids and beam indices of some sentences, `(B,)` bools."""
        return self.sentences[chosen], scores[chosen], self.ids[chosen], self.beam_indices[chosen]

    def continued(
        self, token_log_probs: Tensor, num_candidates: int, do_sample: bool
    ) -> "Continuations":
        """The best continuations, or a sample of them.

        Args:
            token_log_probs: `(B * K, V)`, of the next piece; written over.
            num_candidates: how many for each sentence.
            do_sample: whether to draw them by their probabilities.
        """
        num_beams = self.log_probs.shape[1]
        # What float32 adds is small: how far each beam is behind the best one.
        best = self.log_probs[:, :1].clamp(min=torch.finfo(torch.float32).min)
        behind = (self.log_probs - best).to(token_log_probs.dtype)
        totals = token_log_probs.unflatten(0, (-1, num_beams)).add_(behind.unsqueeze(-1))
        log_probs, places = _candidates(totals, num_candidates, do_sample)
        num_pieces = token_log_probs.shape[-1]
        tokens, beams = places % num_pieces, places // num_pieces  # (B, C)
        first = torch.arange(len(totals), device=totals.device).unsqueeze(1) * num_beams
        rows = first + beams
        given_rows = (self.sentences.unsqueeze(1) * num_beams + beams).int()
        return Continuations(
            sentences=self.sentences,
            is_done=self.is_done,
            log_probs=log_probs + best,
            ids=torch.cat((self.ids.flatten(0, 1)[rows], tokens.unsqueeze(-1)), dim=-1),
            beam_indices=torch.cat(
                (self.beam_indices.flatten(0, 1)[rows], given_rows.unsqueeze(-1)), dim=-1
            ),
            rows=rows,
        )


@dataclass
class Continuations(Hypotheses):
    """The candidates of a step: beams with one token more, best first or as they were drawn."""

    rows: Tensor  # (B, C), the row of the running batch that each continues

    def has_ended(self, ends: Tensor, criteria: StoppingCriteriaList, scores: Any) -> Tensor:
        """Those that end by themselves, `(B, C)` bools.

        Args:
            ends: pieces that end a hypothesis.
            criteria: further ones.
            scores: what the criteria are told beside the ids; the kept scores of every step.
        """
        has_ended = torch.isin(self.ids[..., -1], ends)
        if not criteria:
            return has_ended
        return has_ended | criteria(self.ids.flatten(0, 1), scores).view_as(has_ended)

    def competing(
        self, has_ended: Tensor, rules: SearchRules
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sentences, scores, ids and beam indices of what competes for a place among the ended.

        Args:
            has_ended: `(B, C)` bools.
            rules: say how many compete.
        """
        num = rules.num_competing(has_ended.shape[1])
        gains = has_ended[:, :num].any(dim=1) & ~self.is_done
        scores = rules.scores(self.log_probs, self.num_tokens).masked_fill(~has_ended, -math.inf)
        ids, beam_indices = self.ids[gains, :num], self.beam_indices[gains, :num]
        return self.sentences[gains], scores[gains, :num], ids, beam_indices

    def going_on(self, has_ended: Tensor, num_beams: int) -> tuple[Beams, Tensor]:
        """The K best that have not ended, and their places `(B, K)` among the C."""
        log_probs, chosen = self.log_probs.masked_fill(has_ended, -math.inf).topk(num_beams)
        beams = Beams(
            sentences=self.sentences,
            is_done=self.is_done,
            log_probs=log_probs,
            ids=gather_hypotheses(self.ids, chosen),
            beam_indices=gather_hypotheses(self.beam_indices, chosen),
        )
        return beams, chosen


def _candidates(totals: Tensor, count: int, do_sample: bool) -> tuple[Tensor, Tensor]:
    """Continuations to go on with, out of log-probabilities `(B, K, V)`: the best, or a sample.

    Returns:
        Their log-probabilities `(B, count)`, best first or as they were drawn, and their places
        `(B, count)` among the K * V.
    """
    totals = totals.flatten(1)
    count = min(count, totals.shape[1])
    if not do_sample:
        return topk_by_chunks(totals, count)
    # Of a sentence that is done nothing may be left, and -inf alone has no softmax.
    places = totals.clamp(min=torch.finfo(totals.dtype).min).softmax(dim=-1).multinomial(count)
    return totals.gather(1, places), places


def topk_by_chunks(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """As `topk()` of scores `(B, N)`: what is among the best is in one of the best chunks.

    The largest of each chunk takes one fast pass; sorting is what takes time.
    """
    num_rest = scores.shape[1] % CHUNK
    if scores.shape[1] < 4 * count * CHUNK:
        return scores.topk(count)
    chunks = scores[:, : scores.shape[1] - num_rest].unflatten(1, (-1, CHUNK))
    best = chunks.amax(dim=-1).topk(count)[1]  # (B, count)
    inside = torch.arange(CHUNK, device=scores.device)
    places = (best.unsqueeze(-1) * CHUNK + inside).flatten(1)
    if num_rest:
        rest = torch.arange(scores.shape[1] - num_rest, scores.shape[1], device=scores.device)
        places = torch.cat((places, rest.expand(len(scores), -1)), dim=1)
    values, chosen = scores.gather(1, places).topk(count)
    return values, places.gather(1, chosen)


def sum_dtype(device: torch.device) -> torch.dtype:
    """What log-probabilities of many pieces are summed in: float64, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


class EndedHypotheses:
    """The K best ended hypotheses of each sentence, best first.

    `ids` are `(B, K, length)`, `scores` `(B, K)`, minus infinity where a place is empty, and
    `beam_indices` `(B, K, n)` the rows of the batch that each token came from, -1 after the last.

    Args:
        input_ids: what each target starts with, `(B * K, length)`.
        num_beams: K.
        longest: tokens of the longest hypothesis.
        pad_token_id: what follows the last token.
    """

    def __init__(self, input_ids: Tensor, num_beams: int, longest: int, pad_token_id: int) -> None:
        self.prompt_length, self.pad_token_id = input_ids.shape[1], pad_token_id
        shape, device = (len(input_ids) // num_beams, num_beams), input_ids.device
        self.scores = torch.full(shape, -math.inf, dtype=sum_dtype(device), device=device)
        self.ids = torch.full((*shape, self.prompt_length + longest), pad_token_id, device=device)
        self.beam_indices = torch.full((*shape, longest), -1, dtype=torch.int, device=device)

    def add(self, sentences: Tensor, scores: Tensor, ids: Tensor, beam_indices: Tensor) -> None:
        """Let hypotheses `(B, C)` of some sentences compete; minus infinity takes no part."""
        merged = torch.cat((self.scores[sentences], scores), dim=1)
        self._keep(sentences, merged.topk(self.scores.shape[1])[1], scores, ids, beam_indices)

    def fill(self, sentences: Tensor, scores: Tensor, ids: Tensor, beam_indices: Tensor) -> None:
        """Put hypotheses `(B, K)`, best first, into the places that are empty."""
        old = self.scores[sentences]
        rank = torch.cat((torch.where(old > -math.inf, 0, 2), torch.ones_like(old)), dim=1)
        order = rank.argsort(dim=1, stable=True)[:, : old.shape[1]]
        self._keep(sentences, order, scores, ids, beam_indices)

    def _keep(
        self, sentences: Tensor, kept: Tensor, scores: Tensor, ids: Tensor, beam_indices: Tensor
    ) -> None:
        takes_no_part = scores.isneginf()
        merged_scores = torch.cat((self.scores[sentences], scores), dim=1)
        self.scores[sentences] = merged_scores.gather(1, kept)
        for held, new, padding in (
            (self.ids, ids, self.pad_token_id),
            (self.beam_indices, beam_indices, -1),
        ):
            new = new.masked_fill(takes_no_part.unsqueeze(-1), padding)
            old, length = held[sentences], new.shape[-1]
            # What is longer than the new ones is padding.
            merged = torch.cat((old[..., :length], new), dim=1)
            old[..., :length] = gather_hypotheses(merged, kept)
            held[sentences] = old

    def best(self, num_returned: int) -> tuple[Tensor, Tensor, Tensor]:
        """Ids, scores and beam indices of the first so many, without padding that all share.

        The last one again, where there are fewer.

        Raises:
            ValueError: if a sentence has none.
        """
        num_there = self.scores.isneginf().logical_not().sum(dim=1, keepdim=True)  # (B, 1)
        if not num_there.all():
            place = int(num_there.flatten().argmin())
            raise ValueError(
                f"Nothing can be said for sentence {place} of the batch (counted from 0): every "
                f"piece has probability 0 after what prefix_allowed_tokens_fn, logits_processor or "
                f"the generation config forbid; let them allow at least one."
            )
        places = torch.arange(num_returned, device=self.scores.device)
        places = torch.minimum(places, num_there - 1)  # (B, num_returned)
        beam_indices, ids = (
            gather_hypotheses(values, places).flatten(0, 1)
            for values in (self.beam_indices, self.ids)
        )
        longest = int(beam_indices.ge(0).sum(dim=1).max())
        scores = self.scores.gather(1, places).flatten().float()
        return ids[:, : self.prompt_length + longest], scores, beam_indices[:, :longest]


# What a caller may watch

GOES_ON, ENDED, CUT_OFF, DROPPED = "goes_on", "ended", "cut_off", "dropped"


@dataclass(frozen=True)
class BeamCandidate:
    """A continuation of a beam by one piece.

    Attributes:
        parent: the beam that it continues: its `beam` in the step before, 0 in the first step.
        ids: generated so far, without what the target was given to start with.
        log_prob: of these.
        outcome: `"goes_on"` for the K best that have not ended; `"ended"`; `"cut_off"` at the
            limit, where they end in their middle; or `"dropped"`, what is none of these, or has
            ended and may not compete.
        beam: the place among those that go on, the best first; `None` for others.
        score: the log-probability divided by the length penalty, of what has ended or is cut off;
            else `None`. The search returns the best by it. By the paper's rules, what is cut off
            comes after all that has ended.
    """

    parent: int
    ids: tuple[int, ...]
    log_prob: float
    outcome: str
    beam: int | None
    score: float | None

    @property
    def token(self) -> int:
        """The piece that the step has added."""
        return self.ids[-1]


@dataclass(frozen=True)
class BeamStep:
    """What one step of beam search does to one sentence.

    Attributes:
        sentence: place in the batch, counted from 0.
        num_tokens: of each candidate; 1 in the first step.
        candidates: the best continuations of all beams together, the best first.
        is_done: whether the search of this sentence ends here; then nothing is made of the
            candidates that would go on.
    """

    sentence: int
    num_tokens: int
    candidates: tuple[BeamCandidate, ...]
    is_done: bool


def _watched(
    found: Continuations,
    beams: Beams,
    chosen: Tensor,
    rules: SearchRules,
    ends_itself: Tensor,
    has_ended: Tensor,
    is_cut_off: Tensor,
) -> Iterator[BeamStep]:
    """The records of a step, of the sentences that were not done before it.

    Args:
        found: the candidates.
        beams: those that go on.
        chosen: `(B, K)`, their places among the candidates.
        rules: of the search.
        ends_itself: `(B, C)`, candidates that end without a limit.
        has_ended: likewise, by the rules.
        is_cut_off: `(B,)`, sentences that have reached theirs.
    """
    scores = rules.scores(found.log_probs, found.num_tokens)
    num_competing = rules.num_competing(ends_itself.shape[1])
    parents, ids = found.rows % rules.num_beams, found.ids[..., -found.num_tokens :]
    for row in (~found.is_done).nonzero().flatten().tolist():
        places = {
            place: beam
            for beam, place in enumerate(chosen[row].tolist())
            if beams.log_probs[row, beam] > -math.inf
        }
        candidates = []
        for place, log_prob in enumerate(found.log_probs[row].tolist()):
            if log_prob == -math.inf:  # what there is not
                continue
            outcome = GOES_ON if place in places else DROPPED
            competes = has_ended[row, place] and place < num_competing
            if competes or (outcome == GOES_ON and is_cut_off[row]):
                outcome = ENDED if ends_itself[row, place] else CUT_OFF
            candidates.append(
                BeamCandidate(
                    parent=int(parents[row, place]),
                    ids=tuple(ids[row, place].tolist()),
                    log_prob=log_prob,
                    outcome=outcome,
                    beam=places[place] if outcome == GOES_ON else None,
                    score=float(scores[row, place]) if outcome in (ENDED, CUT_OFF) else None,
                )
            )
        is_done = bool(beams.is_done[row])
        yield BeamStep(int(found.sentences[row]), found.num_tokens, tuple(candidates), is_done)


# The model's part


class BeamDecoder:
    """The model, its cache and what else a step of the search needs of it.

    Arguments are those of `beam_search()`; `history` is told of every step.
    """

    def __init__(
        self,
        model: Any,
        input_ids: Tensor,
        generation_config: GenerationConfig,
        logits_processor: LogitsProcessorList,
        history: "StepHistory",
        is_cache_given: bool,
        model_kwargs: dict[str, Any],
    ) -> None:
        self.model, self.forward, self.generation_config = model, model, generation_config
        self.logits_processor, self.history = logits_processor, history
        num_beams = generation_config.num_beams
        steps = None
        if not history.wants_rows:
            steps = model.decoder_steps(num_beams, is_cache_given, model_kwargs)
        self.cache: BeamCache | DecoderSteps = steps or make_beam_cache(
            model_kwargs.pop("past_key_values", None),
            num_beams,
            input_ids.shape[1],
            model_kwargs.pop("decoder_attention_mask", None),
            is_given=is_cache_given,
            may_share=takes_any_mask(model) and not history.wants_rows,
        )
        self.model_kwargs = model_kwargs

    def next_log_probs(self, ids: Tensor) -> Tensor:
        """Log-probabilities `(B * K, V)` of the piece after beams `(B * K, length)`.

        As the processors leave them.
        """
        logits, outputs = self.next_logits(ids)
        if len(logits) < len(ids):  # beams that start alike
            logits = logits.repeat_interleave(self.generation_config.num_beams, dim=0)
        log_probs = processed(self.logits_processor, ids, logits.log_softmax(dim=-1))
        self.history.add(logits, log_probs, outputs)
        return log_probs

    def next_logits(self, ids: Tensor) -> tuple[Tensor, Any]:
        """Logits in float32, `(B * K, V)` or `(B, V)` of beams that are alike; the outputs."""
        if isinstance(self.cache, DecoderSteps):
            return self.cache.logits(ids).float(), None
        inputs = self.model.prepare_inputs_for_generation(
            **self.cache.model_inputs(ids), **self.model_kwargs
        )
        outputs = self.forward(**inputs, return_dict=True)
        self.cache.cache = outputs.past_key_values
        self.forward = forward_of_later_steps(self.model, self.cache.cache, self.generation_config)
        return outputs.logits[:, -1].float(), outputs

    def drop_sentences(self, stays: Tensor) -> None:
        """Forget the memory of the other sentences; the cache is told by its `reorder()`."""
        memory = self.model_kwargs["encoder_outputs"][0][stays]
        self.model_kwargs["encoder_outputs"] = BaseModelOutput(memory)
        if self.model_kwargs.get("attention_mask") is not None:
            self.model_kwargs["attention_mask"] = self.model_kwargs["attention_mask"][stays]

    def outputs(self, sequences: Tensor, scores: Tensor, beam_indices: Tensor) -> Any:
        """What the library returns with `return_dict_in_generate`."""
        return GenerateBeamEncoderDecoderOutput(
            sequences=sequences,
            sequences_scores=scores,
            beam_indices=beam_indices,
            past_key_values=self.cache.as_librarys(),
            **self.history.outputs(self.model_kwargs["encoder_outputs"]),
        )


class StepHistory:
    """What `return_dict_in_generate` and its flags ask to be kept of every step."""

    STATES = ("decoder_attentions", "cross_attentions", "decoder_hidden_states")

    def __init__(self, generation_config: GenerationConfig) -> None:
        def wants(flag: str) -> bool:
            return bool(generation_config.return_dict_in_generate) and bool(
                getattr(generation_config, flag)
            )

        self.scores: Any = () if wants("output_scores") else None
        self.logits: Any = () if wants("output_logits") else None
        self.has_attentions = wants("output_attentions")
        self.has_states = wants("output_hidden_states")
        self.steps: list[Any] = []

    @property
    def wants_rows(self) -> bool:
        """Whether attentions or states are kept, which have a row for each beam."""
        return self.has_attentions or self.has_states

    def add(self, logits: Tensor, log_probs: Tensor, outputs: Any) -> None:
        """Keep a step: logits and processed log-probabilities `(B * K, V)`, the model's outputs."""
        if self.scores is not None:
            self.scores += (log_probs.clone(),)
        if self.logits is not None:
            self.logits += (logits.clone(),)
        if self.wants_rows:
            self.steps.append({name: outputs.get(name) for name in self.STATES})

    def outputs(self, encoder_outputs: Any) -> dict[str, Any]:
        """All that was kept, under the names of `GenerateBeamEncoderDecoderOutput`."""
        kept: dict[str, Any] = {"scores": self.scores, "logits": self.logits}
        if self.has_attentions:
            for name in ("decoder_attentions", "cross_attentions"):
                kept[name] = tuple(step[name] for step in self.steps)
            kept["encoder_attentions"] = encoder_outputs.get("attentions")
        if self.has_states:
            kept["decoder_hidden_states"] = tuple(
                step["decoder_hidden_states"] for step in self.steps
            )
            kept["encoder_hidden_states"] = encoder_outputs.get("hidden_states")
        return kept


# Private names of the library: what each is for, and what is done without it


def forward_of_later_steps(
    model: Any, cache: Any, generation_config: GenerationConfig
) -> Callable[..., Any]:
    """The compiled call where the library would compile; without its answer the model itself."""
    would_compile = getattr(model, "_valid_auto_compile_criteria", None)
    if would_compile is None or not would_compile({"past_key_values": cache}, generation_config):
        return model
    return model.get_compiled_call(generation_config.compile_config)


def takes_any_mask(model: Any) -> bool:
    """Whether the attention takes a mask as it is; if unknown, each beam gets a row of its own."""
    return getattr(model.config, "_attn_implementation", None) in ("eager", "sdpa")


__all__ = [
    "BeamCandidate",
    "BeamStep",
    "LibraryRules",
    "PaperRules",
    "SearchRules",
    "beam_search",
    "wu_length_penalty",
]
