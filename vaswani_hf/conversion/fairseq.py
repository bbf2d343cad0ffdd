# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""From checkpoints of fairseq's `TransformerModel`, which most published reproductions were.

| What | fairseq | Here |
|---|---|---|
| sinusoids | wavelengths of tensor2tensor, all sines before all cosines | learned positions |
| first position | row `<pad>` + 1 of the table | row 0 |
| attention | biases; in old files one matrix for queries, keys, values | biases, three matrices |
| decoder start | `</s>` | `decoder_start_token_id` |
| a piece that the dictionary lacks | `<unk>` | the same, see `tokenizer_of_codes` |
"""

import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging

from ..configuration_vaswani import VaswaniConfig
from ..generation_vaswani import POWER
from ..hub.folder import TARGET_TOKENIZER, export
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..text.lines import read_lines
from ..tokenization_vaswani import (
    SPLIT_MARK,
    decoder_of_segmented_text,
    normalizer_of_segmented_text,
)
from .common import AnyPath, Differences, TensorReader, build_model, listed, new_folder


logger = logging.get_logger(__name__)


# What fairseq's archives call their files.
CHECKPOINTS = ("model.pt", "checkpoint_best.pt")
CODES = ("bpecodes", "code")
OTHER_CODES = ("sentencepiece.bpe.model", "merges.txt")

SPECIAL_PIECES = ("<s>", "<pad>", "</s>", "<unk>")  # their ids are their places here
BOS_ID, PAD_ID, EOS_ID, UNK_ID = range(4)

# fairseq-generate's own, without options; `_generation` says how they are meant.
BEAMS, LENGTH_PENALTY, EXTRA_TOKENS = 5, 1.0, 200

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


def from_fairseq(
    source: AnyPath,
    target: AnyPath,
    *,
    source_dictionary: AnyPath | None = None,
    target_dictionary: AnyPath | None = None,
    bpe_codes: AnyPath | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    is_segmented: bool = False,
) -> None:
    """Write the folder of a model, with its tokenizer, out of a checkpoint of fairseq.

    The tokenizer takes text as `fairseq-interactive` does: prepared as the training text was, which
    mostly means lower-cased or not and tokenized by Moses, and with `is_segmented`, or where there
    are no codes, also cut by subword-nmt. A target dictionary that is not the source's makes a
    second tokenizer, in the subfolder `target_tokenizer`.

    Where codes can make pieces that the dictionary lacks, and they nearly always can, such pieces
    get ids after the dictionary's, and the source's embedding gets a row for each, a copy of
    `<unk>`'s: so they are read as fairseq reads them. An embedding that source and target share is
    doubled for that. `is_segmented` keeps it shared.

    Args:
        source: a checkpoint, such as `checkpoint_best.pt`; or a folder with a `model.pt` or
            `checkpoint_best.pt` in it.
        target: the new folder.
        source_dictionary: `dict.SOURCE.txt`; `None` to look for it beside the checkpoint.
        target_dictionary: `dict.TARGET.txt`; `None` for the source's where that is given, and
            otherwise to look for it beside the checkpoint.
        bpe_codes: codes of subword-nmt or fastBPE; `None` to look for `bpecodes` or `code` beside
            the checkpoint.
        source_language: the `SOURCE` of `dict.SOURCE.txt`; `None` for what the checkpoint says.
        target_language: the `TARGET` of `dict.TARGET.txt`; `None` for what the checkpoint says.
        is_segmented: whether text comes cut into pieces, `ein@@ und`; codes are not looked for.

    Raises:
        ValueError: if something cannot be carried over exactly, with every difference listed, or if
            the file needs more than tensors and settings to be loaded; nothing is written then.
        FileNotFoundError: if there is no checkpoint or no dictionary.
        FileExistsError: if the target exists and is not an empty folder.
    """
    if is_segmented and bpe_codes is not None:
        raise ValueError(
            f"is_segmented=True takes text that is cut already, but bpe_codes={str(bpe_codes)!r} "
            f"would cut it; give one of them."
        )
    with new_folder(target) as folder:
        path = find_checkpoint(Path(source))
        checkpoint = read_checkpoint(path)
        settings = read_settings(checkpoint, str(path))
        languages = (
            source_language or settings.get("source_lang"),
            target_language or settings.get("target_lang"),
        )
        files = find_dictionaries(path.parent, source_dictionary, target_dictionary, languages)
        source_pieces, target_pieces = map(read_dictionary, files)
        differences = Differences(str(path))
        parts = read_parts(checkpoint, settings, differences)
        _check_dictionaries(parts, files, (source_pieces, target_pieces), differences)
        codes = None if is_segmented else find_codes(path.parent, bpe_codes, differences)
        differences.check()
        limit = parts.fields["max_position_embeddings"]
        tokenizer = make_tokenizer(source_pieces, codes, limit)
        num_unknown = len(tokenizer) - len(source_pieces)
        export(parts.build(num_unknown), tokenizer, folder)
        if target_pieces != source_pieces:
            target_tokenizer = make_tokenizer(target_pieces, codes, limit)
            target_tokenizer.save_pretrained(folder / TARGET_TOKENIZER)
    if num_unknown:
        is_shared = parts.fields["share_embeddings"]
        logger.warning(
            "%s: %d pieces that the codes make are not in %s. They are read as <unk>, by rows of "
            "their own in the source's embedding%s. A target that is trained on must not have "
            "them. With is_segmented=True they are not needed.",
            *(path, num_unknown, files[0]),
            ", which the target no longer shares" if is_shared else "",
        )


def vaswani_from_fairseq(
    checkpoint: Mapping[str, Any], *, name: str = "the checkpoint"
) -> VaswaniForConditionalGeneration:
    """A model that computes what fairseq's `TransformerModel` of a checkpoint does.

    Its ids are those of fairseq's dictionaries: `<s>` 0, `<pad>` 1, `</s>` 2, `<unk>` 3, and then
    the lines of the dictionary. Its generation config is what `fairseq-generate` does on its own:
    5 beams, scores divided by the length (with `</s>`), no empty translation, and an end as soon as
    5 hypotheses have ended. But fairseq stops at 200 tokens, whatever the source; here it is 200
    more than the source has, and what reaches them does not end in `</s>`.

    Args:
        checkpoint: a dictionary with `model`, the state dict, and `args` or `cfg`, the settings: as
            a `Namespace` or as a dictionary.
        name: what a message calls the checkpoint.

    Returns:
        The model, in float32 and evaluation mode.

    Raises:
        ValueError: if something cannot be carried over exactly, with every difference listed.
    """
    differences = Differences(name)
    parts = read_parts(checkpoint, read_settings(checkpoint, name), differences)
    differences.check()
    return parts.build()


def _check_dictionaries(
    parts: "Parts",
    files: tuple[Path, Path],
    pieces: tuple[list[str], list[str]],
    differences: Differences,
) -> None:
    for side, file, own in zip(("encoder", "decoder"), files, pieces, strict=True):
        rows = len(parts.weights[f"model.{side}.embed_tokens.weight"])
        differences.refuse_if(
            len(own) != rows,
            f"{file} has {len(own)} pieces, {listed(SPECIAL_PIECES)} included, but "
            f"{side}.embed_tokens.weight has {rows} rows",
        )
    differences.refuse_if(
        parts.fields["share_embeddings"] and pieces[0] != pieces[1],
        f"share_all_embeddings=True needs one dictionary, but {files[0]} and {files[1]} differ",
    )


# The checkpoint


def find_checkpoint(source: Path) -> Path:
    """The checkpoint itself, or the one in a folder.

    Raises:
        FileNotFoundError: if there is none, or a folder does not say which.
    """
    if source.is_file():
        return source
    if not source.is_dir():
        raise FileNotFoundError(f"{source} is neither a file nor a folder.")
    for name in CHECKPOINTS:
        if (source / name).is_file():
            return source / name
    others = sorted(source.glob("*.pt"))
    if len(others) == 1:
        return others[0]
    found = f"it has {listed(path.name for path in others)}; name one" if others else "it has none"
    raise FileNotFoundError(f"{source} must hold {' or '.join(CHECKPOINTS)}: {found}.")


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What a checkpoint of fairseq holds: tensors, numbers, texts and `Namespace`s, nothing else.

    Raises:
        ValueError: if the file is none, or holds objects of other classes, which are not loaded.
    """
    try:
        with torch.serialization.safe_globals([Namespace]):
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can fail in any way
        if isinstance(error, OSError) and error.filename is not None:  # it cannot be opened
            raise
        classes = _classes_named(path, error)
        if not classes:
            raise ValueError(
                f"{path} is no checkpoint that torch.load reads: it is damaged or something else."
            ) from error
        raise ValueError(
            f"{path} holds Python objects of {listed(classes)}, which are not loaded, because that "
            f"can run any code. If you trust the file, keep only its weights and settings, in an "
            f"environment that has these classes, and convert what you get:\n"
            f'  state = fairseq.checkpoint_utils.load_checkpoint_to_cpu("{path}")\n'
            f'  settings = state.get("args") or state["cfg"]["model"]\n'
            f'  torch.save({{"model": state["model"], "args": settings}}, "model.pt")'
        ) from error
    if not isinstance(checkpoint, dict):
        raise ValueError(
            f"{path} holds a {type(checkpoint).__name__}, but fairseq's checkpoints a dictionary."
        )
    return checkpoint


