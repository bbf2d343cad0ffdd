"""The other implementation: PyTorch's own stacks, and around them what its users write."""

import copy
import math
import re
from collections.abc import Callable
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from vaswani_hf import VaswaniForConditionalGeneration
from vaswani_hf.conversion.pytorch import vaswani_from_torch


PAD, START, END = 1, 2, 3
IDS = {"pad_token_id": PAD, "decoder_start_token_id": START, "eos_token_id": END}
D_MODEL, D_FF, HEADS = 24, 40, 4
SOURCE_PIECES, TARGET_PIECES = 31, 37
# Both sides compute in float32, by different kernels; the largest logits are near 10.
CLOSE = {"rtol": 0, "atol": 2e-5}


class Tokens(nn.Module):
    def __init__(self, num_pieces: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_pieces, D_MODEL)


class Positions(nn.Module):
    """A table of the paper's formula, computed in float32 as in PyTorch's tutorial."""

    def __init__(self, persistent: bool = True, num_positions: int = 5000) -> None:
        super().__init__()
        rates = torch.exp(-math.log(10000) * torch.arange(0, D_MODEL, 2) / D_MODEL)
        angles = torch.outer(torch.arange(num_positions).float(), rates)
        table = torch.stack((angles.sin(), angles.cos()), dim=2).reshape(num_positions, 1, D_MODEL)
        self.register_buffer("pos_embedding", table, persistent=persistent)


class Translation(nn.Module):
    """Embeddings, `torch.nn.Transformer` and logits, under the names of PyTorch's tutorial."""

    def __init__(
        self,
        encoder_layers: int = 2,
        decoder_layers: int = 3,
        source_pieces: int = SOURCE_PIECES,
        target_pieces: int = TARGET_PIECES,
        scale: float = D_MODEL**0.5,
        persistent: bool = True,
        output_bias: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.scale = scale
        self.transformer = nn.Transformer(
            *(D_MODEL, HEADS, encoder_layers, decoder_layers, D_FF),
            batch_first=True,
            **options,
        )
        self.generator = nn.Linear(D_MODEL, target_pieces, bias=output_bias)
        self.src_tok_emb = Tokens(source_pieces)
        self.tgt_tok_emb = Tokens(target_pieces)
        self.positional_encoding = Positions(persistent)
        for parameter in self.parameters():  # no gain is 1 and no bias 0
            parameter.data += 0.2 * torch.randn_like(parameter)
        self.eval()

    def embed(self, tokens: nn.Module, ids: Tensor) -> Tensor:
        table = self.positional_encoding.pos_embedding.reshape(-1, D_MODEL)
        return tokens.embedding(ids) * self.scale + table[: ids.shape[1]]

    @torch.no_grad()
    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits `(B, T, V)` of ids `(B, S)`, padded on the right, and `(B, T)`."""
        padding = source == PAD
        length = target.shape[1]
        states = self.transformer(
            self.embed(self.src_tok_emb, source),
            self.embed(self.tgt_tok_emb, target),
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return self.generator(states)


def without_norms(**options: Any) -> Translation:
    layers = {"batch_first": True, **options}
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, **layers), 3, enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(D_MODEL, HEADS, D_FF, **layers), 1)
    return Translation(custom_encoder=encoder, custom_decoder=decoder)


def shared(**options: Any) -> Translation:
    """One matrix for both embeddings and the logits."""
    model = Translation(target_pieces=SOURCE_PIECES, **options)
    model.tgt_tok_emb.embedding.weight = model.src_tok_emb.embedding.weight
    model.generator.weight = model.src_tok_emb.embedding.weight
    return model


def tied_output() -> Translation:
    model = Translation()
    model.generator.weight = model.tgt_tok_emb.embedding.weight
    return model


def learned(**options: Any) -> Translation:
    model = Translation(**options)
    model.positional_encoding = nn.Module()
    model.positional_encoding.pos_embedding = nn.Parameter(3 * torch.randn(1, 12, D_MODEL))
    return model


def batch() -> tuple[Tensor, Tensor]:
    """Sources of 7, 5 and 2 real tokens, and targets of 6."""
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, SOURCE_PIECES, (3, 7), generator=generator)
    source[1, 5:] = PAD
    source[2, 2:] = PAD
    target = torch.randint(4, SOURCE_PIECES, (3, 6), generator=generator)
    target[:, 0] = START
    return source, target


@torch.no_grad()
def logits_of(model: VaswaniForConditionalGeneration, source: Tensor, target: Tensor) -> Tensor:
    return model(
        input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target
    ).logits


def convert(model: nn.Module, **options: Any) -> VaswaniForConditionalGeneration:
    return vaswani_from_torch(model.state_dict(), **{"num_heads": HEADS, **IDS, **options})


def renamed(model: nn.Module, **names: str) -> dict[str, Tensor]:
    """The state dict, each name that starts with a key starting with its value instead."""
    tensors = model.state_dict()
    for old, new in names.items():
        tensors = {re.sub(rf"^{old}\b", new, name): tensor for name, tensor in tensors.items()}
    return tensors


def tokenizer_of(num_pieces: int, **changes: str | None) -> PreTrainedTokenizerFast:
    specials = {
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        **changes,
    }
    pieces = ["<unk>", "<pad>", "<bos>", "<eos>", *(f"w{i}" for i in range(num_pieces - 4))]
    tokenizer = Tokenizer(models.WordLevel({p: i for i, p in enumerate(pieces)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials)


def edited(edit: Callable[[dict[str, Tensor]], Any], model: nn.Module | None = None) -> Any:
    tensors = copy.copy((model or Translation()).state_dict())
    edit(tensors)
    return tensors


def drop(*names: str) -> Callable[[dict[str, Tensor]], Any]:
    return lambda tensors: [tensors.pop(name) for name in names]


def one_norm() -> dict[str, Tensor]:
    return edited(drop("transformer.encoder.norm.weight", "transformer.encoder.norm.bias"))


def of_other_width() -> dict[str, Tensor]:
    model = Translation()
    for layer in model.transformer.decoder.layers:
        layer.multihead_attn = nn.MultiheadAttention(D_MODEL, HEADS, kdim=16, vdim=16)
    return model.state_dict()


def learned_of_lengths(source: int, target: int) -> dict[str, Tensor]:
    tables = {"src_pos.weight": torch.ones(source, D_MODEL)}
    tables |= {"tgt_pos.weight": torch.ones(target, D_MODEL)} if target else {}
    return {**Translation(persistent=False).state_dict(), **tables}


def annotated_transformer() -> dict[str, Tensor]:
    """Tensors of the names in Harvard NLP's Annotated Transformer; one layer a side."""
    names = ["src_embed.0.lut.weight", "src_embed.1.pe", "tgt_embed.0.lut.weight"]
    names += ["generator.proj.weight", "encoder.norm.a_2", "decoder.norm.a_2"]
    for side, sublayers in (("encoder", 2), ("decoder", 3)):
        names += [
            f"{side}.layers.0.sublayer.{i}.norm.{x}_2" for i in range(sublayers) for x in "ab"
        ]
        names += [f"{side}.layers.0.self_attn.linears.{i}.weight" for i in range(4)]
        names += [f"{side}.layers.0.feed_forward.w_{i}.weight" for i in (1, 2)]
    return {name: torch.zeros(8, 8) for name in names}
