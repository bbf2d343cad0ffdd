# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""To ONNX, under the names that Hugging Face Optimum gives to the parts of a translator.

- `encoder_model`: from `input_ids` and `attention_mask` to `last_hidden_state`;
- `decoder_model`, the first step of decoding: from `input_ids`, `encoder_hidden_states` and
  `encoder_attention_mask` to `logits` and `present`;
- `decoder_with_past_model`, every later step: from `input_ids`, `encoder_attention_mask` and
  `past_key_values`, the step before's `present`, to `logits` and `present`.

The last two names stand for a tensor of each layer, side and part: `present.0.decoder.key` is `(B,
H, T, d_k)`, `present.0.encoder.value` `(B, H, S, d_v)`. The source's never change, so that later
steps take them and do not return them. Ids and masks are int64, everything else is float32.

Shapes: `B` batch, `S` source length, `T` target length, `H` heads, `V` vocabulary; all but `H` and
`V` are free.
"""

import json
import logging as standard_logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.utils import logging

from ..configuration_vaswani import VaswaniConfig
from ..extras import require
from ..hub.download import find
from ..hub.folder import save_tokenizers
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..translation.loading import load_tokenizers
from .differences import listed
from .folders import load_vaswani
from .targets import AnyPath, check_target, new_folder


logger = logging.get_logger(__name__)

ENCODER, FIRST_STEP, LATER_STEPS = "encoder_model", "decoder_model", "decoder_with_past_model"
QUANTIZATIONS = (None, "int8")
POSITIONS = "positions.table"  # in the name of what holds them
TOKENIZER_FILES = ("tokenizer_config.json", "tokenizer.json")  # one of which a tokenizer has
SIDES = ("decoder", "encoder")  # whose keys and values: the target's and the source's


def to_onnx(source: AnyPath, target: AnyPath, *, quantization: str | None = None) -> None:
    """Write a model as three ONNX graphs, with its configurations and its tokenizers.

    A graph holds a table of `max_position_embeddings` positions, also of sinusoidal ones. A longer
    source or target is an error of onnxruntime ("indices element out of data bounds", on a CPU).
    For more sinusoidal positions, raise that entry of `config.json` and convert again.

    Each graph holds all weights that it uses: shared embeddings are written three times, the rest
    of the decoder twice. Weights of more than 2 GB lie beside their graph, in a file that ends in
    `.onnx.data`.

    Args:
        source: a Vaswani folder or its id on the Hub; converted in float32.
        target: the folder to write, which must be new or empty.
        quantization: `"int8"` stores the weights of embeddings and linear layers in a byte each,
            with one scale for an embedding and one for each column of a linear layer, and rounds
            the inputs of linear layers. Positions, biases and normalizations stay in float32.
            `None` rounds nothing.

    Raises:
        ValueError: if the source is not a Vaswani model or lacks weights, or `quantization` is not
            one of those above.
        FileExistsError: if the target exists and is not an empty folder.
        ImportError: if onnx or onnxscript is missing, or onnxruntime for `"int8"`.
    """
    check_target(target)
    if quantization not in QUANTIZATIONS:
        choices = listed(repr(choice) for choice in QUANTIZATIONS)
        raise ValueError(f"quantization must be one of {choices}, got {quantization=!r}.")
    for package in ("onnx", "onnxscript", *(["onnxruntime"] if quantization else [])):
        require(package)
    found = find(source)
    with new_folder(target) as folder:
        model = _load(found, source)
        for name, graph in graphs_of(model).items():
            program = _export(graph)
            if quantization is None:
                program.save(str(folder / f"{name}.onnx"))
            else:
                _quantize(program, folder / f"{name}.onnx")
        model.config.save_pretrained(folder)
        model.generation_config.save_pretrained(folder)
        if not any((found / name).is_file() for name in TOKENIZER_FILES):
            logger.warning(f"{source} has no tokenizer, so the ONNX folder has none either.")
        else:
            save_tokenizers(folder, *load_tokenizers(found))


def _load(folder: Path, source: AnyPath) -> VaswaniForConditionalGeneration:
    """The model with the plainest attention, and with positions that a graph can hold."""
    model = load_vaswani(folder, source, attn_implementation="eager")
    stacks: tuple[Any, Any] = (model.model.encoder, model.model.decoder)
    for stack in stacks:
        positions = stack.embedding.positions
        learned = model.config.position_encoding == "learned"
        stack.embedding.positions = PositionTable(positions.weight if learned else positions.table)
    # The folder holds none of the Python files that these entries point at.
    for entry in ("auto_map", "custom_pipelines"):
        model.config.__dict__.pop(entry, None)
    return model


class PositionTable(nn.Module):
    """A table of a fixed number of positions: a graph cannot compute more of them."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Buffer(table.detach())

    def forward(self, position_ids: Tensor, num_positions: int) -> Tensor:
        """The rows `(..., d_model)` of the positions `(...)`."""
        return F.embedding(position_ids, self.table)


