# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The settings of a checkpoint, completed by those of its architecture."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from ..differences import Differences, listed


IWSLT = {
    "encoder_ffn_embed_dim": 1024,
    "encoder_attention_heads": 4,
    "decoder_embed_dim": 512,
    "decoder_ffn_embed_dim": 1024,
    "decoder_attention_heads": 4,
}
BIG = {
    "encoder_embed_dim": 1024,
    "encoder_ffn_embed_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_embed_dim": 1024,
    "decoder_ffn_embed_dim": 4096,
    "decoder_attention_heads": 16,
    "dropout": 0.3,
}
# What an architecture sets where a checkpoint does not say it, beside `BASE`.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "transformer": {},
    "transformer_wmt_en_de": {},
    "transformer_iwslt_de_en": IWSLT,
    "transformer_vaswani_wmt_en_de_big": BIG,
    "transformer_vaswani_wmt_en_fr_big": BIG | {"dropout": 0.1},
    "transformer_wmt_en_de_big": BIG | {"attention_dropout": 0.1},
}
BASE = {
    "encoder_embed_dim": 512,
    "encoder_ffn_embed_dim": 2048,
    "encoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_layers": 6,
    "decoder_attention_heads": 8,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "relu_dropout": 0.0,  # the older name of the one before
    "activation_fn": "relu",
    "label_smoothing": 0.0,  # of criteria that have none
}
MAX_POSITIONS = 1024
ACTIVATIONS = ("relu", "gelu", "swish")
# Settings that must be off, and what they do.
UNSUPPORTED = {
    "encoder_normalize_before": "layer normalization before the sub-layers (pre-norm)",
    "decoder_normalize_before": "layer normalization before the sub-layers (pre-norm)",
    "layernorm_embedding": "layer normalization of the embeddings",
    "adaptive_input": "embeddings of several widths",
    "adaptive_softmax_cutoff": "a softmax in several steps",
    "no_cross_attention": "a decoder without cross-attention",
    "cross_self_attention": "cross-attention and self-attention in one",
    "char_inputs": "embeddings made of characters",
    "base_layers": "layers of experts",
    "quant_noise_pq": "quantized weights",
    "quant_noise_scalar": "quantized weights",
    "encoder_layers_to_keep": "a choice among the layers, made at loading",
    "decoder_layers_to_keep": "a choice among the layers, made at loading",
    "encoder_xformers_att_config": "another attention",
    "decoder_xformers_att_config": "another attention",
}


def read_settings(checkpoint: Mapping[str, Any], name: str) -> dict[str, Any]:
    """All settings of model, task and criterion as fairseq's older `args` have them, flat.

    Those that a checkpoint leaves out or leaves at `None` are missing; `arch`, `task` and
    `criterion` are names.

    Raises:
        ValueError: if the checkpoint has no settings.
    """
    settings = _section(checkpoint.get("args"), "arch")
    if not settings:
        cfg = _flat(checkpoint.get("cfg"))
        if "model" not in cfg:
            raise ValueError(
                f'{name} must have its settings under "args", or under "cfg" with a "model" in it; '
                f"it has {listed(checkpoint) or 'nothing'}."
            )
        for kind, key in (("criterion", "criterion"), ("task", "task"), ("model", "arch")):
            settings |= _section(cfg.get(kind), key)
    return settings


def _section(section: Any, key: str) -> dict[str, Any]:
    """What a section sets, with its `_name`, the class that it is for, under a key of its own."""
    settings = _flat(section)
    if "_name" in settings:
        settings.setdefault(key, settings.pop("_name"))
    return settings


def _flat(section: Any) -> dict[str, Any]:
    """What a section sets; `{"encoder": {"layers": 6}}` becomes `{"encoder_layers": 6}`."""
    section = vars(section) if isinstance(section, Namespace) else section
    if not isinstance(section, Mapping):
        return {}
    flat: dict[str, Any] = {}
    for key, value in section.items():
        if key in ("encoder", "decoder", "quant_noise") and isinstance(value, Mapping):
            flat |= {f"{key}_{inner}": each for inner, each in value.items()}
        else:
            flat[key] = value
    return {key: value for key, value in flat.items() if value is not None}


def complete_settings(settings: Mapping[str, Any], differences: Differences) -> dict[str, Any]:
    """The settings, completed by those of the architecture; what this model lacks is noted."""
    architecture = settings.get("arch")
    differences.refuse_if(
        architecture not in ARCHITECTURES,
        f"arch={architecture!r} is none of {listed(ARCHITECTURES)}; where it is one of them in "
        f'another size, save the checkpoint with that name and all sizes under "args"',
    )
    differences.refuse_if(
        settings.get("task", "translation") != "translation",
        f"task={settings.get('task')!r} may begin and end its texts otherwise than 'translation'",
    )
    for key, meaning in UNSUPPORTED.items():
        differences.refuse_if(
            bool(settings.get(key)),
            f"{key}={settings.get(key)!r}: {meaning}, which this model lacks",
        )
    full = BASE | ARCHITECTURES.get(architecture or "", {}) | dict(settings)
    full.setdefault("decoder_embed_dim", full["encoder_embed_dim"])
    full.setdefault("decoder_ffn_embed_dim", full["encoder_ffn_embed_dim"])
    for size in ("embed_dim", "ffn_embed_dim", "attention_heads"):
        ours, theirs = full[f"encoder_{size}"], full[f"decoder_{size}"]
        differences.refuse_if(
            ours != theirs,
            f"encoder_{size}={ours} and decoder_{size}={theirs} differ; both sides have one here",
        )
    for key in ("decoder_input_dim", "decoder_output_dim"):
        width = full.get(key, full["decoder_embed_dim"])
        differences.refuse_if(
            width != full["decoder_embed_dim"],
            f"{key}={width} is not decoder_embed_dim={full['decoder_embed_dim']}",
        )
    differences.refuse_if(
        full["activation_fn"] not in ACTIVATIONS,
        f"activation_fn={full['activation_fn']!r} is none of {listed(ACTIVATIONS)}",
    )
    for side in ("source", "target"):
        key = f"max_{side}_positions"
        full.setdefault(key, full.get("max_positions", MAX_POSITIONS))
    return full
