# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Several models that translate together: the mean of their probabilities, piece by piece.

An ensemble is a model: what searches, draws or scores by one of these does so by an ensemble.

Shapes: `B` sentences, `S` source length, `T` target length, `V` target pieces.
"""

import copy
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils import can_return_tuple

from ..configuration_vaswani import VaswaniConfig
from ..decoding_vaswani import DecoderSteps
from ..generation_vaswani import VaswaniGenerationMixin
from ..loss_vaswani import accumulation_dtype
from ..modeling_vaswani import VaswaniForConditionalGeneration, VaswaniPreTrainedModel


# The model


class VaswaniEnsemble(VaswaniPreTrainedModel, VaswaniGenerationMixin):
    """Predicts the next piece by the weighted mean of what its models predict.

    Each model has its own memory and its own cache, and may have any number and width of layers.
    All must have the same source and target pieces. The generation config is the first one's.

    Args:
        models: Vaswani models; they become parts of the ensemble, and are not copied.
        weights: a positive number for each, of which only the ratios matter; `None` for equal ones.

    Raises:
        ValueError: if there is no model, one is of another kind, they differ in pieces, special ids
            or dtype, or `weights` are not what they must be.
    """

    models: Any  # nn.ModuleList, of which torch says that it holds modules of any kind

    def __init__(
        self,
        models: Sequence[VaswaniForConditionalGeneration],
        weights: Sequence[float] | None = None,
    ) -> None:
        _check_models(models)
        super().__init__(_common_config([model.config for model in models]))
        self.models = nn.ModuleList(models)
        self.encoder = EnsembleEncoder(models)
        self.generation_config = copy.deepcopy(models[0].generation_config)
        self.name_or_path = ", ".join(model.name_or_path for model in models)
        self.log_weights = _log_weights(weights, len(models))
        self.eval()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """Predict the target; arguments are those of the models.

        Returns:
            `logits`: `(B, T, V)`, the logarithms of the mean probabilities.

        Raises:
            ValueError: if attentions or states are asked for, or the cache is an offloaded one.
        """
        _refuse_records(kwargs)
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask)
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(
                DynamicCache(config=self.config), DynamicCache(config=self.config)
            )
        logits = []
        caches = self._caches(past_key_values)
        for model, memory, cache in zip(
            self.models, self.memories(encoder_outputs[0]), caches, strict=True
        ):
            outputs = model(
                attention_mask=attention_mask,
                decoder_input_ids=decoder_input_ids,
                decoder_attention_mask=decoder_attention_mask,
                encoder_outputs=BaseModelOutput(memory),
                past_key_values=cache,
                use_cache=use_cache,
                logits_to_keep=logits_to_keep,
            )
            logits.append(outputs.logits)
        return Seq2SeqLMOutput(
            logits=log_mean(logits, self.log_weights),
            past_key_values=past_key_values,
            encoder_last_hidden_state=encoder_outputs[0],
        )

    def memories(self, memory: Tensor) -> tuple[Tensor, ...]:
        """The memory of each model, out of what the encoder returns."""
        return memory.split([model.config.d_model for model in self.models], dim=-1)

    def _caches(self, cache: EncoderDecoderCache | None) -> Iterator[EncoderDecoderCache | None]:
        """The cache of each model: its layers of one that has those of all models in a row."""
        first = 0
        for model in self.models:
            if cache is None:
                yield None
                continue
            last = first + model.config.decoder_layers
            yield EncoderDecoderCache(
                *(
                    _some_layers(part, first, last)
                    for part in (cache.self_attention_cache, cache.cross_attention_cache)
                )
            )
            cache.is_updated.update(dict.fromkeys(range(first, last), True))
            first = last

    def decoder_steps(
        self, num_beams: int, is_cache_given: bool, model_kwargs: dict[str, Any]
    ) -> "EnsembleSteps | None":
        """As a model's; `None` where one of the models must be called itself."""
        parts = []
        for model, memory in zip(
            self.models, self.memories(model_kwargs["encoder_outputs"][0]), strict=True
        ):
            own = model_kwargs | {"encoder_outputs": BaseModelOutput(memory)}
            part = model.decoder_steps(num_beams, is_cache_given, own)
            if part is None:
                return None
            parts.append(part)
        return EnsembleSteps(parts, self.log_weights)

    def get_input_embeddings(self) -> nn.Embedding:
        """The source's embedding with the fewest rows: no model has an id beyond them."""
        embeddings = (model.get_input_embeddings() for model in self.models)
        return min(embeddings, key=lambda embedding: embedding.num_embeddings)

    def get_output_embeddings(self) -> nn.Linear:
        """The first model's; all have as many target pieces."""
        return self.models[0].get_output_embeddings()

    def save_pretrained(self, *arguments: Any, **kwargs: Any) -> NoReturn:
        """Raise a `ValueError`: a folder holds one model."""
        raise ValueError("An ensemble is no model of one folder; save its models one by one.")


