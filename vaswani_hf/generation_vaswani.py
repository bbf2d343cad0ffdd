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
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import (
    EncoderDecoderCache,
    GenerationConfig,
    GenerationMixin,
    LogitsProcessorList,
    StoppingCriteriaList,
)
from transformers.utils import ModelOutput

from .beam_cache_vaswani import _num_memory_rows, _reorder, _with_own_memory
from .beam_search_vaswani import (
    POWER,
    WU,
    SourceLengthCriteria,
    beam_search,
    wu_length_penalty,
)


# Section 6.1. "never" ends the search only when no hypothesis can still become the best.
PAPER = {
    "num_beams": 4,
    "length_penalty": 0.6,
    "length_penalty_type": WU,
    "max_extra_tokens": 50,
    "early_stopping": "never",
}
LARGEST_ALPHA = 50.0  # of either sign; a million tokens to a higher power are no float64


def check_length_penalty(alpha: Any) -> None:
    """Raise a `ValueError` if what a log-probability is divided by might be no number."""
    if not (isinstance(alpha, int | float) and -LARGEST_ALPHA <= alpha <= LARGEST_ALPHA):
        raise ValueError(
            f"length_penalty must be a number in [-{LARGEST_ALPHA:g}, {LARGEST_ALPHA:g}], got "
            f"length_penalty={alpha!r}."
        )


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


def _entry(name: str, kwargs: dict[str, Any], *configs: GenerationConfig | None) -> Any:
    """What the call says of an entry, or else the first config that does; `None` for nobody."""
    values = [kwargs.get(name), *(getattr(config, name, None) for config in configs)]
    return next((value for value in values if value is not None), None)


def _gives_length(kwargs: dict[str, Any], generation_config: GenerationConfig | None) -> bool:
    lengths = (_entry(name, kwargs, generation_config) for name in ("max_new_tokens", "max_length"))
    return any(length is not None for length in lengths)


__all__ = ["VaswaniGenerationMixin", "beam_search", "wu_length_penalty"]
