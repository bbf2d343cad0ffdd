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
"""Section 6.1 inside the library's `generate()`: what a caller sees.

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
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import (
    EncoderDecoderCache,
    EosTokenCriteria,
    GenerationConfig,
    GenerationMixin,
    LogitsProcessorList,
    MaxLengthCriteria,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import ModelOutput

from .beam_cache_vaswani import num_memory_rows, reorder_rows, with_memory_rows
from .beam_search_vaswani import RULES, BeamCandidate, BeamStep, beam_search
from .decoding_vaswani import DecoderSteps, decoder_steps
from .greedy_search_vaswani import greedy_search
from .search_settings_vaswani import (
    PAPER,
    POWER,
    WU,
    check_length_penalty,
    check_num_beams,
    wu_length_penalty,
)


OUR_ENTRIES = ("length_penalty_type", "max_extra_tokens")


class SourceLengthCriteria(StoppingCriteria):
    """Ends each translation at a length of its own, in the library's searches (section 6.1).

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


@dataclass
class SearchRequest:
    """What a call of `generate()` asks of the beam search, for which the library has no argument.

    Attributes:
        length_penalty_type: names the rules of the search.
        is_cache_given: whether the caller gave `past_key_values`.
        limits: `(B,)`, tokens that each translation may have by its source; `None` for any number.
        criterion: says the same to the library's own searches.
        on_step: is told of every step.
    """

    length_penalty_type: str
    is_cache_given: bool
    limits: Tensor | None = None
    criterion: SourceLengthCriteria | None = None
    on_step: Callable[[BeamStep], object] | None = None


# The library calls `_beam_search()` within `generate()` and hands on only what it knows itself.
_REQUEST: ContextVar[SearchRequest | None] = ContextVar("search request", default=None)