class EnsembleEncoder(nn.Module):
    """The encoders of several models; their memories stand side by side.

    Args:
        models: Vaswani models.
    """

    main_input_name = "input_ids"

    def __init__(self, models: Sequence[VaswaniForConditionalGeneration]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(model.model.encoder for model in models)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> BaseModelOutput:
        """Encode source ids `(B, S)`: `(B, S, sum of d_model)`."""
        _refuse_records(kwargs)
        memories = [
            encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            for encoder in self.encoders
        ]
        return BaseModelOutput(torch.cat(memories, dim=-1))


class EnsembleSteps(DecoderSteps):
    """The steps of several models, which go the same way.

    Args:
        parts: those of each.
        log_weights: of each, whose exponentials sum to 1.
    """

    def __init__(self, parts: Sequence[DecoderSteps], log_weights: Sequence[float]) -> None:
        self.parts, self.log_weights = parts, log_weights

    def logits(self, ids: Tensor) -> Tensor:
        """As above: the logarithms of the mean probabilities."""
        return log_mean([part.logits(ids) for part in self.parts], self.log_weights)

    def reorder(self, rows: Tensor) -> None:
        """As above."""
        for part in self.parts:
            part.reorder(rows)

    def keep(self, sentences: Tensor) -> None:
        """As above."""
        for part in self.parts:
            part.keep(sentences)

    def as_librarys(self) -> EncoderDecoderCache:
        """As above: the layers of all models in a row."""
        caches = [part.as_librarys() for part in self.parts]
        own, memory = DynamicCache(), DynamicCache()
        for cache in caches:
            own.layers += cache.self_attention_cache.layers
            memory.layers += cache.cross_attention_cache.layers
        return EncoderDecoderCache(own, memory)


def log_mean(logits: Sequence[Tensor], log_weights: Sequence[float]) -> Tensor:
    """The logarithms of the weighted mean of probabilities.

    Args:
        logits: of each model, `(..., V)`.
        log_weights: of each, whose exponentials sum to 1.

    Returns:
        `(..., V)`, in float32, or float64 of such logits.
    """
    weighted = [
        part.to(accumulation_dtype(part.dtype)).log_softmax(dim=-1).add_(log_weight)
        for part, log_weight in zip(logits, log_weights, strict=True)
    ]
    return torch.stack(weighted).logsumexp(dim=0)


def _some_layers(cache: Cache, first: int, last: int) -> Cache:
    """A cache of some layers of another, which are the same objects."""
    if cache.offloading:
        raise ValueError(
            'cache_implementation="offloaded" is for one model; an ensemble keeps its caches where '
            "its models are."
        )
    while len(cache.layers) < last:  # a cache may make its layers when they are first used
        cache.layers.append(cache.layer_class_to_replicate())
    return Cache(layers=cache.layers[first:last])


def _refuse_records(kwargs: dict[str, Any]) -> None:
    for name in ("output_attentions", "output_hidden_states"):
        if kwargs.get(name):
            raise ValueError(
                f"An ensemble has no attentions or states of its own ({name}=True); ask one of its "
                f"models."
            )


# What models must have in common


def _log_weights(weights: Sequence[float] | None, count: int) -> list[float]:
    given = [1.0] * count if weights is None else list(weights)
    if len(given) != count:
        raise ValueError(
            f"weights must be as many as the models, {count}, got weights={given} ({len(given)})."
        )
    if not all(math.isfinite(weight) and weight > 0 for weight in given):
        raise ValueError(f"weights must be positive numbers, got weights={given}.")
    return [math.log(weight / math.fsum(given)) for weight in given]


def _check_models(models: Sequence[Any]) -> None:
    if not models:
        raise ValueError("An ensemble needs at least one model, got none.")
    first = models[0]
    for place, model in enumerate(models):
        name = _name(model, place)
        if not isinstance(model, VaswaniForConditionalGeneration):
            raise ValueError(
                f"{name} is a {type(model).__name__}; an ensemble is made of Vaswani models. "
                f"`vaswani-hf convert` makes these of Marian's and fairseq's."
            )
        for told, ours, theirs in (
            ("target pieces", first.config.num_target_pieces, model.config.num_target_pieces),
            ("dtype", first.dtype, model.dtype),
            *(
                (field, getattr(first.config, field), getattr(model.config, field))
                for field in ("pad_token_id", "eos_token_id", "decoder_start_token_id")
            ),
        ):
            if ours != theirs:
                raise cannot_join(_name(first, 0), name, f"{told}: {ours} and {theirs}")


def _name(model: Any, place: int) -> str:
    return getattr(model, "name_or_path", "") or f"model {place} (counted from 0)"


def cannot_join(first: Any, other: Any, difference: str) -> ValueError:
    """The error for two models that differ in what an ensemble must share."""
    return ValueError(f"{first} and {other} cannot be an ensemble; they differ in {difference}.")


def _common_config(configs: Sequence[VaswaniConfig]) -> VaswaniConfig:
    """The config of the first, with the layers of all decoders and the fewest positions."""
    common = copy.deepcopy(configs[0])
    common.decoder_layers = sum(config.decoder_layers for config in configs)
    learned = [config for config in configs if config.position_encoding == "learned"]
    if learned:
        common.position_encoding = "learned"
        common.max_position_embeddings = min(config.max_position_embeddings for config in learned)
    return common


def check_tokenizers(names: Sequence[Any], tokenizers: Sequence[tuple[Any, Any]]) -> None:
    """Raise a `ValueError` if models would not read the same ids, or not say the same pieces.

    Args:
        names: of the models, for the error.
        tokenizers: of each model the source's and the target's, which is `None` if they are one.
    """
    sources = [source for source, _ in tokenizers]
    targets = [source if target is None else target for source, target in tokenizers]
    for side, several in (("source", sources), ("target", targets)):
        for name, tokenizer in zip(names[1:], several[1:], strict=True):
            difference = _difference_of_pieces(several[0], tokenizer)
            if difference is None and side == "source":
                difference = first_difference(_rules(several[0]), _rules(tokenizer))
            if difference is not None:
                raise cannot_join(names[0], name, f"the {side}'s tokenizer, {difference}")


def _difference_of_pieces(first: Any, other: Any) -> str | None:
    pieces = [
        {token: piece for piece, token in tokenizer.get_vocab().items()}
        for tokenizer in (first, other)
    ]
    for token in sorted(pieces[0].keys() | pieces[1].keys()):
        found = [by_id.get(token) for by_id in pieces]
        if found[0] != found[1]:
            return f"piece {token}: {found[0]!r} and {found[1]!r}"
    return None


def _rules(tokenizer: Any) -> Any:
    """How a tokenizer makes pieces of text, but for the lengths that it cuts and pads to."""
    if not tokenizer.is_fast:
        return {"class": type(tokenizer).__name__}
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    return {name: rule for name, rule in rules.items() if name not in ("truncation", "padding")}


def first_difference(first: Any, other: Any, path: str = "") -> str | None:
    """Where two contents of JSON files differ first, and how; `None` if they do not."""
    if first == other:
        return None
    if isinstance(first, dict) and isinstance(other, dict):
        inside = (
            (f"{path}.{key}".lstrip("."), first.get(key), other.get(key))
            for key in dict.fromkeys([*first, *other])
        )
    elif isinstance(first, list) and isinstance(other, list) and len(first) == len(other):
        pairs = enumerate(zip(first, other, strict=True))
        inside = ((f"{path}[{place}]", *pair) for place, pair in pairs)
    else:
        return f"{path}: {_shortened(first)} and {_shortened(other)}"
    found = (first_difference(ours, theirs, place) for place, ours, theirs in inside)
    return next(filter(None, found), None)


def _shortened(value: Any, most: int = 60) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[:most]}..."


__all__ = ["VaswaniEnsemble", "check_tokenizers"]
