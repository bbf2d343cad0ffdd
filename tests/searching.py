"""Random models that search, their sources, and what is expected of them."""

import random
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    GenerationMixin,
)

from tests import references
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


PAD, EOS = 1, 2


# The library's own search, which it then calls with our model; and its rules in ours.
by_the_library = GenerationMixin._beam_search


LIBRARYS: dict[str, Any] = {
    "length_penalty_type": "power",
    "num_return_sequences": 4,
    "max_new_tokens": 12,
}


# Scores are sums of float32 log-probabilities; the last digits depend on the order of addition.
CLOSE = {"abs": 1e-5, "rel": 1e-5}


def draw_model(
    seed: int, vocab_size: int = 12, scale: float = 2.5, **fields: Any
) -> VaswaniForConditionalGeneration:
    """A model of random weights that never says `<pad>` and often enough says `</s>`.

    The larger the scale, the further are its distributions from uniform.
    """
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {
        "d_model": 16,
        "d_ff": 24,
        "num_heads": 2,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "output_bias": True,
    }
    model = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=vocab_size, **sizes | fields))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
        nn.init.normal_(model.lm_head.bias)
        model.lm_head.bias[PAD], model.lm_head.bias[EOS] = -1e4, 2.0
    return model.eval()


def endless(**fields: Any) -> VaswaniForConditionalGeneration:
    """A model that never says `</s>`."""
    model = draw_model(0, **fields)
    with torch.no_grad():
        model.lm_head.bias[EOS] = -1e4
    return model


def draw_sources(*lengths: int, seed: int = 0, vocab_size: int = 12) -> list[list[int]]:
    chooser = random.Random(seed)
    return [
        [*(chooser.randrange(3, vocab_size) for _ in range(length - 1)), EOS] for length in lengths
    ]


def batch_of(sources: list[list[int]], padding_side: str = "right") -> dict[str, Tensor]:
    longest = max(map(len, sources))
    rows, masks = [], []
    for source in sources:
        padding = [PAD] * (longest - len(source))
        mask = [1] * len(source)
        rows.append(source + padding if padding_side == "right" else padding + source)
        masks.append(
            mask + [0] * len(padding) if padding_side == "right" else [0] * len(padding) + mask
        )
    return {"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(masks)}


def pieces_of(row: Tensor) -> tuple[int, ...]:
    """The generated pieces of a row of ids, `</s>` included, without start and padding."""
    return tuple(piece for piece in row.tolist() if piece != PAD)


@torch.no_grad()
def log_probability(model: nn.Module, source: list[int], pieces: tuple[int, ...]) -> float:
    """Of a target, all at once and in float64: no cache, no beam."""
    start = torch.tensor([[PAD, *pieces[:-1]]])
    logits = model(input_ids=torch.tensor([source]), decoder_input_ids=start).logits[0].double()
    return logits.log_softmax(-1).gather(1, torch.tensor(pieces).unsqueeze(1)).sum().item()


def authors_search(
    model: nn.Module, source: list[int], max_extra_tokens: int, alpha: float = 0.6, end: int = EOS
) -> list[tuple[float, tuple[int, ...]]]:
    """Scores and pieces of the hypotheses that the authors' algorithm finds with four beams."""

    @torch.no_grad()
    def next_log_probs(prefix: tuple[int, ...]) -> dict[int, float]:
        start = torch.tensor([[PAD, *prefix]])
        logits = model(input_ids=torch.tensor([source]), decoder_input_ids=start).logits
        return dict(enumerate(logits[0, -1].double().log_softmax(-1).tolist()))

    return references.beam_search(next_log_probs, 4, alpha, len(source) + max_extra_tokens, end)