# The three graphs


class EncoderGraph(nn.Module):
    """Source ids to memory."""

    def __init__(self, model: VaswaniForConditionalGeneration) -> None:
        super().__init__()
        self.encoder = model.model.encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Map `(B, S)` ids and mask to `(B, S, d_model)`."""
        return self.encoder(input_ids, attention_mask).last_hidden_state


class DecoderGraph(nn.Module):
    """Target ids to logits, keys and values; what both graphs of the decoder share."""

    def __init__(self, model: VaswaniForConditionalGeneration) -> None:
        super().__init__()
        self.decoder = model.model.decoder
        self.lm_head = model.lm_head

    def decode(
        self,
        input_ids: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        cache: EncoderDecoderCache,
        sides: Sequence[str],
    ) -> tuple[Tensor, ...]:
        """The logits `(B, T, V)`, then keys and values, in the order of `cache_names`."""
        states = self.decoder(
            input_ids=input_ids,
            encoder_hidden_states=memory,
            encoder_attention_mask=memory_mask,
            past_key_values=cache,
        ).last_hidden_state
        caches = {"decoder": cache.self_attention_cache, "encoder": cache.cross_attention_cache}
        layers = zip(*(caches[side].layers for side in sides), strict=True)
        present = [part for layer in layers for kept in layer for part in (kept.keys, kept.values)]
        return self.lm_head(states), *present


class FirstStepGraph(DecoderGraph):
    """The start of a target, and the memory, to logits and all keys and values."""

    def forward(
        self, input_ids: Tensor, encoder_hidden_states: Tensor, encoder_attention_mask: Tensor
    ) -> tuple[Tensor, ...]:
        """Map `(B, T)`, `(B, S, d_model)` and `(B, S)` to what `decode` returns."""
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        return self.decode(input_ids, encoder_hidden_states, encoder_attention_mask, cache, SIDES)


class LaterStepGraph(DecoderGraph):
    """The next ids of a target, with earlier keys and values, to logits and new keys and values."""

    def forward(
        self, input_ids: Tensor, encoder_attention_mask: Tensor, past: list[Tensor]
    ) -> tuple[Tensor, ...]:
        """Map `(B, T)`, `(B, S)` and `past`, as `cache_names` orders it, to what `decode` does."""
        layers = list(zip(*[iter(past)] * 4, strict=True))
        cache = EncoderDecoderCache(
            DynamicCache([layer[:2] for layer in layers]),
            DynamicCache([layer[2:] for layer in layers]),
        )
        # Only the length of the memory is read: its keys and values are in the cache.
        memory = encoder_attention_mask.unsqueeze(-1).float()
        return self.decode(input_ids, memory, encoder_attention_mask, cache, SIDES[:1])


def cache_names(config: VaswaniConfig, prefix: str, sides: Sequence[str]) -> list[str]:
    """The names of keys and values, layer by layer, such as `present.0.decoder.key`."""
    return [
        f"{prefix}.{layer}.{side}.{part}"
        for layer in range(config.decoder_layers)
        for side in sides
        for part in ("key", "value")
    ]


class Graph(NamedTuple):
    """A module, example inputs, their free axes, and the names of inputs and outputs."""

    module: nn.Module
    inputs: tuple[Any, ...]
    axes: tuple[Any, ...]
    input_names: list[str]
    output_names: list[str]


def graphs_of(model: VaswaniForConditionalGeneration) -> dict[str, Graph]:
    """The three graphs by their file names, ready to be traced.

    No two lengths of the examples are equal and none is 1: tracing may take equal ones for one
    length, and 1 for a constant.
    """
    config = model.config
    B, S, T, past_length = 2, 5, 3, 7
    batch, source, target, past = "batch_size", "source_length", "target_length", "past_length"
    sources, targets = torch.zeros(B, S, dtype=torch.long), torch.zeros(B, T, dtype=torch.long)
    memory, mask = torch.zeros(B, S, config.d_model), torch.ones_like(sources)
    kept, kept_axes = [], []
    for _ in range(config.decoder_layers):
        for length, axis in ((past_length, past), (S, source)):
            for width in config.head_widths:
                kept.append(torch.zeros(B, config.num_heads, length, width))
                kept_axes.append({0: batch, 2: axis})
    of_source, of_target = {0: batch, 1: source}, {0: batch, 1: target}
    return {
        ENCODER: Graph(
            EncoderGraph(model),
            (sources, mask),
            (of_source, of_source),
            ["input_ids", "attention_mask"],
            ["last_hidden_state"],
        ),
        FIRST_STEP: Graph(
            FirstStepGraph(model),
            (targets, memory, mask),
            (of_target, of_source, of_source),
            ["input_ids", "encoder_hidden_states", "encoder_attention_mask"],
            ["logits", *cache_names(config, "present", SIDES)],
        ),
        LATER_STEPS: Graph(
            LaterStepGraph(model),
            (targets, mask, kept),
            (of_target, of_source, kept_axes),
            [
                *("input_ids", "encoder_attention_mask"),
                *cache_names(config, "past_key_values", SIDES),
            ],
            ["logits", *cache_names(config, "present", SIDES[:1])],
        ),
    }


def _export(graph: Graph) -> torch.onnx.ONNXProgram:
    """The graph in ONNX, without the exporter's notes, which quote paths of this machine."""
    with torch.no_grad(), _quietly():
        exported = torch.onnx.export(
            graph.module.eval(),
            graph.inputs,
            dynamo=True,
            dynamic_shapes=graph.axes,
            input_names=graph.input_names,
            output_names=graph.output_names,
            verbose=False,
        )
    program = cast(torch.onnx.ONNXProgram, exported)  # which `dynamo` returns
    require("onnx_ir.passes.common").ClearMetadataAndDocStringPass()(program.model)
    return program


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence warnings that no user can act on: axes of one name, missing torchvision."""
    root, exporter = standard_logging.getLogger(), standard_logging.getLogger("torch.onnx")
    level, handler = exporter.level, standard_logging.NullHandler()
    exporter.setLevel(standard_logging.ERROR)
    # Without a handler of the root, onnxruntime's `logging.info()` would install one.
    root.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        exporter.setLevel(level)
        root.removeHandler(handler)


def _quantize(program: torch.onnx.ONNXProgram, path: Path) -> None:
    """Write the graph with its matrices in 8 bits."""
    onnx, quantization = require("onnx"), require("onnxruntime.quantization")
    preparation = require("onnxruntime.quantization.shape_inference")
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch, _quietly():
        exact, prepared = Path(scratch) / "exact.onnx", Path(scratch) / "prepared.onnx"
        program.save(str(exact))
        is_large = len(list(Path(scratch).iterdir())) > 1  # the weights lie beside the graph
        # Makes the transpose of a tied matrix a constant; only constants are quantized.
        preparation.quant_pre_process(
            exact, prepared, skip_symbolic_shape=True, save_as_external_data=is_large
        )
        nodes = onnx.load(prepared, load_external_data=False).graph.node
        quantization.quantize_dynamic(
            prepared,
            path,
            op_types_to_quantize=["MatMul", "Gather"],
            nodes_to_exclude=[
                node.name for node in nodes if any(POSITIONS in name for name in node.input)
            ],
            per_channel=True,
            # 7 of the 8 bits: sums of full products overflow on processors without VNNI.
            reduce_range=True,
            weight_type=quantization.QuantType.QInt8,
            use_external_data_format=is_large,
        )


# Running the graphs


class OnnxModel:
    """A folder of `to_onnx`, run by onnxruntime on the CPU.

    Args:
        folder: what `to_onnx` wrote.
        num_threads: threads of each graph; 0 lets onnxruntime choose.

    Raises:
        FileNotFoundError: if the folder lacks a graph.
        ImportError: if onnxruntime is missing.
    """

    def __init__(self, folder: AnyPath, *, num_threads: int = 0) -> None:
        onnxruntime = require("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads
        self.sessions = {}
        for name in (ENCODER, FIRST_STEP, LATER_STEPS):
            path = Path(folder) / f"{name}.onnx"
            if not path.is_file():
                raise FileNotFoundError(f"{path} is missing; write the folder with to_onnx.")
            self.sessions[name] = onnxruntime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"]
            )
        self.settings: dict[str, Any] = {}  # the second file takes precedence
        for name in ("config.json", "generation_config.json"):
            entries = json.loads((Path(folder) / name).read_text(encoding="utf-8"))
            self.settings |= {key: value for key, value in entries.items() if value is not None}

    def run(self, graph: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """The outputs of a graph by name; inputs that it lacks are left out."""
        session = self.sessions[graph]
        wanted = {node.name for node in session.get_inputs()}
        outputs = session.run(None, {name: inputs[name] for name in wanted})
        names = [node.name for node in session.get_outputs()]
        return dict(zip(names, outputs, strict=True))

    def generate_greedy(
        self, input_ids: np.ndarray, attention_mask: np.ndarray, max_new_tokens: int
    ) -> np.ndarray:
        """Translate greedily, as `generate(num_beams=1)` does.

        Args:
            input_ids: `(B, S)`, int64.
            attention_mask: `(B, S)`, int64, 1 at real tokens.
            max_new_tokens: most tokens of a translation.

        Returns:
            Ids `(B, 1 + new tokens)`, the decoder's start first, padded on the right.
        """
        start, pad = self.settings["decoder_start_token_id"], self.settings["pad_token_id"]
        ends = self.settings.get("eos_token_id", [])
        memory = self.run(ENCODER, input_ids=input_ids, attention_mask=attention_mask)
        inputs = {
            "encoder_hidden_states": memory["last_hidden_state"],
            "encoder_attention_mask": attention_mask,
        }
        ids = np.full((len(input_ids), 1), start, dtype=np.int64)
        is_done = np.zeros(len(input_ids), dtype=bool)
        graph = FIRST_STEP
        while ids.shape[1] <= max_new_tokens and not is_done.all():
            outputs = self.run(graph, input_ids=ids[:, -1:], **inputs)
            pieces = np.where(is_done, pad, outputs["logits"][:, -1].argmax(axis=-1))
            ids = np.concatenate((ids, pieces[:, None]), axis=1)
            is_done |= np.isin(pieces, ends)
            for name, tensor in outputs.items():
                inputs[name.replace("present", "past_key_values")] = tensor
            graph = LATER_STEPS
        return ids


__all__ = ["OnnxModel", "to_onnx"]
