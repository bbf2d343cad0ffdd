# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""An adapter and its base, made one folder that needs no PEFT."""

import copy

from ..hub.adapters import Found, find_adapted, find_adapter
from ..hub.download import find
from ..hub.folder import export
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..translation.adapters import with_adapter
from ..translation.loading import load_tokenizers
from .folders import load_vaswani
from .targets import AnyPath, check_target, new_folder
from .tensors import build_model


def merge_adapter(source: AnyPath, target: AnyPath, *, base: AnyPath | None = None) -> None:
    """Merge an adapter into its base, and write the model that comes of it.

    Where the adapter changes an embedding that is tied to the pre-softmax layer, which keeps the
    base's matrix, the merged model has two matrices, and its configuration says so.

    Args:
        source: folder or Hub id of an adapter of a `VaswaniForConditionalGeneration`.
        target: a new folder.
        base: folder or Hub id of the model that it adapts; the one that the adapter names unless
            given.

    Raises:
        ValueError: if the source is no adapter, its base is missing or of another kind, or the two
            do not fit each other, or the embeddings of source and target, which are one, would
            become two.
        FileExistsError: if the target exists and is not an empty folder.
        HubError: if one of them cannot be fetched.
        ImportError: if PEFT is missing.
    """
    check_target(target)
    adapter = find_adapter(source)
    found = find_adapted(source) if base is None else Found(find(base), adapter)
    model = load_vaswani(found.model, base or found.model)
    merged = _untied(with_adapter(model, adapter), source)
    tokenizer, target_tokenizer = load_tokenizers(found.tokenizers)
    with new_folder(target) as folder:
        export(merged, tokenizer, folder, target_tokenizer=target_tokenizer)


def _untied(
    model: VaswaniForConditionalGeneration, source: AnyPath
) -> VaswaniForConditionalGeneration:
    """The model, with a configuration that ties no matrices that an adapter has made two of."""
    config, stacks = copy.deepcopy(model.config), model.model
    target = stacks.decoder.embed_tokens.weight
    if config.share_embeddings and stacks.encoder.embed_tokens.weight is not target:
        raise ValueError(
            f"{source} adapts the embeddings of source and target, which are one in its base, "
            f"each by itself; such an adapter cannot be merged. Adapt `shared` instead."
        )
    if not config.tie_word_embeddings or model.lm_head.weight is target:
        return model
    config.tie_word_embeddings = False
    untied = build_model(config, model.state_dict())
    untied.generation_config = model.generation_config
    return untied
