# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""From checkpoints of `torch.nn.Transformer`, PyTorch's own encoder and decoder.

A state dict has names and numbers. It does not say how many heads there are, what stands between
the two feed-forward layers, or whether layers normalize before or after their sub-layers: what the
arguments do not say either is taken to be PyTorch's default, and the log says what was.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from ..configuration_vaswani import VaswaniConfig
from ..hub.folder import TARGET_TOKENIZER, export
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..translation.loading import load_tokenizers
from .common import (
    AnyPath,
    Differences,
    TensorReader,
    build_model,
    check_target,
    has_paper_positions,
    listed,
    new_folder,
)


logger = logging.get_logger(__name__)

PICKLED = (".pt", ".pth", ".bin", ".ckpt")
NESTED = ("state_dict", "model_state_dict", "model")  # where training scripts put the weights
ACTIVATIONS = get_args(VaswaniConfig.__dataclass_fields__["activation_function"].type)

# Words of the names that users give what `torch.nn.Transformer` leaves to them.
SOURCE_WORDS = frozenset(("src", "source", "enc", "encoder"))
TARGET_WORDS = frozenset(("tgt", "trg", "target", "dec", "decoder"))
EMBEDDING_WORDS = frozenset(("emb", "embed", "embedding", "embeddings", "lut"))
POSITION_WORDS = frozenset(("pos", "position", "positions", "positional", "pe"))


def from_torch(
    source: AnyPath,
    target: AnyPath,
    *,
    num_heads: int,
    tokenizer: AnyPath | PreTrainedTokenizerBase | None = None,
    target_tokenizer: AnyPath | PreTrainedTokenizerBase | None = None,
    **options: Any,
) -> None:
    """Write the folder of a model out of a state dict with a `torch.nn.Transformer` in it.

    Without a tokenizer the folder holds the model alone, and the three token ids must be given.

    Args:
        source: a `.safetensors` file; or a `.pt`, `.pth`, `.bin` or `.ckpt` file of tensors, with
            the state dict at its top or under `state_dict`, `model_state_dict` or `model`.
        target: the new folder.
        num_heads: number of attention heads.
        tokenizer: the source's and target's, or a folder that `AutoTokenizer` loads. It must cut
            text, and begin and end it, as the one did that the model was trained with.
        target_tokenizer: the target's, where it has a vocabulary of its own; goes to the subfolder
            `target_tokenizer`.
        options: as for `vaswani_from_torch`.

    Raises:
        ValueError: if something cannot be carried over exactly, with every difference listed, or
            if the file holds more than tensors; nothing is written then.
        FileNotFoundError: if there is no such file or no such folder with a tokenizer.
        FileExistsError: if the target exists and is not an empty folder.
    """
    check_target(target)
    reads, writes = _loaded(tokenizer), _loaded(target_tokenizer)
    model = vaswani_from_torch(
        read_state_dict(source),
        num_heads=num_heads,
        tokenizer=reads,
        target_tokenizer=writes,
        name=str(source),
        **options,
    )
    with new_folder(target) as folder:
        export(model, _NoTokenizer() if reads is None else reads, folder)
        if writes is not None:
            writes.save_pretrained(folder / TARGET_TOKENIZER)
    if reads is None:
        logger.info("%s holds no tokenizer: none was given.", target)


