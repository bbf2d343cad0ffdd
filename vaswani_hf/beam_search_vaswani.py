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
"""The beam search of section 6.1.

Shapes: `B` sentences, `K` beams, `V` pieces, `n` generated tokens.
"""

import math
from typing import Any

import torch
from torch import Tensor, distributed
from transformers import (
    EosTokenCriteria,
    GenerationConfig,
    LogitsProcessorList,
    MaxLengthCriteria,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.generation import GenerateBeamEncoderDecoderOutput
from transformers.modeling_outputs import BaseModelOutput

from .beam_cache_vaswani import _expand, _past


WU, POWER = "wu", "power"


def wu_length_penalty(num_tokens: int | Tensor, alpha: float) -> Any:
    """What a log-probability is divided by: ((5 + n) / 6)^alpha (Wu et al. 2016, equation 14).

    Args:
        num_tokens: generated tokens, `</s>` included: the authors' code counts it.
        alpha: `length_penalty`; 0 divides by 1.
    """
    return ((5 + num_tokens) / 6) ** alpha


def power_length_penalty(num_tokens: int | Tensor, alpha: float) -> Any:
    """What the library divides a log-probability by: n^alpha; arguments as above."""
    return num_tokens**alpha


LENGTH_PENALTIES = {WU: wu_length_penalty, POWER: power_length_penalty}


class SourceLengthCriteria(StoppingCriteria):
    """Ends each translation at a length of its own (section 6.1: its source's and 50).

    Args:
        max_new_tokens: `(B,)`, tokens that each translation may have.
        prompt_length: tokens that stand before the first generated one.
    """

    def __init__(self, max_new_tokens: Tensor, prompt_length: int) -> None:
        self.max_new_tokens = max_new_tokens
        self.prompt_length = prompt_length

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        """Say which rows of `(B * K, length)` ids have reached their length: `(B * K,)` bools."""
        limits = self.max_new_tokens.to(input_ids.device)
        limits = limits.repeat_interleave(len(input_ids) // len(limits))
        return limits <= input_ids.shape[1] - self.prompt_length


def beam_search(
    model: Any,
    input_ids: Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    synced_gpus: bool = False,
    **model_kwargs: Any,
) -> Any:
    """Beam search by either form of `length_penalty_type`, as `generate()` calls it (section 6.1).

    At each step the 2K best continuations of a sentence are taken, or with `do_sample` 2K are drawn
    by their probabilities. Those that end in `</s>` are scored and compete for K places; the K best
    of the others go on. A sentence is done when no hypothesis that goes on can still come before
    the ones to be returned: `early_stopping="never"` supposes that it reaches the longest length at
    no further cost, `False`, as in the library, that it ends now, `True` does not ask and stops at
    K ended ones. A hypothesis that reaches the length limit without `</s>` is returned only where
    too few have ended. Where there are fewer hypotheses than `num_return_sequences`, because what
    was given forbids the others, the last is returned again.

    With `length_penalty_type="power"` the rules are the library's, so that it finds the same: only
    what ends among the K best continuations (the first K drawn) competes, what a limit cuts off
    competes as if it had ended, and a sentence is done when nothing can come before the last of K
    ended ones, where `"never"` supposes the longest length of all sentences.

    Args:
        model: the model.
        input_ids: what each target starts with, `(B * K, length)`.
        logits_processor: changes log-probabilities, `(B * K, V)`.
        stopping_criteria: end hypotheses; `EosTokenCriteria` and `MaxLengthCriteria` among them say
            what `</s>` is and how long a hypothesis may be.
        generation_config: the merged settings.
        synced_gpus: whether to call the model until every process is done.
        model_kwargs: the model's arguments, with `B * K` rows; the memory and its mask with `B`, or
            with `B * K` beside a cache that has them.

    Returns:
        Ids, `(B * num_return_sequences, length)`, best first, padded on the right; or the library's
        `GenerateBeamEncoderDecoderOutput`, whose `sequences_scores` are log-probabilities divided
        by the penalty.

    Raises:
        ValueError: if `low_memory` is set, or nothing at all may be said.
    """
    if generation_config.low_memory:
        raise ValueError(
            "low_memory=True has no effect on beam search; leave it out, and give generate() fewer "
            "sentences at a time or use_cache=False."
        )
    num_beams, prompt_length = generation_config.num_beams, input_ids.shape[1]
    num_sentences, device = len(input_ids) // num_beams, input_ids.device
    num_returned = generation_config.num_return_sequences
    returns_dict = generation_config.return_dict_in_generate
    alpha, early_stopping = generation_config.length_penalty, generation_config.early_stopping
    form = generation_config.length_penalty_type or POWER
    is_papers, penalty_of = form == WU, LENGTH_PENALTIES[form]
    ends, limits, other_criteria = _split_criteria(
        stopping_criteria, num_sentences, prompt_length, device
    )
    # With E pieces that end a sentence, at most E * K of (1 + E) * K continuations end.
    num_candidates = (1 + max(1, len(ends))) * num_beams
    num_competing = num_candidates if is_papers else num_beams
    max_new_tokens = generation_config.max_length - prompt_length
    history = _History(generation_config)
    past = _past(model, model_kwargs, num_beams, prompt_length, history)
    # A sentence that is done leaves the batch, unless somebody counts on its rows.
    is_counted_on = returns_dict or other_criteria or len(logits_processor) or synced_gpus
    is_shrinking = past.can_shrink and not (is_counted_on or generation_config.do_sample)

    ended = EndedHypotheses(
        *(num_sentences, num_beams, prompt_length, int(limits.max())),
        *(generation_config.pad_token_id or 0, device),
    )
    sentences = torch.arange(num_sentences, device=device)  # those in the batch
    is_done = torch.zeros(num_sentences, dtype=torch.bool, device=device)
    running = input_ids  # (B * K, length)
    # The beams start alike: only the first may be continued.
    log_probs = torch.zeros(num_sentences, num_beams, device=device)
    log_probs[:, 1:] = -math.inf
    came_from = torch.empty(len(input_ids), 0, dtype=torch.int, device=device)
    encoder_outputs = model_kwargs.pop("encoder_outputs")
    forward = model
    while True:
        inputs = model.prepare_inputs_for_generation(
            **past.inputs(running), encoder_outputs=encoder_outputs, **model_kwargs
        )
        outputs = forward(**inputs, return_dict=True)
        past.cache = outputs.past_key_values
        if model._valid_auto_compile_criteria({"past_key_values": past.cache}, generation_config):
            forward = model.get_compiled_call(generation_config.compile_config)
        logits = outputs.logits[:, -1].float()
        if len(logits) < len(running):  # beams that start alike
            logits = logits.repeat_interleave(num_beams, dim=0)  # (B * K, V)
        token_log_probs = logits_processor(running, logits.log_softmax(dim=-1))
        history.add(logits, token_log_probs, outputs)
        totals = token_log_probs.unflatten(0, (-1, num_beams)) + log_probs.unsqueeze(-1)
        candidates, places = _candidates(totals, num_candidates, generation_config.do_sample)
        tokens, beams = places % logits.shape[-1], places // logits.shape[-1]  # (B, 2K)
        rows = torch.arange(len(totals), device=device).unsqueeze(1) * num_beams + beams
        continued = torch.cat((running[rows], tokens.unsqueeze(-1)), dim=-1)  # (B, 2K, length)
        origin = (sentences.unsqueeze(1) * num_beams + beams).int().unsqueeze(-1)
        lineage = torch.cat((came_from[rows], origin), dim=-1)  # (B, 2K, n)

        num_tokens = continued.shape[-1] - prompt_length
        penalty = penalty_of(num_tokens, alpha)
        is_last = (limits[sentences] <= num_tokens) & ~is_done
        has_ended = torch.isin(tokens, ends)
        if other_criteria:
            stops = other_criteria(continued.flatten(0, 1), history.scores)
            has_ended = has_ended | stops.view_as(has_ended)
        if not is_papers:
            has_ended = has_ended | is_last.unsqueeze(1)
        gains = has_ended[:, :num_competing].any(dim=1) & ~is_done
        if gains.any():
            scores = (candidates / penalty).masked_fill(~has_ended, -math.inf)
            ended.add(
                sentences[gains],
                *(values[gains, :num_competing] for values in (scores, continued, lineage)),
            )

        log_probs, chosen = candidates.masked_fill(has_ended, -math.inf).topk(num_beams)
        running = continued.gather(1, _expand(chosen, continued))  # (B, K, length)
        came_from = lineage.gather(1, _expand(chosen, lineage))

        if is_papers and is_last.any():
            last = sentences[is_last]
            ended.fill(last, log_probs[is_last] / penalty, running[is_last], came_from[is_last])
        if early_stopping is True:
            is_settled = ended.scores[sentences, -1] > -math.inf
        else:
            longest: Any = num_tokens
            if early_stopping == "never" and alpha > 0:
                longest = limits[sentences] if is_papers else max_new_tokens
            reachable = log_probs[:, 0] / penalty_of(longest, alpha)
            counted = num_returned if is_papers else num_beams
            is_settled = reachable <= ended.scores[sentences, counted - 1]
        is_done = is_done | is_last | is_settled
        is_over = bool(is_done.all())
        if synced_gpus:
            is_over = _all_are_over(is_over, device)
        if is_over and not returns_dict:
            break
        running_rows = rows.gather(1, chosen)
        if is_shrinking and is_done.any():
            stays = ~is_done
            running_rows, running, came_from = running_rows[stays], running[stays], came_from[stays]
            sentences, log_probs, is_done = sentences[stays], log_probs[stays], is_done[stays]
            encoder_outputs = BaseModelOutput(encoder_outputs[0][stays])
            if model_kwargs.get("attention_mask") is not None:
                model_kwargs["attention_mask"] = model_kwargs["attention_mask"][stays]
        past.follow(running_rows)
        if is_over:
            break
        running, came_from = running.flatten(0, 1), came_from.flatten(0, 1)

    sequences, scores, beam_indices = ended.best(num_returned)
    if not returns_dict:
        return sequences
    return GenerateBeamEncoderDecoderOutput(
        sequences=sequences,
        sequences_scores=scores,
        beam_indices=beam_indices,
        past_key_values=past.rows(),
        **history.outputs(encoder_outputs),
    )


class EndedHypotheses:
    """The K best ended hypotheses of each sentence, best first.

    `ids` are `(B, K, length)`, `scores` `(B, K)`, minus infinity where a place is empty, and
    `beam_indices` `(B, K, n)` the rows of the batch that each token came from, -1 after the last.
    """

    def __init__(
        self,
        num_sentences: int,
        num_beams: int,
        prompt_length: int,
        longest: int,
        pad_token_id: int,
        device: torch.device,
    ) -> None:
        shape = (num_sentences, num_beams)
        self.prompt_length, self.pad_token_id = prompt_length, pad_token_id
        self.scores = torch.full(shape, -math.inf, device=device)
        self.ids = torch.full((*shape, prompt_length + longest), pad_token_id, device=device)
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
        takes_no_part = scores.isneginf().unsqueeze(-1)
        ids = ids.masked_fill(takes_no_part, self.pad_token_id)
        beam_indices = beam_indices.masked_fill(takes_no_part, -1)
        for held, new in (
            (self.scores, scores),
            (self.ids, ids),
            (self.beam_indices, beam_indices),
        ):
            length = new.shape[-1] if new.ndim == 3 else None
            old = held[sentences]
            if length is None:
                held[sentences] = torch.cat((old, new), dim=1).gather(1, kept)
                continue
            # What is longer than the new ones is padding.
            merged = torch.cat((old[..., :length], new), dim=1)
            old[..., :length] = merged.gather(1, _expand(kept, merged))
            held[sentences] = old

    def best(self, num_returned: int) -> tuple[Tensor, Tensor, Tensor]:
        """The first so many of each sentence, without padding that all share.

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
            values.gather(1, _expand(places, values)).flatten(0, 1)
            for values in (self.beam_indices, self.ids)
        )
        longest = int(beam_indices.ge(0).sum(dim=1).max())
        scores = self.scores.gather(1, places).flatten()
        return ids[:, : self.prompt_length + longest], scores, beam_indices[:, :longest]


class _History:
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

    def add(self, logits: Tensor, log_probs: Tensor, outputs: Any) -> None:
        if self.scores is not None:
            self.scores += (log_probs.clone(),)
        if self.logits is not None:
            self.logits += (logits.clone(),)
        if self.has_attentions or self.has_states:
            self.steps.append({name: outputs.get(name) for name in self.STATES})

    def outputs(self, encoder_outputs: Any) -> dict[str, Any]:
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


def _split_criteria(
    criteria: StoppingCriteriaList, num_sentences: int, prompt_length: int, device: torch.device
) -> tuple[Tensor, Tensor, StoppingCriteriaList]:
    """Pieces that end a hypothesis, the length limit of each sentence `(B,)`, and other criteria.

    A criterion that a caller gives takes the place of the library's own of the same class.
    """
    ends: list[Tensor] = [torch.empty(0, dtype=torch.long, device=device)]
    limits = torch.full((num_sentences,), torch.iinfo(torch.long).max, device=device)
    others = StoppingCriteriaList()
    for criterion in criteria:  # a class derived from these may say anything
        if type(criterion) is SourceLengthCriteria:
            limits = torch.minimum(limits, criterion.max_new_tokens.to(device))
        elif type(criterion) is MaxLengthCriteria:
            limits = limits.clamp(max=criterion.max_length - prompt_length)
        elif type(criterion) is EosTokenCriteria:
            ends.append(criterion.eos_token_id.to(device))
        else:
            others.append(criterion)
    return torch.cat(ends), limits.clamp(min=1), others


def _candidates(totals: Tensor, count: int, do_sample: bool) -> tuple[Tensor, Tensor]:
    """Continuations to go on with, out of log-probabilities `(B, K, V)`: the best, or a sample.

    Returns:
        Their log-probabilities `(B, count)`, best first or as they were drawn, and their places
        `(B, count)` among the K * V.
    """
    totals = totals.flatten(1)
    count = min(count, totals.shape[1])
    if not do_sample:
        return totals.topk(count)
    # Of a sentence that is done nothing may be left, and -inf alone has no softmax.
    places = totals.clamp(min=torch.finfo(totals.dtype).min).softmax(dim=-1).multinomial(count)
    return totals.gather(1, places), places


def _all_are_over(is_over: bool, device: torch.device) -> bool:
    at_work = torch.tensor(0.0 if is_over else 1.0, device=device)
    distributed.all_reduce(at_work)
    return at_work.item() == 0


__all__ = ["beam_search", "wu_length_penalty"]
