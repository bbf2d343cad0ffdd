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
"""The beam search of section 6.1, inside the library's `generate()`.

A generation config of this model has two entries more than the library's:

| Entry | What |
|---|---|
| `length_penalty_type` | `"wu"` (Wu et al. 2016, equation 14, cited by the paper) or `"power"` |
| `max_extra_tokens` | a translation has at most so many tokens more than its source |

`"power"` finds what the library's own beam search does, whose penalty is the length to the power of
`length_penalty`. Either entry may be given to `generate()` as an argument.

Shapes: `B` sentences, `K` beams, `V` pieces, `n` generated tokens.
"""

import copy
import math
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn import functional as F
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    EosTokenCriteria,
    GenerationConfig,
    GenerationMixin,
    LogitsProcessorList,
    MaxLengthCriteria,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.cache_utils import Cache, DynamicLayer
from transformers.generation import GenerateBeamEncoderDecoderOutput
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import ModelOutput


WU, POWER = "wu", "power"
# Section 6.1. "never" ends the search only when no hypothesis can still become the best.
PAPER = {
    "num_beams": 4,
    "length_penalty": 0.6,
    "length_penalty_type": WU,
    "max_extra_tokens": 50,
    "early_stopping": "never",
}


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
LARGEST_ALPHA = 50.0  # of either sign; a million tokens to a higher power are no float64


def check_length_penalty(alpha: Any) -> None:
    """Raise a `ValueError` if what a log-probability is divided by might be no number."""
    if not (isinstance(alpha, int | float) and -LARGEST_ALPHA <= alpha <= LARGEST_ALPHA):
        raise ValueError(
            f"length_penalty must be a number in [-{LARGEST_ALPHA:g}, {LARGEST_ALPHA:g}], got "
            f"length_penalty={alpha!r}."
        )


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