def vaswani_from_torch(
    state_dict: Mapping[str, Tensor],
    *,
    num_heads: int,
    pad_token_id: int | None = None,
    eos_token_id: int | None = None,
    decoder_start_token_id: int | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    target_tokenizer: PreTrainedTokenizerBase | None = None,
    norm_first: bool = False,
    activation_function: str = "relu",
    layer_norm_eps: float = 1e-5,
    dropout: float = 0.1,
    scale_embedding: bool = True,
    source_embedding: str | None = None,
    target_embedding: str | None = None,
    output: str | None = None,
    positions: str | None = None,
    target_positions: str | None = None,
    ignore: Collection[str] = (),
    name: str = "the state dict",
) -> VaswaniForConditionalGeneration:
    """A model that computes what a `torch.nn.Transformer` between embeddings and logits does.

    The stacks are found under any prefix, and their final normalizations are kept. What is around
    them has names of the user's choice: `src` or `encoder` and `tgt` or `decoder` with `emb`, as in
    PyTorch's translation tutorial (`src_tok_emb.embedding.weight`), are recognized, and so is the
    one further matrix, whatever its name, that makes the logits. Position tables are recognized by
    `pos` or `pe`; where there is none, as where it is a buffer that is not saved, positions are
    the paper's sinusoids (section 3.5). What leaves no name is not seen: a model without positions,
    without a mask over its sources' padding, or with another epsilon in its final normalizations
    looks like the one that is built here.

    Args:
        state_dict: the user's whole model, not the `torch.nn.Transformer` alone.
        num_heads: number of attention heads (`nhead`).
        pad_token_id: id of the padding piece; `None` for the tokenizers'.
        eos_token_id: id that ends a target; `None` for the target's tokenizer's.
        decoder_start_token_id: id that stands before the first target piece; `None` for the
            `bos_token_id` of the target's tokenizer.
        tokenizer: of source and target; its ids are used and its size is checked.
        target_tokenizer: the target's, where it has a vocabulary of its own.
        norm_first: whether the layers normalize before their sub-layers (pre-norm), which no state
            dict shows. Only `False` can be carried over; a wrong `False` makes a model that talks
            nonsense.
        activation_function: between the two feed-forward layers (`activation`).
        layer_norm_eps: added to the variance in layer normalization.
        dropout: `torch.nn.Transformer` drops so large a share of sub-layer outputs, attention
            weights and inner activations, and the model will when it is trained on.
        scale_embedding: whether embeddings are multiplied by sqrt(d_model).
        source_embedding: name of the source's embedding, `(V, d_model)`; `None` to recognize it.
        target_embedding: name of the target's, which may be the same.
        output: name of the matrix that makes the logits, `(V, d_model)`; the target embedding's
            where that does. Its bias is the tensor with `bias` for `weight`.
        positions: name of the table that is added to the embeddings: `(positions, d_model)`, with
            further dimensions of 1 or without.
        target_positions: name of the target's, where it has one of its own.
        ignore: names of tensors that carry nothing, such as masks.
        name: what a message calls the state dict.

    Returns:
        The model, in float32 and evaluation mode.

    Raises:
        ValueError: if something cannot be carried over exactly, with every difference listed.
    """
    differences = Differences(name)
    _check_tensors(state_dict, differences)
    _refuse_annotated_transformer(state_dict, differences)
    encoder, decoder = _stacks(state_dict, differences)
    reader = _Reader(state_dict, differences, encoder, decoder)
    reader.ignore(*ignore)
    for unknown in sorted(set(ignore) - set(reader.around)):
        differences.add(f"ignore names {unknown}, which is no tensor beside the stacks")
    differences.refuse_if(
        norm_first,
        "norm_first=True: layers that normalize before their sub-layers (pre-norm) compute what "
        "no weights make layers compute that normalize after them",
    )
    differences.refuse_if(
        num_heads < 1 or reader.d_model % num_heads > 0,
        f"num_heads={num_heads} does not divide d_model={reader.d_model}",
    )
    differences.refuse_if(
        activation_function not in ACTIVATIONS,
        f"activation_function={activation_function!r} is none of {listed(ACTIVATIONS)}",
    )
    fields, weights = reader.layers()
    for more_fields, more_weights in (
        reader.positions(positions, target_positions),
        reader.embeddings(source_embedding, target_embedding, output),
    ):
        fields |= more_fields
        weights |= more_weights
    given = {
        "pad_token_id": pad_token_id,
        "eos_token_id": eos_token_id,
        "decoder_start_token_id": decoder_start_token_id,
    }
    fields |= _token_ids(given, tokenizer, target_tokenizer, differences)
    _check_sizes(fields, tokenizer, target_tokenizer, differences)
    reader.refuse_rest()
    differences.check()
    model = build_model(
        VaswaniConfig(
            num_heads=num_heads,
            dropout=dropout,
            attention_dropout=dropout,
            activation_dropout=dropout,
            activation_function=activation_function,
            layer_norm_eps=layer_norm_eps,
            scale_embedding=scale_embedding,
            **fields,
        ),
        weights,
    )
    logger.info(
        "%s: taken as given, since no state dict says it: %d heads, normalization after the "
        "sub-layers (norm_first=False), %s, layer_norm_eps=%s, scale_embedding=%s, %s positions, "
        "padding %s, end %s, start %s.",
        *(name, num_heads, activation_function, layer_norm_eps, scale_embedding),
        *(model.config.position_encoding, model.config.pad_token_id),
        *(model.config.eos_token_id, model.config.decoder_start_token_id),
    )
    return model


