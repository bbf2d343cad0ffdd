# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Forced decoding by a model of transformers: one pass over a target that is known.

`B` pairs, `S` source length, `T` target length.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def end_ids_of(model: Any) -> list[int]:
    """The pieces that end a translation."""
    end = model.generation_config.eos_token_id
    if end is None:
        return []
    return list(end) if isinstance(end, Sequence) else [end]


def start_id_of(model: Any) -> int:
    """What `generate()` starts each target with.

    Raises:
        ValueError: if neither config says it.
    """
    for name in ("decoder_start_token_id", "bos_token_id"):
        for config in (model.generation_config, model.config):
            if getattr(config, name, None) is not None:
                return getattr(config, name)
    raise ValueError(
        f"The configs of this {type(model).__name__} name no decoder_start_token_id; set it in "
        f"model.generation_config."
    )


def input_device(model: Any) -> torch.device:
    """Where a model takes its inputs; weights that accelerate has left on the disk are nowhere."""
    return torch.device("cpu") if model.device.type == "meta" else model.device


def padded(rows: Sequence[Sequence[int]], padding: int, device: torch.device) -> Tensor:
    """Rows of ids as `(B, length)`, with padding on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[padding] * (longest - len(row))] for row in rows], device=device)


def forced(
    model: Any,
    padding: int,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    **options: Any,
) -> Any:
    """What the model returns where its decoder reads the start token and all of each target.

    Args:
        model: any sequence-to-sequence model of transformers.
        padding: what sources are padded with.
        sources: ids.
        targets: ids that are read.
        options: further arguments of the model.
    """
    start, device = start_id_of(model), input_device(model)
    # No step looks at what comes after it, so that a target may be padded with anything.
    inputs = padded([[start, *target] for target in targets], start, device)
    return model(
        input_ids=padded(sources, padding, device),
        attention_mask=padded([[1] * len(source) for source in sources], 0, device),
        decoder_input_ids=inputs,
        use_cache=False,
        **options,
    )


@torch.inference_mode()
def forced_log_probs(
    model: Any, padding: int, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[list[float]]:
    """The log-probability of each piece of each target.

    They are the model's own: what its generation config forbids or prefers does not change them.

    Args:
        model: any sequence-to-sequence model of transformers, in evaluation mode.
        padding: what sources are padded with.
        sources: ids, at least one each.
        targets: ids to score, at least one each; without a start token.
    """
    logits = forced(model, padding, sources, [target[:-1] for target in targets]).logits
    found = []
    for row, target in zip(logits, targets, strict=True):  # one by one, since logits are large
        log_probs = row[: len(target)].float().log_softmax(dim=-1)  # (T, V)
        chosen = torch.tensor(target, device=log_probs.device).unsqueeze(1)
        found.append(log_probs.gather(1, chosen).squeeze(1).tolist())
    return found


__all__ = ["end_ids_of", "forced", "forced_log_probs", "padded", "start_id_of"]
