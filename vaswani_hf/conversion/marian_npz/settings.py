# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The options of a model, which its file holds as `special:model.yml`."""

from collections.abc import Mapping
from typing import Any

from ...configuration_vaswani import VaswaniConfig
from ..differences import Differences


OTHER_TOOLS = "ct2-marian-converter of CTranslate2 takes such models"
# Options, the values that this model has, and what others mean. Left out, an option has the first.
REQUIRED: dict[str, tuple[tuple[Any, ...], str]] = {
    "type": (("transformer",), "another architecture; decode it with Marian"),
    "transformer-decoder-autoreg": (
        ("self-attention",),
        "a decoder without self-attention, such as SSRU (rnn) or average attention; decode it with "
        "Marian, or convert its teacher",
    ),
    "transformer-preprocess": (
        ("", "d"),
        f"layer normalization before the sub-layers (pre-norm); {OTHER_TOOLS}",
    ),
    "transformer-postprocess": (
        ("dan", "an"),
        f"sub-layers that do not end in addition and layer normalization (post-norm); "
        f"{OTHER_TOOLS} where the norm comes first",
    ),
    "transformer-postprocess-emb": (
        ("d", ""),
        f"layer normalization of the embeddings; {OTHER_TOOLS}",
    ),
    "transformer-postprocess-top": (
        ("", "d", "n", "dn", "nd"),
        "a connection past the whole stack; decode it with Marian",
    ),
    "transformer-ffn-depth": ((2,), "feed-forward networks of other than two layers"),
    "transformer-decoder-ffn-depth": ((0, 2), "feed-forward networks of other than two layers"),
    "transformer-ffn-activation": (("swish", "relu", "gelu"), "another activation"),
    "transformer-tied-layers": (([],), "decoder layers that share weights"),
    "transformer-no-projection": ((False,), "attention without an output projection"),
    "transformer-pool": ((False,), "a decoder without cross-attention"),
    "transformer-attention-mask": (("default",), "attention with biases of distance (ALiBi)"),
    "transformer-disable-position-embeddings": ((False,), "no positions"),
    "transformer-train-positions": ((False,), "learned positions"),
    "transformer-train-position-embeddings": ((False,), "learned positions"),
    "transformer-no-bias": ((False,), "linear layers without biases"),
    "transformer-no-affine": ((False,), "layer normalization without weights"),
    "lemma-dim-emb": ((0,), "a factored vocabulary"),
    "lemma-dependency": (("",), "a factored vocabulary"),
    "factors-dim-emb": ((0,), "a factored vocabulary"),
    "ulr": ((False,), "universal language representation"),
    "right-left": ((False,), "targets from right to left"),
}
ACTIVATIONS = {"swish": "swish", "silu": "swish", "relu": "relu", "gelu": "gelu"}  # here: there
LAYER_NORM_EPS = 1e-6
LAST = "last"  # of Marian's layers, which it counts from 1


