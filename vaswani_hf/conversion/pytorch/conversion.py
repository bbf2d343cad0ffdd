# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""A state dict to a model, or to its folder."""

from collections.abc import Collection, Mapping
from typing import Any, get_args

from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from ...configuration_vaswani import VaswaniConfig
from ...hub.folder import export
from ...modeling_vaswani import VaswaniForConditionalGeneration
from ..differences import Differences, listed
from ..targets import AnyPath, check_target, new_folder
from ..tensors import build_model
from .layers import StackReader
from .stacks import find_stacks, refuse_annotated_transformer
from .state_dict import read_state_dict, refuse_other_values
from .tables import read_embeddings, read_positions
from .vocabularies import check_sizes, load_tokenizer, token_ids


logger = logging.get_logger(__name__)
ACTIVATIONS = get_args(VaswaniConfig.__dataclass_fields__["activation_function"].type)


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
    reads, writes = load_tokenizer(tokenizer), load_tokenizer(target_tokenizer)
    model = vaswani_from_torch(
        read_state_dict(source),
        num_heads=num_heads,
        tokenizer=reads,
        target_tokenizer=writes,
        name=str(source),
        **options,
    )
    with new_folder(target) as folder:
        export(model, reads, folder, target_tokenizer=writes)
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

    The stacks are found under any prefix, and their final normalizations are kept. Embeddings are
    recognized by `src` or `encoder` and `tgt` or `decoder` with `emb` in their names, as in
    PyTorch's translation tutorial (`src_tok_emb.embedding.weight`). The one other matrix, whatever
    its name, makes the logits. Position tables are recognized by `pos` or `pe`; without a table, as
    where it is a buffer that is not saved, positions are the paper's sinusoids (section 3.5).

    A state dict does not show everything: a model without positions, without a mask over the
    source's padding, or with another epsilon in its final normalizations has the same names as the
    model built here.

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
            dict shows. Only `False` can be carried over; a wrong `False` makes a model whose
            translations are nonsense.
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
    refuse_other_values(state_dict, differences)
    refuse_annotated_transformer(state_dict, differences)
    encoder, decoder = find_stacks(state_dict, differences)
    reader = StackReader(state_dict, differences, encoder, decoder)
    reader.ignore(*ignore)
    for unknown in sorted(set(ignore) - set(reader.names_beside)):
        differences.add(f"ignore names {unknown}, which is no tensor beside the stacks")
    _refuse_arguments(reader.d_model, num_heads, norm_first, activation_function, differences)
    fields, weights = reader.layers()
    for more_fields, more_weights in (
        read_positions(reader, positions, target_positions),
        read_embeddings(reader, source_embedding, target_embedding, output),
    ):
        fields |= more_fields
        weights |= more_weights
    given = {
        "pad_token_id": pad_token_id,
        "eos_token_id": eos_token_id,
        "decoder_start_token_id": decoder_start_token_id,
    }
    fields |= token_ids(given, tokenizer, target_tokenizer, differences)
    check_sizes(fields, tokenizer, target_tokenizer, differences)
    reader.refuse_rest()
    differences.check()
    config = VaswaniConfig(
        num_heads=num_heads,
        dropout=dropout,
        attention_dropout=dropout,
        activation_dropout=dropout,
        activation_function=activation_function,
        layer_norm_eps=layer_norm_eps,
        scale_embedding=scale_embedding,
        **fields,
    )
    model = build_model(config, weights)
    logger.info(
        "%s: a state dict does not say these, so they are taken as given: %d heads, normalization "
        "after the sub-layers (norm_first=False), %s, layer_norm_eps=%s, scale_embedding=%s, %s "
        "positions, padding %s, end %s, start %s.",
        *(name, num_heads, activation_function, layer_norm_eps, scale_embedding),
        *(config.position_encoding, config.pad_token_id),
        *(config.eos_token_id, config.decoder_start_token_id),
    )
    return model


def _refuse_arguments(
    d_model: int,
    num_heads: int,
    norm_first: bool,
    activation_function: str,
    differences: Differences,
) -> None:
    differences.refuse_if(
        norm_first,
        "norm_first=True: layers that normalize before their sub-layers (pre-norm) compute what "
        "no weights make layers compute that normalize after them",
    )
    differences.refuse_if(
        num_heads < 1 or d_model % num_heads > 0,
        f"num_heads={num_heads} does not divide d_model={d_model}",
    )
    differences.refuse_if(
        activation_function not in ACTIVATIONS,
        f"activation_function={activation_function!r} is none of {listed(ACTIVATIONS)}",
    )