def _classes_named(path: Path, error: Exception) -> list[str]:
    """The classes and functions that a file would need, without loading it."""
    try:
        names = set(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    except Exception:  # a format that it does not know, such as PyTorch's before 1.6
        names = set(re.findall(r"GLOBAL ([^\s`]+)", str(error)))
    return sorted(names - {"argparse.Namespace"})


# Its settings


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


def _complete(settings: Mapping[str, Any], differences: Differences) -> dict[str, Any]:
    """The settings with what the architecture adds, after noting all that have no place here."""
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
            bool(settings.get(key)), f"{key}={settings.get(key)!r}: {meaning}, which is not here"
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


# Its tensors


class Parts(NamedTuple):
    """A model's configuration and weights; the embeddings of both sides are there, even if one."""

    fields: dict[str, Any]
    weights: dict[str, Tensor]

    def build(self, num_unknown: int = 0) -> VaswaniForConditionalGeneration:
        """The model; `num_unknown` more source pieces have the embedding of `<unk>`."""
        fields, weights = dict(self.fields), dict(self.weights)
        if num_unknown:
            fields["share_embeddings"] = False
            fields["vocab_size"] += num_unknown
            name = "model.encoder.embed_tokens.weight"
            unknown = weights[name][UNK_ID].expand(num_unknown, -1)
            weights[name] = torch.cat((weights[name], unknown))
        elif fields["share_embeddings"]:
            weights["model.shared.weight"] = weights["model.encoder.embed_tokens.weight"]
        model = build_model(VaswaniConfig(**fields), weights)
        for entry, value in _generation().items():
            setattr(model.generation_config, entry, value)
        return model


def _generation() -> dict[str, Any]:
    """What `fairseq-generate` does without options, as entries of a generation config."""
    return {
        "num_beams": BEAMS,
        "length_penalty": LENGTH_PENALTY,  # --lenpen
        "length_penalty_type": POWER,
        "max_extra_tokens": EXTRA_TOKENS,  # --max-len-b, which does not count from the source's
        "early_stopping": True,
        "min_new_tokens": 1,  # --min-len: no hypothesis is `</s>` alone
        "suppress_tokens": [PAD_ID],  # never selected
    }


def read_parts(
    checkpoint: Mapping[str, Any], settings: Mapping[str, Any], differences: Differences
) -> Parts:
    """Configuration and weights of a checkpoint, with all that cannot be carried over noted.

    Raises:
        ValueError: if it is no checkpoint of a known architecture.
    """
    full = _complete(settings, differences)
    if full.get("arch") not in ARCHITECTURES:
        differences.check()
    state = checkpoint.get("model")
    if not isinstance(state, Mapping):
        differences.add('there is no state dict under "model"')
        state = {}
    tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    for name in state.keys() - tensors.keys():
        differences.add(f"{name} is of type {type(state[name]).__name__}, no tensor")
    reader = _Reader(_current_names(tensors), full, differences)
    fields = {
        "d_model": full["encoder_embed_dim"],
        "d_ff": full["encoder_ffn_embed_dim"],
        "num_heads": full["encoder_attention_heads"],
        "encoder_layers": full["encoder_layers"],
        "decoder_layers": full["decoder_layers"],
        "dropout": full["dropout"],
        "attention_dropout": full["attention_dropout"],
        "activation_dropout": full["activation_dropout"] or full["relu_dropout"],
        "activation_function": full["activation_fn"],
        "label_smoothing": full["label_smoothing"],
        "layer_norm_eps": 1e-5,  # PyTorch's
        "attention_bias": True,
        "scale_embedding": not full.get("no_scale_embedding", False),
        "pad_token_id": PAD_ID,
        "eos_token_id": EOS_ID,
        "bos_token_id": BOS_ID,
        "decoder_start_token_id": EOS_ID,
    }
    weights: dict[str, Tensor] = {}
    for part in (reader.embeddings(), reader.positions()):
        fields |= part.fields
        weights |= part.weights
    weights |= reader.layers()
    reader.refuse_rest()
    for side in ("encoder", "decoder"):
        share = full.get(f"{side}_layerdrop")
        if share:
            logger.warning(
                "%s_layerdrop=%s is not carried over: training on would leave out no layer.",
                *(side, share),
            )
    return Parts(fields, weights)


def _current_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict with the names of fairseq 0.12, without the tensors that carry nothing."""
    norms = {
        "encoder": ("self_attn_layer_norm", "final_layer_norm"),
        "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
    }
    current: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if _carries_nothing(name):
            continue
        renamed = {}
        if name == "decoder.embed_out":
            renamed = {"decoder.output_projection.weight": tensor}
        elif match := re.fullmatch(r"(.+_attn)\.in_proj_(weight|bias)", name):
            names = [f"{match[1]}.{part}_proj.{match[2]}" for part in "qkv"]
            if len(tensor) % 3 == 0:
                renamed = dict(zip(names, tensor.chunk(3), strict=True))
        elif match := re.fullmatch(r"(encoder|decoder)(\..+)\.layer_norms\.([012])(.+)", name):
            for norm in norms[match[1]][int(match[3]) :][:1]:
                renamed = {f"{match[1]}{match[2]}.{norm}{match[4]}": tensor}
        # One that has its newer name beside it keeps the older one, and then has no place.
        is_new = not renamed.keys() & tensors.keys()
        current |= renamed if renamed and is_new else {name: tensor}
    return current


def _carries_nothing(name: str) -> bool:
    """Whether a tensor is a mark of its version, a table that is computed anew, or a copy.

    Since 0.12 an encoder layer has a second set of weights for PyTorch's fused layer, which
    fairseq fills from the first when it loads a checkpoint.
    """
    copies = r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
    marks = r"(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights))"
    return re.fullmatch(f"{copies}|{marks}", name) is not None


def sinusoidal_table(num_positions: int, d_model: int) -> Tensor:
    """The sinusoids that fairseq adds at positions 0, 1, ..., `(num_positions, d_model)`.

    Sines, then cosines, of (p + 2) / 10000^(i / (d_model / 2 - 1)), where the paper has
    10000^(2i / d_model) (section 3.5); fairseq counts from the id after `<pad>`'s.
    """
    half = d_model // 2
    position = torch.arange(num_positions, dtype=torch.float64).unsqueeze(1) + PAD_ID + 1
    angle = position / 10000 ** (torch.arange(half, dtype=torch.float64) / (half - 1))
    odd = torch.zeros(num_positions, d_model % 2, dtype=torch.float64)
    return torch.cat((angle.sin(), angle.cos(), odd), dim=1).float()


class _Reader(TensorReader):
    """A checkpoint's tensors, read by the settings."""

    def __init__(
        self, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], differences: Differences
    ) -> None:
        super().__init__(tensors, differences)
        self.settings = settings

    def embeddings(self) -> Parts:
        """The source's, the target's and the pre-softmax matrix, and which of them are one."""
        share_all = bool(self.settings.get("share_all_embeddings", False))
        tied = share_all or bool(self.settings.get("share_decoder_input_output_embed", False))
        source = self.matrix("encoder.embed_tokens.weight")
        target = self.matrix("decoder.embed_tokens.weight")
        output = "decoder.output_projection.weight"
        weights = {
            "model.encoder.embed_tokens.weight": source,
            "model.decoder.embed_tokens.weight": target,
        }
        if share_all:
            self.refuse_unequal("decoder.embed_tokens.weight", target, source)
        if not tied:
            weights["lm_head.weight"] = self.take(output, *target.shape)
        elif output in self.tensors:  # before 0.10 there is none
            self.refuse_unequal(output, self.take(output, *target.shape), target)
        fields = {
            "vocab_size": len(source),
            "target_vocab_size": len(target),
            "share_embeddings": share_all,
            "tie_word_embeddings": tied,
        }
        return Parts(fields, weights)

    def matrix(self, name: str) -> Tensor:
        """An embedding `(V, d_model)` of any V; the checkpoint alone says how many pieces."""
        tensor = self.tensors.get(name)
        rows = len(tensor) if tensor is not None and tensor.ndim else 0
        width = self.settings[f"{name.split('.')[0]}_embed_dim"]
        return self.take(name, max(rows, len(SPECIAL_PIECES)), width)

    def refuse_unequal(self, name: str, tensor: Tensor, other: Tensor) -> None:
        if name in self.tensors and not torch.equal(tensor, other):
            key = (
                "share_all_embeddings"
                if self.settings.get("share_all_embeddings")
                else "share_decoder_input_output_embed"
            )
            self.differences.add(f"{name} is not the matrix that it is tied to, though {key}=True")

    def positions(self) -> Parts:
        """Both sides' tables, of the same length.

        Sinusoids last for the longer side's limit, a sequence beyond which fairseq refuses too; of
        learned positions there are no more than the shorter table's.
        """
        limits = {"encoder": "max_source_positions", "decoder": "max_target_positions"}
        has_none = self.settings.get("no_token_positional_embeddings", False)
        learned = {
            side: self.take(
                f"{side}.embed_positions.weight",
                self.settings[limit] + PAD_ID + 1,
                self.settings[f"{side}_embed_dim"],
            )[PAD_ID + 1 :]
            for side, limit in limits.items()
            if self.settings.get(f"{side}_learned_pos", False) and not has_none
        }
        longest = max(self.settings[limit] for limit in limits.values())
        length = min([len(table) for table in learned.values()], default=longest)
        if length < longest:
            logger.warning(
                "max_position_embeddings=%d: the shorter side has learned no more positions.",
                length,
            )
        weights = {}
        for side in limits:
            width = self.settings[f"{side}_embed_dim"]
            if has_none:
                table = torch.zeros(length, width)
            elif side in learned:
                table = learned[side][:length]
            else:
                table = sinusoidal_table(length, width)
            weights[f"model.{side}.embedding.positions.weight"] = table
        fields = {"position_encoding": "learned", "max_position_embeddings": length}
        return Parts(fields, weights)

    def layers(self) -> dict[str, Tensor]:
        """The weights of all layers, by their names here."""
        names = {"self_attn": "self_attention", "encoder_attn": "cross_attention"}
        projections = {"q": "query", "k": "key", "v": "value", "out": "output"}
        linears = {"fc1": "inner", "fc2": "outer"}
        weights = {}
        for side, layer in self.each_layer():
            here, there = f"model.{side}.layers.{layer}", f"{side}.layers.{layer}"
            d_model = self.settings[f"{side}_embed_dim"]
            d_ff = self.settings[f"{side}_ffn_embed_dim"]
            shapes = {"fc1": (d_ff, d_model), "fc2": (d_model, d_ff)}
            for theirs, ours in names.items():
                if side == "encoder" and theirs == "encoder_attn":
                    continue
                for short, long in projections.items():
                    for kind, shape in (("weight", (d_model, d_model)), ("bias", (d_model,))):
                        weights[f"{here}.{ours}.{long}_proj.{kind}"] = self.take(
                            f"{there}.{theirs}.{short}_proj.{kind}", *shape
                        )
                for kind in ("weight", "bias"):
                    weights[f"{here}.{ours}_norm.{kind}"] = self.take(
                        f"{there}.{theirs}_layer_norm.{kind}", d_model
                    )
            for theirs, ours in linears.items():
                for kind, shape in (("weight", shapes[theirs]), ("bias", shapes[theirs][:1])):
                    weights[f"{here}.feed_forward.{ours}.{kind}"] = self.take(
                        f"{there}.{theirs}.{kind}", *shape
                    )
            for kind in ("weight", "bias"):
                weights[f"{here}.feed_forward_norm.{kind}"] = self.take(
                    f"{there}.final_layer_norm.{kind}", d_model
                )
        return weights

    def each_layer(self) -> Iterator[tuple[str, int]]:
        for side in ("encoder", "decoder"):
            for layer in range(self.settings[f"{side}_layers"]):
                yield side, layer