class VaswaniGenerationMixin(GenerationMixin):
    """`generate()` with the paper's length penalty and with a length limit for each sentence."""

    def use_paper_generation(self) -> None:
        """Put section 6.1's beam search into the model's generation config."""
        for name, value in PAPER.items():
            setattr(self.generation_config, name, value)
        # Else the library forgets, when it loads the config, what its own do not have.
        self.generation_config._from_model_config = False

    @torch.no_grad()
    def generate(
        self,
        inputs: Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        logits_processor: LogitsProcessorList | None = None,
        stopping_criteria: StoppingCriteriaList | None = None,
        *arguments: Any,
        **kwargs: Any,
    ) -> Any:
        """Translate source ids `(B, S)`; all that the library's `generate()` takes, and two more.

        Args:
            inputs: source ids, `(B, S)`; or `input_ids`, `inputs_embeds`, `encoder_outputs`; where
                none is given, `bos_token_id` of the generation config is one.
            generation_config: what it leaves open comes from the model's.
            logits_processor: as the library's.
            stopping_criteria: as the library's.
            arguments: the library's further ones, in its order.
            kwargs: the library's, arguments of `forward`, and two of this model.
                `length_penalty_type`: `"wu"` divides a log-probability by ((5 + n) /
                6)^length_penalty, `"power"` by n^length_penalty, as the library does; a config that
                says neither means `"power"`.
                `max_extra_tokens`: a translation has at most so many tokens more than the real
                tokens of its source; does not hold where `max_new_tokens` or `max_length` is given
                to this call, unless it is given beside it.

        Returns:
            As the library's: ids, or with `return_dict_in_generate` ids, scores and more.

        Raises:
            ValueError: if one of the two or `length_penalty` has a value that it cannot have.
        """
        for name, meant in (("length_penalty_type", POWER), ("max_extra_tokens", None)):
            if not hasattr(self.generation_config, name):  # else the library knows no such argument
                setattr(self.generation_config, name, meant)
        self._check_entries(kwargs, generation_config)
        limits = self._length_limits(inputs, generation_config, kwargs)
        if limits is not None:
            prompt = kwargs.get("decoder_input_ids")
            prompt_length = 1 if prompt is None else prompt.shape[1]
            stopping_criteria = StoppingCriteriaList(stopping_criteria or [])
            stopping_criteria.append(SourceLengthCriteria(limits, prompt_length))
            if not _gives_length(kwargs, generation_config):
                longest = int(limits.max())
                if generation_config is None:
                    # The library's trainer leaves a `max_length` in the model's config.
                    kwargs |= {"max_new_tokens": longest, "max_length": None}
                else:
                    generation_config = copy.deepcopy(generation_config)
                    generation_config.max_new_tokens = longest
        return super().generate(
            inputs, generation_config, logits_processor, stopping_criteria, *arguments, **kwargs
        )

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, decoder_attention_mask: Tensor | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """What the library hands to `forward`, and a mask of the target by which positions count.

        For a static cache the library makes a mask of which query sees which key, and that does not
        tell padding from what is yet to come. A mask `(B, T)` stays one here, as long as the cache,
        so that one compiled graph serves every step.
        """
        inputs = super().prepare_inputs_for_generation(input_ids, **kwargs)
        if decoder_attention_mask is None:
            return inputs
        cache = kwargs.get("past_key_values")
        if decoder_attention_mask.ndim == 2 and cache is not None and cache.is_compileable:
            room = cache.get_mask_sizes(1, 0)[0] - decoder_attention_mask.shape[1]
            decoder_attention_mask = F.pad(decoder_attention_mask, (0, room))
        return inputs | {"decoder_attention_mask": decoder_attention_mask}

    def compute_transition_scores(
        self,
        sequences: Tensor,
        scores: tuple[Tensor, ...],
        beam_indices: Tensor | None = None,
        normalize_logits: bool = False,
    ) -> Tensor:
        """The score of each generated token, out of what `generate()` returns; as the library's.

        The library supposes that the target's vocabulary is as large as the source's.

        Args:
            sequences: ids, `(rows, length)`.
            scores: of each step, `(B, V)`, or `(B * K, V)` of a beam search.
            beam_indices: of a beam search, `(rows, n)`; `None` for others.
            normalize_logits: whether to turn the scores into log-probabilities first.

        Returns:
            `(rows, n)`, 0 after the last token.
        """
        steps = torch.stack(scores, dim=1)  # (B * K, n, V)
        if normalize_logits:
            steps = steps.log_softmax(dim=-1)
        if beam_indices is None:
            rows = torch.arange(len(steps), device=sequences.device)
            beam_indices = rows.unsqueeze(1).expand(-1, len(scores))
        is_generated = beam_indices >= 0
        num_tokens = int(is_generated.sum(dim=1).max())
        is_generated = is_generated[:, :num_tokens]
        rows = beam_indices[:, :num_tokens].clamp(min=0)
        tokens = sequences[:, sequences.shape[1] - num_tokens :]
        chosen = steps[rows, torch.arange(num_tokens, device=rows.device), tokens]
        return chosen.masked_fill(~is_generated, 0.0)

    def _check_entries(
        self, kwargs: dict[str, Any], generation_config: GenerationConfig | None
    ) -> None:
        penalty = _entry("length_penalty_type", kwargs, generation_config, self.generation_config)
        if penalty not in (WU, POWER):
            raise ValueError(
                f'length_penalty_type must be "{WU}" or "{POWER}", got '
                f"length_penalty_type={penalty!r}."
            )
        alpha = _entry("length_penalty", kwargs, generation_config, self.generation_config)
        if alpha is not None:
            check_length_penalty(alpha)
        extra = _entry("max_extra_tokens", kwargs, generation_config, self.generation_config)
        if extra is not None and not (isinstance(extra, int) and extra >= 0):
            raise ValueError(
                f"max_extra_tokens must be a whole number, at least 0, got "
                f"max_extra_tokens={extra!r}."
            )

    def _length_limits(
        self,
        inputs: Tensor | None,
        generation_config: GenerationConfig | None,
        kwargs: dict[str, Any],
    ) -> Tensor | None:
        """Tokens that each translation may have, `(B,)`; `None` where nothing says so."""
        configs = () if _gives_length(kwargs, generation_config) else (self.generation_config,)
        extra = _entry("max_extra_tokens", kwargs, generation_config, *configs)
        if extra is None:
            return None
        limits = source_lengths(inputs, kwargs) + extra
        if self.config.position_encoding == "learned":  # which end
            limits = limits.clamp(max=self.config.max_position_embeddings)
        return limits.clamp(min=1)

    def _expand_inputs_for_generation(
        self,
        expand_size: int = 1,
        is_encoder_decoder: bool = False,
        input_ids: Tensor | None = None,
        **model_kwargs: Any,
    ) -> tuple[Tensor | None, dict[str, Any]]:
        """Called by the library to give each beam its rows: a sentence's beams share its memory.

        In a cache that is passed on they may have a row of it each; then they do so here too.
        """
        num_sentences = len(model_kwargs["encoder_outputs"][0])
        num_memory_rows = _num_memory_rows(model_kwargs.get("past_key_values"))
        if num_memory_rows is not None and num_memory_rows > num_sentences:
            return super()._expand_inputs_for_generation(
                expand_size, is_encoder_decoder, input_ids, **model_kwargs
            )
        shared = {
            name: model_kwargs.pop(name)
            for name in ("encoder_outputs", "attention_mask")
            if name in model_kwargs
        }
        input_ids, model_kwargs = super()._expand_inputs_for_generation(
            expand_size, False, input_ids, **model_kwargs
        )
        return input_ids, model_kwargs | shared

    @staticmethod
    def _reorder_cache(past_key_values: EncoderDecoderCache, beam_idx: Tensor) -> Any:
        """For searches of `custom_generate`, when beams change places; the memory stays."""
        _reorder(past_key_values.self_attention_cache, beam_idx)
        return past_key_values

    def _sample(self, *arguments: Any, **kwargs: Any) -> Any:
        """Called by the library for one beam; returns a cache with a row of memory for each."""
        outputs = super()._sample(*arguments, **kwargs)
        if isinstance(outputs, ModelOutput):
            outputs.past_key_values = _with_own_memory(outputs.past_key_values)
        return outputs

    def _beam_search(
        self,
        input_ids: Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        **model_kwargs: Any,
    ) -> Any:
        """Called by the library for `num_beams` above 1."""
        return beam_search(
            self,
            input_ids,
            logits_processor=logits_processor,
            stopping_criteria=stopping_criteria,
            generation_config=generation_config,
            synced_gpus=synced_gpus,
            **model_kwargs,
        )


