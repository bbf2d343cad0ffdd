"""Models as Marian would save them, made of numpy's seeded numbers."""

import json

import numpy as np
import yaml


D_MODEL, D_FF, HEADS, ENCODER_LAYERS, DECODER_LAYERS = 24, 40, 4, 2, 3
NUM_SOURCE, NUM_TARGET = 29, 31
PIECES = ["</s>", "<unk>", *(f"w{number}" for number in range(2, 40))]
UNTIED = {"tied-embeddings": False, "tied-embeddings-src": False, "tied-embeddings-all": False}


def options(**changes):
    """What `special:model.yml` has in Marian 1.12; keyword arguments have `_` for `-`."""
    return {
        "type": "transformer",
        "dim-emb": D_MODEL,
        "dim-vocabs": [NUM_SOURCE, NUM_TARGET],
        "enc-depth": ENCODER_LAYERS,
        "dec-depth": DECODER_LAYERS,
        **UNTIED,
        "output-omit-bias": False,
        "transformer-heads": HEADS,
        "transformer-dim-ffn": D_FF,
        "transformer-decoder-dim-ffn": 0,
        "transformer-ffn-depth": 2,
        "transformer-decoder-ffn-depth": 0,
        "transformer-ffn-activation": "swish",
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "",
        "transformer-decoder-autoreg": "self-attention",
        "transformer-guided-alignment-layer": "last",
        "transformer-no-projection": False,
        "transformer-tied-layers": [],
        "transformer-train-position-embeddings": False,
        "input-types": [],
        "right-left": False,
        "lemma-dim-emb": 0,
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }


def arrays(settings):
    """The parameters that Marian has with these options, by name."""
    numbers = np.random.RandomState(7)
    found = {}

    def add(name, rows, columns, scale):
        found[name] = (numbers.randn(rows, columns) * scale).astype(np.float32)

    def norm(name):
        add(f"{name}_ln_scale", 1, D_MODEL, 0.3)
        found[f"{name}_ln_scale"] += 1.0
        add(f"{name}_ln_bias", 1, D_MODEL, 0.3)

    num_source, num_target = settings["dim-vocabs"]
    if settings["tied-embeddings-all"] or settings["tied-embeddings-src"]:
        add("Wemb", num_source, D_MODEL, 0.3)
    else:
        add("encoder_Wemb", num_source, D_MODEL, 0.3)
        add("decoder_Wemb", num_target, D_MODEL, 0.3)
    if not (settings["tied-embeddings-all"] or settings["tied-embeddings"]):
        add("decoder_ff_logit_out_Wt", num_target, D_MODEL, 0.3)
    if not settings["output-omit-bias"]:
        add("decoder_ff_logit_out_b", 1, num_target, 0.5)
    sides = {
        "encoder": (settings["enc-depth"], ["self"]),
        "decoder": (settings["dec-depth"], ["self", "context"]),
    }
    for side, (num_layers, attentions) in sides.items():
        for layer in range(1, num_layers + 1):
            for attention in attentions:
                for projection in "qkvo":
                    add(f"{side}_l{layer}_{attention}_W{projection}", D_MODEL, D_MODEL, 0.4)
                    add(f"{side}_l{layer}_{attention}_b{projection}", 1, D_MODEL, 0.3)
                norm(f"{side}_l{layer}_{attention}_Wo")
            add(f"{side}_l{layer}_ffn_W1", D_MODEL, D_FF, 0.4)
            add(f"{side}_l{layer}_ffn_b1", 1, D_FF, 0.3)
            add(f"{side}_l{layer}_ffn_W2", D_FF, D_MODEL, 0.4)
            add(f"{side}_l{layer}_ffn_b2", 1, D_MODEL, 0.3)
            norm(f"{side}_l{layer}_ffn_ffn")
        if "n" in settings["transformer-postprocess-top"]:
            norm(f"{side}_top")
    return found


def write_npz(path, settings, found):
    text = yaml.safe_dump(settings).encode() + b"\0" * 9  # Marian fills up with more than one
    np.savez(path, **found, **{"special:model.yml": np.frombuffer(text, np.int8)})


def write_model(folder, settings=None, **decoder):
    """`model.npz`, `decoder.yml` and two vocabularies, as in a folder of Marian."""
    settings = options() if settings is None else settings
    write_npz(folder / "model.npz", settings, arrays(settings))
    names = [f"vocab.{side}.yml" for side in ("source", "target")]
    for name, size in zip(names, settings["dim-vocabs"], strict=True):
        entries = (f"{json.dumps(piece)}: {place}" for place, piece in enumerate(PIECES[:size]))
        (folder / name).write_text("\n".join(entries) + "\n")
    entries = {"models": ["model.npz"], "vocabs": names, "beam-size": 6, "normalize": 0.6}
    (folder / "decoder.yml").write_text(yaml.safe_dump(entries | decoder))
    return folder