# Dictionaries and codes


def find_dictionaries(
    folder: Path,
    source: AnyPath | None,
    target: AnyPath | None,
    languages: tuple[str | None, str | None],
) -> tuple[Path, Path]:
    """The files of the source's and the target's dictionary.

    Raises:
        FileNotFoundError: if one is not there.
        ValueError: if it is not clear which is which.
    """
    if target is None:
        target = source
    found = [path if path is None else Path(path) for path in (source, target)]
    for place, (language, side) in enumerate(zip(languages, ("source", "target"), strict=True)):
        if found[place] is None and language is not None:
            found[place] = folder / f"dict.{language}.txt"
        path = found[place]
        if path is not None and not path.is_file():
            raise FileNotFoundError(
                f"{path} is not there; give {side}_dictionary, the dict.LANGUAGE.txt that "
                f"fairseq-preprocess wrote."
            )
    if found[0] is not None and found[1] is not None:
        return found[0], found[1]
    candidates = sorted(folder.glob("dict.*.txt"))
    if not candidates:
        raise FileNotFoundError(
            f"{folder} has no dict.LANGUAGE.txt; give source_dictionary, and target_dictionary "
            f"where it is another, which fairseq-preprocess wrote."
        )
    if len({path.read_bytes() for path in candidates}) > 1:
        raise ValueError(
            f"{folder} has {listed(path.name for path in candidates)}, and the checkpoint does not "
            f"say which is the source's; give source_language and target_language."
        )
    return found[0] or candidates[0], found[1] or candidates[0]