def source_lengths(inputs: Tensor | None, kwargs: dict[str, Any]) -> Tensor:
    """Real tokens of each source, `(B,)`, out of the arguments of `generate()`."""
    mask = kwargs.get("attention_mask")
    if mask is not None and mask.ndim == 2:
        return mask.ne(0).sum(dim=1)
    for source in (inputs, kwargs.get("input_ids"), kwargs.get("inputs_embeds")):
        if source is not None:
            return torch.full((len(source),), source.shape[1], device=source.device)
    encoder_outputs = kwargs.get("encoder_outputs")
    if encoder_outputs is None:  # the library's source is then `<s>` alone, if there is one
        return torch.ones(1, dtype=torch.long)
    memory = encoder_outputs[0]
    return torch.full((len(memory),), memory.shape[1], device=memory.device)


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


class _RowPast:
    """What the model keeps of the beams so far: a row of its cache for each, or nothing."""

    def __init__(self, cache: Any, num_beams: int, mask: Tensor | None) -> None:
        self.cache, self.num_beams, self.mask = cache, num_beams, mask
        self.num_fed = 0  # tokens of each beam that the cache has

    @property
    def can_shrink(self) -> bool:
        """Whether rows may leave, on which a compiled graph or whoever gave something counts."""
        kept = getattr(self.cache, "self_attention_cache", None)
        is_ours = isinstance(kept, DynamicCache) and not _is_given(self.cache)
        return self.mask is None and is_ours

    def inputs(self, running: Tensor) -> dict[str, Any]:
        """What the model does not know yet of beams `(B * K, length)`.

        As arguments of `prepare_inputs_for_generation`.
        """
        new = running[:, self.num_fed :].contiguous()
        if self.cache is not None:
            self.num_fed = running.shape[1]
        return {
            "input_ids": new,
            "past_key_values": self.cache,
            "decoder_attention_mask": self.mask,
        }

    def follow(self, rows: Tensor) -> None:
        """Give the beams `(B, K)` the pasts of the rows they continue; other sentences leave."""
        if self.cache is not None:
            _reorder(self.cache.self_attention_cache, rows.flatten())
            if self.can_shrink and len(rows) < len(self.cache.cross_attention_cache.layers[0].keys):
                self.cache.cross_attention_cache.reorder_cache(rows[:, 0] // self.num_beams)
        if self.mask is not None:
            self.mask = torch.cat((self.mask, self.mask.new_ones(len(self.mask), 1)), dim=1)

    def rows(self) -> Any:
        """The cache as the library would return it: a row for each beam, of its memory too."""
        return _with_own_memory(self.cache)


class _TreePast(_RowPast):
    """The beams' pasts as a tree for each sentence: what they have in common is there once.

    `sees`, `(B, K, entries)`, tells which entries of a `TreeLayer` are the past of each beam. When
    beams change places it changes, and no keys or values move.
    """

    can_shrink = True

    def __init__(self, memory: Cache, num_beams: int) -> None:
        cache = EncoderDecoderCache(Cache(layer_class_to_replicate=TreeLayer), memory)
        super().__init__(cache, num_beams, None)
        self.sees = torch.empty(0)

    def inputs(self, running: Tensor) -> dict[str, Any]:
        """As above; at first the beams are alike, and one row of each sentence will do."""
        if self.num_fed == 0:
            start = running[:: self.num_beams]  # (B, length)
            self.sees = torch.ones_like(start, dtype=torch.bool).unsqueeze(1)
            self.sees = self.sees.expand(-1, self.num_beams, -1)
            return super().inputs(start)
        own = torch.eye(self.num_beams, dtype=torch.bool, device=running.device)
        self.sees = torch.cat((self.sees, own.expand(len(self.sees), -1, -1)), dim=-1)
        dtype = self.cache.self_attention_cache.layers[0].dtype
        hidden = torch.zeros(self.sees.shape, dtype=dtype, device=running.device)
        hidden.masked_fill_(~self.sees, torch.finfo(dtype).min)
        return super().inputs(running) | {"decoder_attention_mask": hidden.unsqueeze(1)}

    def follow(self, rows: Tensor) -> None:
        """As above."""
        kept = rows[:, 0] // self.num_beams
        if len(kept) < len(self.sees):
            self.sees = self.sees[kept]
            self.cache.reorder_cache(kept)
        self.sees = self.sees.gather(1, _expand(rows % self.num_beams, self.sees))

    def rows(self) -> Any:
        """As above."""
        num_tokens = self.cache.get_seq_length()
        entries = self.sees.nonzero()[:, 2].view(len(self.sees), self.num_beams, num_tokens)
        sentences = torch.arange(len(entries), device=entries.device).view(-1, 1, 1)
        cache = DynamicCache()
        for index, layer in enumerate(self.cache.self_attention_cache.layers):
            keys, values = (  # (B * K, H, T, d_k), (B * K, H, T, d_v)
                states[sentences, :, entries].flatten(0, 1).transpose(1, 2)
                for states in (layer.keys, layer.values)
            )
            cache.update(keys.contiguous(), values.contiguous(), index)
        return _with_own_memory(EncoderDecoderCache(cache, self.cache.cross_attention_cache))


class TreeLayer(DynamicLayer):
    """Keys and values of all beams of a sentence in one row, in the order they came."""

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Prepare for the first keys `(B, H, T, d_k)` and values, a row for each sentence."""
        super().lazy_initialization(key_states, value_states)
        self.num_tokens = self.num_entries = 0
        self.rooms = [states[:, :, :0] for states in (key_states, value_states)]

    def update(
        self, key_states: Tensor, value_states: Tensor, *arguments: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add keys `(B * K, H, T, d_k)` and values `(B * K, H, T, d_v)`.

        Returns:
            All keys `(B, H, entries, d_k)` and values `(B, H, entries, d_v)`.
        """
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        begin = self.num_entries
        for place, states in enumerate((key_states, value_states)):
            room = self.rooms[place]
            new = states.unflatten(0, (len(room), -1)).transpose(1, 2).flatten(2, 3)
            self.num_entries = begin + new.shape[2]
            if self.num_entries > room.shape[2]:
                larger = room.new_empty(*room.shape[:2], 2 * self.num_entries, room.shape[3])
                larger[:, :, :begin] = room[:, :, :begin]
                self.rooms[place] = room = larger
            room[:, :, begin : self.num_entries] = new
        self.num_tokens += key_states.shape[2]
        self.keys, self.values = (room[:, :, : self.num_entries] for room in self.rooms)
        return self.keys, self.values

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Keep some rows, that is sentences."""
        self.rooms = [room.index_select(0, beam_idx) for room in self.rooms]

    def get_seq_length(self) -> int:
        """The tokens of each beam."""
        return self.num_tokens if self.is_initialized else 0


def _past(
    model: Any,
    model_kwargs: dict[str, Any],
    num_beams: int,
    num_given: int,
    history: "_History",
) -> _RowPast:
    """How the search keeps the beams' pasts, by the arguments that it takes out of the model's.

    Where the mask covers the ids that were given and no more, the library takes them for all there
    are, and else for those that the cache does not know.
    """
    cache = model_kwargs.pop("past_key_values", None)
    mask = model_kwargs.pop("decoder_attention_mask", None)
    past = _RowPast(cache, num_beams, mask)
    if cache is not None and mask is not None and mask.shape[1] == num_given:
        past.num_fed = int(cache.get_seq_length())  # the ids start with what the cache knows
    # The others take no mask of their own, or their attentions and states are wanted row by row.
    takes_masks = model.config._attn_implementation in ("eager", "sdpa")
    wants_rows = history.has_attentions or history.has_states
    if past.can_shrink and cache.get_seq_length() == 0 and takes_masks and not wants_rows:
        return _TreePast(cache.cross_attention_cache, num_beams)
    return past


def _is_given(cache: Any) -> bool:
    """Whether the caller of `generate()` gave this cache, who may look into it later."""
    return getattr(cache, "_is_user_defined", False)


def _num_memory_rows(cache: Any) -> int | None:
    """Rows of the memory that a cache holds; `None` where it holds none."""
    if not isinstance(cache, EncoderDecoderCache) or not cache.is_updated.get(0):
        return None
    return len(cache.cross_attention_cache.layers[0].keys)


def _with_own_memory(cache: Any) -> Any:
    """A cache whose memory has as many rows as it has beams or samples; the given one stays."""
    num_memory_rows = _num_memory_rows(cache)
    if num_memory_rows is None:
        return cache
    repeats = len(cache.self_attention_cache.layers[0].keys) // num_memory_rows
    if repeats == 1:
        return cache
    memory = copy.copy(cache.cross_attention_cache)
    memory.layers = [copy.copy(layer) for layer in memory.layers]
    for layer in memory.layers:
        layer.keys = layer.keys.repeat_interleave(repeats, dim=0)
        layer.values = layer.values.repeat_interleave(repeats, dim=0)
    return EncoderDecoderCache(cache.self_attention_cache, memory)


def _reorder(cache: Cache, rows: Tensor) -> None:
    for layer in cache.layers:
        if layer.is_compileable:  # a compiled graph reads these very tensors
            layer.keys.copy_(layer.keys.index_select(0, rows))
            layer.values.copy_(layer.values.index_select(0, rows))
        else:
            layer.reorder_cache(rows)


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


def _entry(name: str, kwargs: dict[str, Any], *configs: GenerationConfig | None) -> Any:
    """What the call says of an entry, or else the first config that does; `None` for nobody."""
    values = [kwargs.get(name), *(getattr(config, name, None) for config in configs)]
    return next((value for value in values if value is not None), None)


def _gives_length(kwargs: dict[str, Any], generation_config: GenerationConfig | None) -> bool:
    lengths = (_entry(name, kwargs, generation_config) for name in ("max_new_tokens", "max_length"))
    return any(length is not None for length in lengths)


def _expand(index: Tensor, values: Tensor) -> Tensor:
    """An index `(B, K)` for `gather` along the second dimension of `(B, C, length)`."""
    return index.unsqueeze(-1).expand(-1, -1, values.shape[-1])


def _all_are_over(is_over: bool, device: torch.device) -> bool:
    at_work = torch.tensor(0.0 if is_over else 1.0, device=device)
    distributed.all_reduce(at_work)
    return at_work.item() == 0


__all__ = ["VaswaniGenerationMixin", "beam_search", "wu_length_penalty"]