def config_fields(options: Mapping[str, Any], differences: Differences) -> dict[str, Any]:
    """The fields of a configuration that the options say; what this model lacks is noted.

    Raises:
        ValueError: if the model is of another kind, or sizes are missing.
    """
    for name, (allowed, meaning) in REQUIRED.items():
        value = options.get(name, allowed[0])
        differences.refuse_if(value not in allowed, f"{name}: {value!r} is {meaning}")
    d_ff = options.get("transformer-dim-ffn")
    decoder_d_ff = options.get("transformer-decoder-dim-ffn", 0) or d_ff
    differences.refuse_if(
        decoder_d_ff != d_ff,
        f"transformer-dim-ffn: {d_ff} and transformer-decoder-dim-ffn: {decoder_d_ff} differ; both "
        f"sides have one width here",
    )
    inputs = options.get("input-types") or []
    differences.refuse_if(
        any(kind != "sequence" for kind in inputs) or len(inputs) > 2,
        f"input-types: {inputs} is not one source and one target",
    )
    sizes = {
        "d_model": "dim-emb",
        "d_ff": "transformer-dim-ffn",
        "num_heads": "transformer-heads",
        "encoder_layers": "enc-depth",
        "decoder_layers": "dec-depth",
    }
    for name in sizes.values():
        value = options.get(name)
        differences.refuse_if(
            type(value) is not int or value < 1, f"{name}: {value!r} is no positive number"
        )
    differences.check()
    differences.refuse_if(
        options["dim-emb"] % 2 == 1, f"dim-emb: {options['dim-emb']} is odd, sinusoids need pairs"
    )
    differences.check()
    # `last` is Marian's default, and tells nothing of whether a head has learned to align.
    aligning = options.get("transformer-guided-alignment-layer", LAST)
    if aligning != LAST:
        is_there = str(aligning).isdecimal() and 1 <= int(aligning) <= options["dec-depth"]
        differences.refuse_if(
            not is_there,
            f"transformer-guided-alignment-layer: {aligning!r} is none of the "
            f"{options['dec-depth']} layers",
        )
        differences.check()
    is_shared = bool(options.get("tied-embeddings-all") or options.get("tied-embeddings-src"))
    is_tied = bool(options.get("tied-embeddings-all") or options.get("tied-embeddings"))
    return {
        **{field: options[name] for field, name in sizes.items()},
        "activation_function": options.get("transformer-ffn-activation", "swish"),
        "final_norm": "n" in options.get("transformer-postprocess-top", ""),
        "share_embeddings": is_shared,
        "tie_word_embeddings": is_tied,
        "layer_norm_eps": LAYER_NORM_EPS,
        "attention_bias": True,
        "output_bias": not options.get("output-omit-bias"),
        "position_encoding": "learned",
        "alignment_layer": None if aligning == LAST else int(aligning) - 1,
        "alignment_head": None if aligning == LAST else 0,  # Marian takes the first
    }


def model_options(config: VaswaniConfig, num_rows: tuple[int, int]) -> dict[str, Any]:
    """What `special:model.yml` says of a model; of recurrent networks Marian's defaults.

    Args:
        config: the model's.
        num_rows: pieces of source and target.
    """
    is_all = config.share_embeddings and config.tie_word_embeddings
    return {
        "type": "transformer",
        "dim-vocabs": list(num_rows),
        "dim-emb": config.d_model,
        "enc-depth": config.encoder_layers,
        "dec-depth": config.decoder_layers,
        "tied-embeddings": config.tie_word_embeddings and not is_all,
        "tied-embeddings-src": config.share_embeddings and not is_all,
        "tied-embeddings-all": is_all,
        "output-omit-bias": False,
        "transformer-heads": config.num_heads,
        "transformer-dim-ffn": config.d_ff,
        "transformer-ffn-depth": 2,
        "transformer-decoder-dim-ffn": 0,
        "transformer-decoder-ffn-depth": 0,
        "transformer-ffn-activation": ACTIVATIONS[config.activation_function],
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "n" if config.final_norm else "",
        "transformer-decoder-autoreg": "self-attention",
        "transformer-guided-alignment-layer": (
            LAST if config.alignment_layer is None else str(config.alignment_layer + 1)
        ),
        "transformer-no-projection": False,
        "transformer-rnn-projection": False,
        "transformer-pool": False,
        "transformer-tied-layers": [],
        "transformer-train-position-embeddings": False,
        "transformer-aan-activation": "swish",
        "transformer-aan-depth": 2,
        "transformer-aan-nogate": False,
        "transformer-dim-aan": 2048,
        "input-types": [],
        "right-left": False,
        "layer-normalization": False,
        "skip": False,
        "dim-rnn": 1024,
        "enc-type": "bidirectional",
        "enc-cell": "gru",
        "enc-cell-depth": 1,
        "dec-cell": "gru",
        "dec-cell-base-depth": 2,
        "dec-cell-high-depth": 1,
        "lemma-dim-emb": 0,
        "lemma-dependency": "",
        "factors-combine": "sum",
        "factors-dim-emb": 0,
        "ulr": False,
        "ulr-dim-emb": 0,
        "ulr-trainable-transformation": False,
    }