def read_dictionary(path: Path) -> list[str]:
    """The pieces of a `dict.LANGUAGE.txt` in the order of their ids, with fairseq's four before.

    Raises:
        ValueError: if a line is not `PIECE COUNT`, or a piece comes twice.
    """
    pieces = dict.fromkeys(SPECIAL_PIECES)
    for number, line in enumerate(read_lines(path), start=1):
        piece, _, count = line.rstrip().rpartition(" ")
        if not (piece and count.isdecimal()):
            raise ValueError(f"{path}, line {number} must be PIECE COUNT, got {line!r}.")
        if piece in pieces:
            raise ValueError(f"{path}, line {number}: {piece!r} is there already.")
        pieces[piece] = None
    return list(pieces)


class Codes(NamedTuple):
    """The merges of a byte-pair encoding, the first ones first.

    `end` is what stands for the end of a word: in codes of subword-nmt since 0.2 and of fastBPE the
    last characters of its last piece, in older ones a character of its own.
    """

    merges: list[tuple[str, str]]
    end: str


WORD_END = "</w>"
WORD_END_CHARACTER = "\ue000"  # of private use, so that no text has it


def find_codes(folder: Path, bpe_codes: AnyPath | None, differences: Differences) -> Codes | None:
    """The codes named, or else those beside the checkpoint; `None` where there are none.

    Raises:
        FileNotFoundError: if the codes named are not there.
        ValueError: if they are none.
    """
    if bpe_codes is not None:
        return read_codes(Path(bpe_codes))
    for name in CODES:
        if (folder / name).is_file():
            return read_codes(folder / name)
    for name in OTHER_CODES:
        differences.refuse_if(
            (folder / name).is_file(),
            f"{folder / name} cuts its text, and only codes of subword-nmt and fastBPE are carried "
            f"over; is_segmented=True takes text that is cut already",
        )
    return None