# Reading a file


def read_state_dict(source: AnyPath) -> dict[str, Tensor]:
    """The state dict in a file, on the CPU; formats are those of `from_torch`.

    Raises:
        ValueError: if the file is of another kind, is damaged or holds more than tensors.
        FileNotFoundError: if there is no such file.
    """
    source = Path(source)
    if not source.is_file():
        raise FileNotFoundError(f"{source} is not a file.")
    if source.suffix == ".safetensors":
        return _read_safetensors(source)
    if source.suffix not in PICKLED:
        raise ValueError(
            f"{source} must end in .safetensors, {listed(PICKLED[:-1])} or {PICKLED[-1]}."
        )
    try:
        content = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can fail in any way
        if isinstance(error, OSError) and error.filename is not None:  # it cannot be opened
            raise
        raise ValueError(
            f"{source} cannot be read as tensors alone, and nothing else in it is run: it is "
            f"damaged or holds Python objects. Save model.state_dict() with torch.save or "
            f"safetensors and convert that."
        ) from error
    if isinstance(content, Mapping) and not _has_tensors(content):
        content = next((content[key] for key in NESTED if _has_tensors(content.get(key))), content)
    if not _has_tensors(content):
        found = f"only {listed(content) or 'nothing'}" if isinstance(content, Mapping) else "none"
        raise ValueError(
            f"{source} must hold a state dict, at its top or under {listed(NESTED)}; it has "
            f"{found}."
        )
    return dict(content)