class VaswaniGenerationMixin(GenerationMixin):
    """`generate()` with the paper's length penalty and with a length limit for each sentence."""

    generation_config: GenerationConfig

    def use_paper_generation(self) -> None:
        """Give the model a generation config with section 6.1's beam search."""
        entries = self.generation_config.to_dict()
        # Marked as made of the model's config, it would lose our entries when it is loaded.
        entries = {name: value for name, value in entries.items() if not name.startswith("_")}
        self.generation_config = GenerationConfig(**entries | PAPER)

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
        """Translate source ids `(B, S)`; all that the library's `generate()` takes, and three more.

        Args:
            inputs: source ids, `(B, S)`; or `input_ids`, `inputs_embeds`, `encoder_outputs`; where
                none is given, `bos_token_id` of the generation config is one.
            generation_config: what it leaves open comes from the model's.
            logits_processor: as the library's.
            stopping_criteria: as the library's.
            arguments: the library's further ones, in its order.
            kwargs: the library's, arguments of `forward`, and three of this model.
                `length_penalty_type`: `"wu"` divides a log-probability by ((5 + n) /
                6)^length_penalty, `"power"` by n^length_penalty, as the library does; a config that
                says neither means `"power"`.
                `max_extra_tokens`: a translation has at most so many tokens more than the real
                tokens of its source; does not hold where `max_new_tokens` or `max_length` is given
                to this call, unless it is given beside it.
                `on_step`: a function that beam search calls with a `BeamStep` for each step of each
                sentence.

        Returns:
            As the library's: ids, or with `return_dict_in_generate` ids, scores and more.

        Raises:
            ValueError: if one of the entries or `length_penalty` has a value that it cannot have,
                or `on_step` is given and `num_beams` is 1.
        """
        self._check_entries(kwargs, generation_config)
        request = self._request(inputs, generation_config, kwargs)
        request.on_step = kwargs.pop("on_step", None)
        num_beams = _entry("num_beams", kwargs, generation_config, self.generation_config)
        if request.on_step is not None and (num_beams or 1) == 1:
            raise ValueError(
                "on_step is for beam search, got num_beams=1; take more beams, or a streamer."
            )
        if request.criterion is not None:
            given = stopping_criteria or []
            stopping_criteria = StoppingCriteriaList([*given, request.criterion])
            if not _says_length(kwargs, generation_config):
                longest = int(request.criterion.max_new_tokens.max())
                if generation_config is None:
                    # The library's trainer leaves a `max_length` in the model's config.
                    kwargs |= {"max_new_tokens": longest, "max_length": None}
                else:
                    generation_config = copy.deepcopy(generation_config)
                    generation_config.max_new_tokens = longest
        kwargs = self._librarys_arguments(kwargs, generation_config)
        before = _REQUEST.set(request)
        try:
            outputs = super().generate(
                inputs, generation_config, logits_processor, stopping_criteria, *arguments, **kwargs
            )
        finally:
            _REQUEST.reset(before)
        if isinstance(outputs, ModelOutput) and "past_key_values" in outputs:
            outputs.past_key_values = with_memory_rows(outputs.past_key_values)
        return outputs

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

    def decoder_steps(
        self, num_beams: int, is_cache_given: bool, model_kwargs: dict[str, Any]
    ) -> DecoderSteps | None:
        """The steps of a search, or `None` where the model itself must be called.

        Arguments are those of the function of this name.
        """
        return decoder_steps(self, num_beams, is_cache_given, model_kwargs)

    def _check_entries(
        self, kwargs: dict[str, Any], generation_config: GenerationConfig | None
    ) -> None:
        penalty = _entry("length_penalty_type", kwargs, generation_config, self.generation_config)
        if penalty not in (None, WU, POWER):
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
        num_beams = _entry("num_beams", kwargs, generation_config, self.generation_config)
        if isinstance(num_beams, int):
            check_num_beams(num_beams, self.config.num_target_pieces)

    def _request(
        self,
        inputs: Tensor | None,
        generation_config: GenerationConfig | None,
        kwargs: dict[str, Any],
    ) -> SearchRequest:
        penalty = _entry("length_penalty_type", {}, generation_config, self.generation_config)
        penalty = kwargs.get("length_penalty_type", penalty)  # None is the library's as well
        is_cache_given = kwargs.get("past_key_values") is not None
        limits = self._length_limits(inputs, generation_config, kwargs)
        if limits is None:
            return SearchRequest(penalty or POWER, is_cache_given)
        criterion = SourceLengthCriteria(limits, _prompt_length(kwargs))
        return SearchRequest(penalty or POWER, is_cache_given, limits, criterion)

    def _librarys_arguments(
        self, kwargs: dict[str, Any], generation_config: GenerationConfig | None
    ) -> dict[str, Any]:
        """What the library takes of the arguments: entries of ours only where a config has them."""
        configs = (generation_config, self.generation_config)
        taken = {
            name: value
            for name, value in kwargs.items()
            if name not in OUR_ENTRIES or any(hasattr(config, name) for config in configs)
        }
        # A version that calls no `_beam_search` is given ours by its public argument.
        if not hasattr(GenerationMixin, "_beam_search"):
            num_beams = _entry("num_beams", kwargs, *configs)
            if num_beams is not None and num_beams > 1:
                taken.setdefault("custom_generate", type(self)._beam_search)
        return taken

    def _length_limits(
        self,
        inputs: Tensor | None,
        generation_config: GenerationConfig | None,
        kwargs: dict[str, Any],
    ) -> Tensor | None:
        """Tokens that each translation may have, `(B,)`; `None` where nothing says so."""
        configs = () if _says_length(kwargs, generation_config) else (self.generation_config,)
        extra = _entry("max_extra_tokens", kwargs, generation_config, *configs)
        if extra is None:
            return None
        limits = source_lengths(inputs, kwargs) + extra
        if self.config.position_encoding == "learned":  # which end
            most = self.config.max_position_embeddings - (_prompt_length(kwargs) - 1)
            limits = limits.clamp(max=most)
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
        if expand_size == 1:
            return input_ids, model_kwargs

        def expand(value: Any) -> Any:
            if isinstance(value, ModelOutput):
                return type(value)(**{name: expand(part) for name, part in value.items()})
            is_tensor = isinstance(value, Tensor)
            return value.repeat_interleave(expand_size, dim=0) if is_tensor else value

        shared = {
            name: model_kwargs.pop(name, None) for name in ("encoder_outputs", "attention_mask")
        }
        cached_rows = num_memory_rows(model_kwargs.get("past_key_values"))
        if cached_rows is not None and cached_rows > len(shared["encoder_outputs"][0]):
            shared = {name: expand(value) for name, value in shared.items()}
        model_kwargs = {name: expand(value) for name, value in model_kwargs.items()}
        return expand(input_ids), model_kwargs | shared

    @staticmethod
    def _reorder_cache(past_key_values: EncoderDecoderCache, beam_idx: Tensor) -> Any:
        """Called by searches of `custom_generate` when beams change places; the memory stays."""
        reorder_rows(past_key_values.self_attention_cache, beam_idx)
        return past_key_values

    def _beam_search(
        self,
        input_ids: Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        **model_kwargs: Any,
    ) -> Any:
        """Called by the library for `num_beams` above 1.

        Raises:
            ValueError: if `low_memory` is set.
        """
        if generation_config.low_memory:
            raise ValueError(
                "low_memory=True has no effect on beam search; leave it out, and give generate() "
                "fewer sentences at a time or use_cache=False."
            )
        request = _REQUEST.get()
        if request is None:  # a search of somebody else's that calls this one
            penalty = getattr(generation_config, "length_penalty_type", None)
            request = SearchRequest(penalty or POWER, is_cache_given=True)
        num_beams, prompt_length = generation_config.num_beams, input_ids.shape[1]
        num_sentences, device = len(input_ids) // num_beams, input_ids.device
        max_new_tokens = generation_config.max_length - prompt_length
        longest, ends, criteria = _split_criteria(
            stopping_criteria, request.criterion, prompt_length, device
        )
        limits = _limits(request, longest, input_ids[::num_beams])
        _share_memory(model_kwargs, num_sentences)
        rules = RULES[request.length_penalty_type](
            num_beams,
            generation_config.num_return_sequences,
            generation_config.length_penalty,
            generation_config.early_stopping,
            max_new_tokens,
        )
        return beam_search(
            self,
            input_ids,
            rules=rules,
            limits=limits.clamp(min=1),
            ends=ends,
            criteria=criteria,
            logits_processor=logits_processor,
            generation_config=generation_config,
            is_cache_given=request.is_cache_given,
            synced_gpus=synced_gpus,
            on_step=request.on_step,
            **model_kwargs,
        )

    def _sample(
        self,
        input_ids: Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        streamer: Any = None,
        **model_kwargs: Any,
    ) -> Any:
        """Called by the library for one beam; what asks for more than ids goes on to its own."""
        request = _REQUEST.get() or SearchRequest(POWER, is_cache_given=True)
        prompt_length = input_ids.shape[1]
        if request.criterion is not None:  # before a given start the library may put its own
            request.criterion.prompt_length = prompt_length
        longest, ends, criteria = _split_criteria(
            stopping_criteria, request.criterion, prompt_length, input_ids.device
        )
        wants_ids_alone = not (
            generation_config.do_sample
            or generation_config.return_dict_in_generate
            or generation_config.is_assistant
            or streamer is not None
            or synced_gpus
            or criteria
        )
        steps = None
        # Without an end the library goes on with sentences that have reached their limit.
        if wants_ids_alone and len(ends) and generation_config.pad_token_id is not None:
            steps = self.decoder_steps(1, request.is_cache_given, model_kwargs)
        if steps is None:
            return super()._sample(
                input_ids,
                logits_processor,
                stopping_criteria,
                generation_config,
                synced_gpus,
                streamer,
                **model_kwargs,
            )
        return greedy_search(
            steps,
            input_ids,
            _limits(request, longest, input_ids),
            ends,
            logits_processor,
            generation_config.pad_token_id,
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


def _prompt_length(kwargs: dict[str, Any]) -> int:
    """Tokens that each target is given to start with."""
    prompt = kwargs.get("decoder_input_ids")
    return 1 if prompt is None else prompt.shape[1]


def _limits(request: SearchRequest, longest: int, ids: Tensor) -> Tensor:
    """Tokens that the translation of each row of ids may have, `(B,)`."""
    limits = torch.full((len(ids),), longest, device=ids.device)
    return limits if request.limits is None else limits.minimum(request.limits.to(ids.device))


def _split_criteria(
    criteria: StoppingCriteriaList,
    ours: SourceLengthCriteria | None,
    prompt_length: int,
    device: torch.device,
) -> tuple[int, Tensor, StoppingCriteriaList]:
    """What the library's and the caller's criteria say of length and end, and all others.

    The library makes criteria of `max_length` and `eos_token_id`; one of the same class that the
    caller gives takes their place.

    Returns:
        Tokens that each hypothesis may have, the pieces that end one, and the criteria that are
        asked at each step.
    """
    lengths, ends, others = [torch.iinfo(torch.long).max], [], StoppingCriteriaList()
    for criterion in criteria:  # a class derived from these may say anything
        if type(criterion) is MaxLengthCriteria:
            lengths.append(criterion.max_length - prompt_length)
        elif type(criterion) is EosTokenCriteria:
            ends.append(criterion.eos_token_id.to(device))
        elif criterion is not ours:  # whose limits the search knows
            others.append(criterion)
    none = torch.empty(0, dtype=torch.long, device=device)
    return min(lengths), torch.cat([none, *ends]), others


def _share_memory(model_kwargs: dict[str, Any], num_sentences: int) -> None:
    """Leave one row of memory for each sentence, where the library has given each beam one."""
    memory, mask = model_kwargs["encoder_outputs"], model_kwargs.get("attention_mask")
    repeats = len(memory[0]) // num_sentences
    if repeats == 1 or num_memory_rows(model_kwargs.get("past_key_values")) is not None:
        return
    model_kwargs["encoder_outputs"] = BaseModelOutput(
        **{
            name: value[::repeats] if isinstance(value, Tensor) else value
            for name, value in memory.items()
        }
    )
    if mask is not None:
        model_kwargs["attention_mask"] = mask[::repeats]


def _entry(name: str, kwargs: dict[str, Any], *configs: GenerationConfig | None) -> Any:
    """What the call says of an entry, or else the first config that does; `None` for nobody."""
    values = [kwargs.get(name), *(getattr(config, name, None) for config in configs)]
    return next((value for value in values if value is not None), None)


def _says_length(kwargs: dict[str, Any], generation_config: GenerationConfig | None) -> bool:
    lengths = (_entry(name, kwargs, generation_config) for name in ("max_new_tokens", "max_length"))
    return any(length is not None for length in lengths)


__all__ = [
    "BeamCandidate",
    "BeamStep",
    "VaswaniGenerationMixin",
    "beam_search",
    "wu_length_penalty",
]