def read_codes(path: Path) -> Codes:
    """Codes as subword-nmt writes them, `a b`, with its version, or fastBPE, `a b COUNT`.

    Raises:
        ValueError: if a line is something else.
    """
    merges: dict[tuple[str, str], None] = {}  # of merges that come twice the first one counts
    end, num_fields = WORD_END, 0
    for number, line in enumerate(read_lines(path), start=1):
        if number == 1 and line.startswith("#version:"):
            version = line.removeprefix("#version:").strip()
            if version.removesuffix(".0") not in ("0.1", "0.2"):
                raise ValueError(f"{path} is of version {version} of subword-nmt, not 0.1 or 0.2.")
            end, num_fields = WORD_END if version.startswith("0.2") else WORD_END_CHARACTER, 2
            continue
        # Only at spaces: there are merges of other white space.
        fields = line.strip("\r\n ").split(" ")
        if fields == [""]:
            continue
        if (
            not num_fields
        ):  # fastBPE's have no version, and neither have subword-nmt's of before 0.2
            num_fields = 3 if len(fields) == 3 else 2
            end = WORD_END if num_fields == 3 else WORD_END_CHARACTER
        if len(fields) != num_fields or not all(field.isdecimal() for field in fields[2:]):
            wanted = "two pieces" if num_fields == 2 else "two pieces and a count"
            raise ValueError(f"{path}, line {number} must be {wanted}, got {line!r}.")
        left, right = (piece.replace(WORD_END, end) for piece in fields[:2])
        merges.setdefault((left, right))
    if not merges:
        raise ValueError(f"{path} has no codes.")
    return Codes(list(merges), end)