def _read_safetensors(source: Path) -> dict[str, Tensor]:
    try:
        with safe_open(source, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            notes = file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(f"{source} is no safetensors file: {error}") from error
    # `save_model` writes one of several names of a tensor, and notes the others: {dropped: kept}.
    for dropped, kept in notes.items():
        if kept in tensors:
            tensors.setdefault(dropped, tensors[kept])
    return tensors


def _has_tensors(content: Any) -> bool:
    return isinstance(content, Mapping) and any(isinstance(x, Tensor) for x in content.values())


def _check_tensors(state_dict: Mapping[str, Any], differences: Differences) -> None:
    for name, value in state_dict.items():
        differences.refuse_if(
            not isinstance(value, Tensor), f"{name} is of type {type(value).__name__}, no tensor"
        )
    differences.check()


# Finding the parts


class _Stack(NamedTuple):
    """Where one stack is in the checkpoint, such as at `transformer.encoder.`, and its layers."""

    prefix: str
    num_layers: int
    is_decoder: bool


def _stacks(tensors: Mapping[str, Tensor], differences: Differences) -> tuple[_Stack, _Stack]:
    """The encoder and the decoder.

    Raises:
        ValueError: if there is not exactly one of each.
    """
    num_layers: dict[str, int] = {}
    for name in tensors:
        match = re.fullmatch(r"((?:.*\.)?)layers\.(\d+)\.self_attn\.(?:in|q)_proj_weight", name)
        if match:
            prefix, layer = match[1], int(match[2])
            num_layers[prefix] = max(num_layers.get(prefix, 0), layer + 1)
    stacks = [
        _Stack(
            prefix,
            count,
            any(name.startswith(f"{prefix}layers.0.multihead_attn.") for name in tensors),
        )
        for prefix, count in num_layers.items()
    ]
    for kind, is_decoder in (("encoder", False), ("decoder", True)):
        found = [stack.prefix for stack in stacks if stack.is_decoder == is_decoder]
        example = f"{kind}.layers.0.{'multihead_attn' if is_decoder else 'self_attn'}"
        differences.refuse_if(
            not found,
            f"no {kind} of torch.nn.Transformer is in it: it would have names such as "
            f"{example}.in_proj_weight, under any prefix",
        )
        differences.refuse_if(
            len(found) > 1, f"several {kind}s are in it: {listed(sorted(found))}; convert one model"
        )
    differences.check()
    encoder, decoder = sorted(stacks, key=lambda stack: stack.is_decoder)
    return encoder, decoder


def _refuse_annotated_transformer(tensors: Mapping[str, Tensor], differences: Differences) -> None:
    """Raise a `ValueError` that says why a model of the Annotated Transformer stays where it is."""
    has_own_norm = any(name.endswith((".norm.a_2", ".norm.b_2")) for name in tensors)
    has_own_attention = any(".self_attn.linears." in name for name in tensors)
    if not (has_own_norm or has_own_attention):
        return
    differences.add(
        "it has the names of the Annotated Transformer, which normalizes before each sub-layer "
        "(pre-norm); the paper and this model normalize after it, no weights make the one compute "
        "what the other does, and so no exact conversion exists: train this model on the same text"
    )
    differences.refuse_if(
        has_own_norm,
        "its LayerNorm (a_2, b_2) divides by the unbiased standard deviation plus epsilon; this "
        "model's divides by the root of variance plus epsilon",
    )
    differences.check()


def _words(name: str) -> frozenset[str]:
    """The words of a name; the "encoder" of `pos_encoder` is no side of the model."""
    return frozenset(re.split(r"[._]", re.sub(r"(pos[a-z]*)_encoder", r"\1", name.lower())))


def _of_side(names: list[str], own: frozenset[str], other: frozenset[str]) -> list[str]:
    """Names with a word of this side alone; where there are none, those of neither or both."""
    ours = [name for name in names if own & _words(name) and not other & _words(name)]
    return ours or [
        name for name in names if bool(own & _words(name)) == bool(other & _words(name))
    ]


# Carrying the weights


Part = tuple[dict[str, Any], dict[str, Tensor]]  # fields of the configuration, weights


class _Reader(TensorReader):
    """What the parts of the checkpoint become here, each as a `Part`."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        differences: Differences,
        encoder: _Stack,
        decoder: _Stack,
    ) -> None:
        super().__init__(tensors, differences)
        self.stacks = {"model.encoder.": encoder, "model.decoder.": decoder}
        first = f"{encoder.prefix}layers.0"
        self.d_model = self._size(f"{first}.self_attn.out_proj.weight")
        self.d_ff = self._size(f"{first}.linear1.weight")
        inside = tuple(
            f"{stack.prefix}{part}." for stack in (encoder, decoder) for part in ("layers", "norm")
        )
        self.around = [name for name in tensors if not name.startswith(inside)]

    def _size(self, name: str) -> int:
        """How many rows a matrix has; one that is missing is noted when it is taken."""
        tensor = self.tensors.get(name)
        return len(tensor) if tensor is not None and tensor.ndim else 1

    def layers(self) -> Part:
        """Both stacks: every layer and, where they have them, the final normalizations."""
        has_attention_bias = any(
            name.startswith(stack.prefix) and name.endswith("attn.in_proj_bias")
            for name in self.tensors
            for stack in self.stacks.values()
        )
        encoder, decoder = self.stacks.values()
        has_norm = [f"{stack.prefix}norm.weight" in self.tensors for stack in (encoder, decoder)]
        if any(has_norm) and not all(has_norm):
            which, other = (encoder, decoder) if has_norm[0] else (decoder, encoder)
            self.differences.add(
                f"{which.prefix}norm ends one stack and {other.prefix}norm is missing; this model "
                f"has both final normalizations or none"
            )
        weights: dict[str, Tensor] = {}
        for here, stack in self.stacks.items():
            for layer in range(stack.num_layers):
                weights |= self._layer(
                    f"{stack.prefix}layers.{layer}.",
                    f"{here}layers.{layer}.",
                    stack.is_decoder,
                    has_attention_bias,
                )
            if f"{stack.prefix}norm.weight" in self.tensors:
                has_bias = self._has_bias(f"{stack.prefix}layers.")
                has_bias |= f"{stack.prefix}norm.bias" in self.tensors
                weights |= self._affine(
                    f"{stack.prefix}norm", f"{here}final_norm", has_bias, self.d_model
                )
        fields = {
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "encoder_layers": encoder.num_layers,
            "decoder_layers": decoder.num_layers,
            "attention_bias": has_attention_bias,
            "final_norm": all(has_norm),
        }
        return fields, weights

    def _layer(
        self, there: str, here: str, is_decoder: bool, has_attention_bias: bool
    ) -> dict[str, Tensor]:
        d_model, d_ff = self.d_model, self.d_ff
        has_bias = self._has_bias(there)
        weights = self._attention(f"{there}self_attn", f"{here}self_attention", has_bias)
        norms = {"norm1": "self_attention_norm", "norm2": "feed_forward_norm"}
        if is_decoder:
            weights |= self._attention(f"{there}multihead_attn", f"{here}cross_attention", has_bias)
            norms |= {"norm2": "cross_attention_norm", "norm3": "feed_forward_norm"}
        if not has_attention_bias:
            weights = {name: tensor for name, tensor in weights.items() if tensor.ndim == 2}
        for norm, name in norms.items():
            weights |= self._affine(f"{there}{norm}", f"{here}{name}", has_bias, d_model)
        inner, outer = f"{here}feed_forward.inner", f"{here}feed_forward.outer"
        weights |= self._affine(f"{there}linear1", inner, has_bias, d_ff, d_model)
        weights |= self._affine(f"{there}linear2", outer, has_bias, d_model, d_ff)
        return weights

    def _attention(self, there: str, here: str, has_bias: bool) -> dict[str, Tensor]:
        """One matrix of queries, keys and values becomes three."""
        d_model = self.d_model
        apart = [f"{there}.{part}_proj_weight" for part in "qkv"]
        together = torch.zeros(3 * d_model, d_model)
        if any(name in self.tensors for name in apart):
            self.ignore(*apart)
            self.differences.add(
                f"{there} has q_proj_weight, k_proj_weight and v_proj_weight: its keys or values "
                f"are made of vectors of another width than d_model (kdim, vdim)"
            )
        else:
            together = self.take(f"{there}.in_proj_weight", 3 * d_model, d_model)
        weights = self._affine(
            f"{there}.out_proj", f"{here}.output_proj", has_bias, d_model, d_model
        )
        bias = self._bias(f"{there}.in_proj_bias", has_bias, 3 * d_model)
        for part, rows, biases in zip(
            ("query", "key", "value"), together.chunk(3), bias.chunk(3), strict=True
        ):
            weights[f"{here}.{part}_proj.weight"] = rows
            weights[f"{here}.{part}_proj.bias"] = biases
        return weights

    def _affine(self, there: str, here: str, has_bias: bool, *shape: int) -> dict[str, Tensor]:
        """The weight of a linear layer or of a layer normalization, and its bias."""
        return {
            f"{here}.weight": self.take(f"{there}.weight", *shape),
            f"{here}.bias": self._bias(f"{there}.bias", has_bias, shape[0]),
        }

    def _bias(self, name: str, has_bias: bool, size: int) -> Tensor:
        """A bias; zeros do the same as having none."""
        return self.take(name, size) if has_bias else torch.zeros(size)

    def _has_bias(self, prefix: str) -> bool:
        """Whether a layer has biases: it has all of them or, built with `bias=False`, none."""
        return any(name.startswith(prefix) and name.endswith("bias") for name in self.tensors)

    def embeddings(self, source: str | None, target: str | None, output: str | None) -> Part:
        """The embeddings and the pre-softmax layer, tied where they are equal."""
        matrices = [
            name
            for name in self.around
            if self._is_table(name)
            and self.tensors[name].ndim == 2
            and not POSITION_WORDS & _words(name)
            and name not in self.taken
        ]
        if not (matrices or source or target or output):
            self.differences.add(
                f"it has the stacks alone: there is no matrix (V, {self.d_model}) to embed the "
                f"source, to embed the target or to make the logits; convert the whole model's "
                f"state dict, where source_embedding, target_embedding and output name the three "
                f"if their names are not recognized"
            )
            return {}, {}
        embeddings = [name for name in matrices if EMBEDDING_WORDS & _words(name)]
        sources = _of_side(embeddings, SOURCE_WORDS, TARGET_WORDS)
        targets = _of_side(embeddings, TARGET_WORDS, SOURCE_WORDS)
        source = self._choose("source_embedding", source, sources, matrices)
        target = self._choose("target_embedding", target, targets, matrices)
        rest = [name for name in matrices if name not in (*embeddings, source, target)]
        output = self._choose("output", output, rest, matrices)
        if source is None or target is None or output is None:
            return {}, {}
        vocab_size, target_vocab_size = len(self.tensors[source]), len(self.tensors[target])
        read = self.take(source, vocab_size, self.d_model)
        write = self.take(target, target_vocab_size, self.d_model)
        logits = self.take(output, target_vocab_size, self.d_model)
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
        fields["output_bias"] = bias != output and bias in self.tensors
        if fields["output_bias"]:
            weights["lm_head.bias"] = self.take(bias, target_vocab_size)
        return fields, weights

    def positions(self, source: str | None, target: str | None) -> Part:
        """The position tables: the paper's are computed here, others are carried as learned."""
        tables = [
            name
            for name in self.around
            if self._is_table(name) and POSITION_WORDS & _words(name) and name not in self.taken
        ]
        options = (
            ("positions", source, SOURCE_WORDS, TARGET_WORDS),
            ("target_positions", source if target is None else target, TARGET_WORDS, SOURCE_WORDS),
        )
        chosen: list[Tensor] = []
        for option, given, own, other in options:
            candidates = _of_side(tables, own, other)
            if given is not None or candidates:
                name = self._choose(option, given, candidates, tables)
                chosen += [] if name is None else [self._table(name)]
        if all(self._is_the_papers(table) for table in chosen):
            self.differences.refuse_if(
                self.d_model % 2 > 0,
                f"it has no positions, and sinusoids need an even width, not {self.d_model}",
            )
            longest = {"max_position_embeddings": max(map(len, chosen))} if chosen else {}
            return {"position_encoding": "sinusoidal", **longest}, {}
        lengths = [len(table) for table in chosen]
        self.differences.refuse_if(
            len(chosen) == 1,
            "one side has learned positions and no table is recognized for the other; name them "
            "with positions and target_positions",
        )
        self.differences.refuse_if(
            len(set(lengths)) > 1,
            f"the sides have {listed(lengths)} positions; this model has as many on both",
        )
        weights = {
            f"model.{side}.embedding.positions.weight": table
            for side, table in zip(("encoder", "decoder"), chosen, strict=False)
        }
        return {"position_encoding": "learned", "max_position_embeddings": lengths[0]}, weights

    def _is_table(self, name: str) -> bool:
        """Whether a tensor holds vectors of the model's width, one after another."""
        tensor = self.tensors[name]
        return (
            tensor.is_floating_point()
            and tensor.ndim > 1
            and tensor.shape[-1] == self.d_model
            and tensor.numel() == max(tensor.shape[:-1]) * self.d_model
        )

    def _table(self, name: str) -> Tensor:
        return self.take(name, *self.tensors[name].shape).reshape(-1, self.d_model)

    def _is_the_papers(self, table: Tensor) -> bool:
        return self.d_model % 2 == 0 and has_paper_positions(table)

    def _choose(
        self, option: str, given: str | None, candidates: list[str], all_of_kind: list[str]
    ) -> str | None:
        """The name that was given or is recognized; `None`, and a note, where there is not one."""
        if given is not None and given in self.around and self._is_table(given):
            return given
        if given is None and len(candidates) == 1:
            return candidates[0]
        named = candidates if given is None and candidates else all_of_kind
        shown = [f"{name} {tuple(self.tensors[name].shape)}" for name in sorted(named)]
        choice = f"name one of {listed(shown)}" if shown else "there is none of that width"
        if given is not None:
            self.differences.add(
                f"{option}={given!r} is no floating point matrix of width {self.d_model} beside "
                f"the stacks; {choice}"
            )
        else:
            many = "more than one could be it" if candidates else "no name is recognized"
            self.differences.add(f"{option}: {many}; {choice}")
        return None


# Vocabularies


class _NoTokenizer:
    """Stands where a folder gets no tokenizer."""

    def save_pretrained(self, folder: AnyPath) -> None:
        """Write nothing."""


def _loaded(tokenizer: AnyPath | PreTrainedTokenizerBase | None) -> Any:
    if tokenizer is None or isinstance(tokenizer, PreTrainedTokenizerBase):
        return tokenizer
    if not Path(tokenizer).is_dir():
        raise FileNotFoundError(f"{tokenizer} is not a folder; name one with a tokenizer.")
    return load_tokenizers(tokenizer)[0]


def _token_ids(
    given: dict[str, int | None],
    tokenizer: PreTrainedTokenizerBase | None,
    target_tokenizer: PreTrainedTokenizerBase | None,
    differences: Differences,
) -> dict[str, int]:
    """The ids of the configuration: the given ones, else the tokenizers'."""
    differences.refuse_if(
        tokenizer is None and target_tokenizer is not None,
        "target_tokenizer is given and tokenizer, the source's, is not",
    )
    writer = tokenizer if target_tokenizer is None else target_tokenizer
    names = {
        "pad_token_id": "pad_token_id",
        "eos_token_id": "eos_token_id",
        "decoder_start_token_id": "bos_token_id",
    }
    ids: dict[str, int] = {}
    for field, name in names.items():
        token = getattr(writer, name, None) if given[field] is None else given[field]
        if token is None:
            lack = "" if writer is None else f", and the tokenizer has no {name}"
            differences.add(f"{field} is missing: no state dict says it{lack}; give {field}")
        else:
            ids[field] = token
    if given["pad_token_id"] is None and tokenizer is not None and writer is not None:
        differences.refuse_if(
            tokenizer.pad_token_id != writer.pad_token_id,
            f"tokenizer pads with {tokenizer.pad_token_id} and target_tokenizer with "
            f"{writer.pad_token_id}; give pad_token_id",
        )
    return ids


def _check_sizes(
    fields: dict[str, Any],
    tokenizer: PreTrainedTokenizerBase | None,
    target_tokenizer: PreTrainedTokenizerBase | None,
    differences: Differences,
) -> None:
    """Note a tokenizer with more pieces than its embedding has rows; warn of one with fewer."""
    if "vocab_size" not in fields:  # which is noted already
        return
    writer = tokenizer if target_tokenizer is None else target_tokenizer
    sides = {
        "source": (fields["vocab_size"], tokenizer),
        "target": (fields["target_vocab_size"], writer),
    }
    for side, (num_rows, vocabulary) in sides.items():
        if vocabulary is None or len(vocabulary) == num_rows:
            continue
        sizes = f"the {side} embedding has {num_rows} rows and its tokenizer {len(vocabulary)}"
        if len(vocabulary) > num_rows:
            differences.add(f"{sizes} pieces; give the tokenizer that the model was trained with")
        else:
            logger.warning(
                "%s pieces: rows %d and after stand for none. Unless they only fill up the matrix, "
                "this is not the tokenizer that the model was trained with.",
                *(sizes, len(vocabulary)),
            )


__all__ = ["from_torch", "read_state_dict", "vaswani_from_torch"]
