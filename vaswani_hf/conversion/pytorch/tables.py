# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The matrices beside the stacks: embeddings, the pre-softmax layer and positions."""

import re

import torch
from torch import Tensor

from ..differences import listed
from ..positions import has_paper_positions
from .layers import Part, StackReader
from .naming import (
    EMBEDDING_WORDS,
    POSITION_WORDS,
    SOURCE_WORDS,
    TARGET_WORDS,
    names_of_side,
    words_of,
)


def read_embeddings(
    reader: StackReader, source: str | None, target: str | None, output: str | None
) -> Part:
    """The embeddings and the pre-softmax layer, tied where they are equal.

    Args:
        reader: of the state dict.
        source: name of the source's embedding; `None` to recognize it.
        target: name of the target's.
        output: name of the pre-softmax matrix.
    """
    names = _find_matrices(reader, source, target, output)
    if names is None:
        return {}, {}
    source, target, output = names
    vocab_size, target_vocab_size = len(reader.tensors[source]), len(reader.tensors[target])
    read = reader.take(source, vocab_size, reader.d_model)
    write = reader.take(target, target_vocab_size, reader.d_model)
    logits = reader.take(output, target_vocab_size, reader.d_model)
    fields = {
        "vocab_size": vocab_size,
        "target_vocab_size": target_vocab_size,
        "share_embeddings": torch.equal(read, write),
        "tie_word_embeddings": torch.equal(write, logits),
    }
    weights = {
        "model.encoder.embed_tokens.weight": read,
        "model.decoder.embed_tokens.weight": write,
        "lm_head.weight": logits,
    }
    bias = re.sub("weight$", "bias", output)
    fields["output_bias"] = bias != output and bias in reader.tensors
    if fields["output_bias"]:
        weights["lm_head.bias"] = reader.take(bias, target_vocab_size)
    return fields, weights


def _find_matrices(
    reader: StackReader, source: str | None, target: str | None, output: str | None
) -> tuple[str, str, str] | None:
    """The names of the three matrices; `None`, and a note, where one is not recognized."""
    matrices = [
        name
        for name in reader.names_beside
        if _is_table(reader, name)
        and reader.tensors[name].ndim == 2
        and not POSITION_WORDS & words_of(name)
        and name not in reader.taken
    ]
    if not (matrices or source or target or output):
        reader.differences.add(
            f"the state dict holds only the stacks: no matrix (V, {reader.d_model}) embeds the "
            f"source, embeds the target or makes the logits; convert the state dict of the whole "
            f"model, and name the three with source_embedding, target_embedding and output if "
            f"they are not recognized"
        )
        return None
    embeddings = [name for name in matrices if EMBEDDING_WORDS & words_of(name)]
    sources = names_of_side(embeddings, SOURCE_WORDS, TARGET_WORDS)
    targets = names_of_side(embeddings, TARGET_WORDS, SOURCE_WORDS)
    source = _choose(reader, "source_embedding", source, sources, matrices)
    target = _choose(reader, "target_embedding", target, targets, matrices)
    rest = [name for name in matrices if name not in (*embeddings, source, target)]
    output = _choose(reader, "output", output, rest, matrices)
    if source is None or target is None or output is None:
        return None
    return source, target, output


def read_positions(reader: StackReader, source: str | None, target: str | None) -> Part:
    """The position tables: the paper's sinusoids are computed, other tables become learned ones.

    Args:
        reader: of the state dict.
        source: name of the source's table; `None` to recognize it.
        target: name of the target's.
    """
    tables = [
        name
        for name in reader.names_beside
        if _is_table(reader, name) and POSITION_WORDS & words_of(name) and name not in reader.taken
    ]
    options = (
        ("positions", source, SOURCE_WORDS, TARGET_WORDS),
        ("target_positions", source if target is None else target, TARGET_WORDS, SOURCE_WORDS),
    )
    chosen: list[Tensor] = []
    for option, given, own, other in options:
        candidates = names_of_side(tables, own, other)
        if given is not None or candidates:
            name = _choose(reader, option, given, candidates, tables)
            chosen += [] if name is None else [_take_table(reader, name)]
    if all(reader.d_model % 2 == 0 and has_paper_positions(table) for table in chosen):
        reader.differences.refuse_if(
            reader.d_model % 2 > 0,
            f"it has no positions, and sinusoids need an even width, not {reader.d_model}",
        )
        longest = {"max_position_embeddings": max(map(len, chosen))} if chosen else {}
        return {"position_encoding": "sinusoidal", **longest}, {}
    lengths = [len(table) for table in chosen]
    reader.differences.refuse_if(
        len(chosen) == 1,
        "one side has learned positions and no table is recognized for the other; name them "
        "with positions and target_positions",
    )
    reader.differences.refuse_if(
        len(set(lengths)) > 1,
        f"the sides have {listed(lengths)} positions; this model has as many on both",
    )
    weights = {
        f"model.{side}.embedding.positions.weight": table
        for side, table in zip(("encoder", "decoder"), chosen, strict=False)
    }
    return {"position_encoding": "learned", "max_position_embeddings": lengths[0]}, weights


def _is_table(reader: StackReader, name: str) -> bool:
    """Whether a tensor holds vectors of the model's width, one after another."""
    tensor = reader.tensors[name]
    return (
        tensor.is_floating_point()
        and tensor.ndim > 1
        and tensor.shape[-1] == reader.d_model
        and tensor.numel() == max(tensor.shape[:-1]) * reader.d_model
    )


def _take_table(reader: StackReader, name: str) -> Tensor:
    return reader.take(name, *reader.tensors[name].shape).reshape(-1, reader.d_model)


def _choose(
    reader: StackReader,
    option: str,
    given: str | None,
    candidates: list[str],
    all_of_kind: list[str],
) -> str | None:
    """The name that was given or is recognized; `None`, and a note, where there is not one."""
    if given is not None and given in reader.names_beside and _is_table(reader, given):
        return given
    if given is None and len(candidates) == 1:
        return candidates[0]
    named = candidates if given is None and candidates else all_of_kind
    shown = [f"{name} {tuple(reader.tensors[name].shape)}" for name in sorted(named)]
    choice = f"name one of {listed(shown)}" if shown else "there is none of that width"
    if given is not None:
        reader.differences.add(
            f"{option}={given!r} is no floating point matrix of width {reader.d_model} beside "
            f"the stacks; {choice}"
        )
    else:
        many = "more than one could be it" if candidates else "no name is recognized"
        reader.differences.add(f"{option}: {many}; {choice}")
    return None