# Tokenizers


def make_tokenizer(
    pieces: list[str], codes: Codes | None, model_max_length: int
) -> PreTrainedTokenizerFast:
    """The tokenizer of one dictionary: of text, or without codes of text that is cut already."""
    tokenizer = (
        tokenizer_of_dictionary(pieces) if codes is None else tokenizer_of_codes(pieces, codes)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", EOS_ID)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=model_max_length,
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,  # a text that says "</s>" does not end
    )


def tokenizer_of_dictionary(pieces: list[str]) -> Tokenizer:
    """Takes text that is cut into pieces, `ein@@ und`, and joins them in decoding."""
    tokenizer = Tokenizer(
        models.WordLevel({piece: place for place, piece in enumerate(pieces)}, unk_token="<unk>")
    )
    tokenizer.normalizer = normalizer_of_segmented_text(SPECIAL_PIECES)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoder_of_segmented_text(SPECIAL_PIECES)
    return tokenizer


def tokenizer_of_codes(pieces: list[str], codes: Codes) -> Tokenizer:
    """Takes words, cuts them by the codes, and has the ids of the dictionary.

    Words are cut as subword-nmt cuts them, where its merges come in the order they were learned in.

    The dictionary's `ein@@` is called `ein` here, and its `und`, which ends a word, `und</w>`. A
    piece that is not in the dictionary, though merges make it, needs an id of its own: other
    pieces may be made of it. Such ids follow the dictionary's. A character that occurs nowhere is
    `<unk>`.

    Raises:
        ValueError: if a piece is called as a special one is.
    """
    vocabulary = {piece: place for place, piece in enumerate(SPECIAL_PIECES)}
    for place, piece in enumerate(pieces[len(SPECIAL_PIECES) :], start=len(SPECIAL_PIECES)):
        goes_on = piece.endswith(SPLIT_MARK) and piece != SPLIT_MARK
        name = piece.removesuffix(SPLIT_MARK) if goes_on else piece + codes.end
        if name in vocabulary:
            raise ValueError(f"The dictionary's {piece!r} cannot be told from {name!r}.")
        vocabulary[name] = place
    made = dict.fromkeys(name for merge in codes.merges for name in (*merge, "".join(merge)))
    for name in SPECIAL_PIECES:
        if name in made:
            raise ValueError(f"The codes make {name!r}, which is a special piece.")
    is_newer = codes.end == WORD_END
    last_merges = [] if is_newer else _last_merges({**vocabulary, **made}, codes.merges)
    merges = [*codes.merges, *last_merges]
    for name in (name for merge in merges for name in (*merge, "".join(merge))):
        vocabulary.setdefault(name, len(vocabulary))
    suffix = {"end_of_word_suffix": WORD_END} if is_newer else {}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", **suffix))
    if not is_newer:
        ends = Regex(r"(?<=\S)(?!\S)")
        tokenizer.normalizer = normalizers.Replace(ends, WORD_END_CHARACTER)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.Sequence(
        [
            *(decoders.Replace(Regex(f"^{name}$"), f"{name} ") for name in SPECIAL_PIECES),
            decoders.Replace(Regex(f"{codes.end}$"), " "),
            decoders.Fuse(),
            decoders.Replace(Regex(" $"), ""),
        ]
    )
    return tokenizer


def _last_merges(names: Iterable[str], merges: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What comes after all other merges: a word's last piece with the character that ends words."""
    end = WORD_END_CHARACTER
    characters = [name[0] for name in names if len(name) == 2 and name[1] == end]
    pieces = [name for name in (*names, *characters) if end not in name]
    last = dict.fromkeys((piece, end) for piece in pieces if piece not in ("<s>", "<pad>", "</s>"))
    known = set(merges)
    return [merge for merge in last if merge not in known]


__all__ = ["from_fairseq", "vaswani_from_fairseq"]
