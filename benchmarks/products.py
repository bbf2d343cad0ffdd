# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The matrix products of a training step and of a search, and the least time that they take.

A product is `(m, k)` by `(k, n)`. Listed are those of the formulas, padding and the masked half of
attention included; recomputation, as within fused attention, is not. Each is timed alone, over
again on the same tensors, by the faster of torch's ways: what their sum leaves of the time of the
whole is all that there is to win beside the products.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from vaswani_hf import VaswaniConfig
from vaswani_hf.layers_vaswani import onednn_linear


# Rows of states that get logits at a time: larger results leave the processor's caches.
LOGITS_AT_ONCE = 128
LEAST_SECONDS, LEAST_CALLS = 0.02, 2  # of the calls of a way that are timed
# Which factor is stored transposed: a layer's own product, and those of its backward pass.
OUTPUT, INPUT_GRADIENT, WEIGHT_GRADIENT = "x W^T", "g W", "g^T x"


@dataclass(frozen=True)
class Product:
    """`batch` products `(m, k)` by `(k, n)`; `form` says how the factors are stored."""

    m: int
    n: int
    k: int
    form: str = OUTPUT
    batch: int = 1

    @property
    def flops(self) -> int:
        """A multiplication and an addition an operation each."""
        return 2 * self.batch * self.m * self.n * self.k

    def ways(self) -> dict[str, Callable[[], Tensor]]:
        """Calls that multiply, by name, on tensors that they share."""
        sizes = (self.batch, self.m, self.k), (self.batch, self.k, self.n)
        left, right = (torch.rand(size) - 0.5 for size in sizes)
        if self.form == OUTPUT:
            right = right.mT.contiguous().mT
        elif self.form == WEIGHT_GRADIENT:
            left = left.mT.contiguous().mT
        out = torch.empty(self.batch, self.m, self.n)
        if self.batch > 1:
            return {"torch.bmm": lambda: torch.bmm(left, right, out=out)}
        x, weight, result = left[0], right[0], out[0]
        ways = {"torch.mm": lambda: torch.mm(x, weight, out=result)}
        if onednn_linear is not None and torch.backends.mkldnn.is_available():
            ways["oneDNN"] = lambda: onednn_linear(x, weight.T, None, "none", [], "")
        return ways


Products = Counter[Product]  # and how often each is done
Sizes = tuple[int, int, int]  # m, n, k


def training_products(
    config: VaswaniConfig, sentences: int, source: int, target: int, real_targets: int
) -> Products:
    """The products of forward and backward pass.

    Args:
        config: of the model.
        sentences: B.
        source: S, padded.
        target: T, padded.
        real_targets: target tokens that are no padding; they alone get logits.
    """
    products: Products = Counter()
    num_sources, num_targets = sentences * source, sentences * target

    def add(count: int, m: int, n: int, k: int, batch: int = 1) -> None:
        products[Product(m, n, k, OUTPUT, batch)] += count
        products[Product(m, k, n, INPUT_GRADIENT, batch)] += count
        products[Product(n, k, m, WEIGHT_GRADIENT, batch)] += count

    for layers, sizes in (
        (config.encoder_layers, attention_sizes(config, num_sources, num_sources)),
        (config.encoder_layers, feed_forward_sizes(config, num_sources)),
        (config.decoder_layers, attention_sizes(config, num_targets, num_targets)),
        (config.decoder_layers, attention_sizes(config, num_targets, num_sources)),
        (config.decoder_layers, feed_forward_sizes(config, num_targets)),
    ):
        for size in sizes:
            add(layers, *size)
    for layers, asking, looked_at in (
        (config.encoder_layers, source, source),
        (config.decoder_layers, target, target),
        (config.decoder_layers, target, source),
    ):
        for size in mixing_sizes(config, asking, looked_at):
            add(layers, *size, sentences * config.num_heads)
    num_chunks, rest = divmod(real_targets, LOGITS_AT_ONCE)
    for count, rows in ((num_chunks, LOGITS_AT_ONCE), (1, rest)):
        if count and rows:
            add(count, rows, config.num_target_pieces, config.d_model)
    return products


def generation_products(
    config: VaswaniConfig, sentences: int, source: int, target: int, num_beams: int
) -> Products:
    """The products of a search whose translations all have `target` tokens, with a cache.

    Args:
        config: of the model.
        sentences: B.
        source: S, without padding.
        target: T, the number of steps.
        num_beams: K; 1 for greedy search.
    """
    products: Products = Counter()
    num_sources, num_beams_in_all = sentences * source, sentences * num_beams
    heads = config.num_heads

    def add(count: int, sizes: Iterable[Sizes], batch: int = 1) -> None:
        for size in sizes:
            products[Product(*size, OUTPUT, batch)] += count

    # Once: the encoder, and the memory's keys and values in each layer of the decoder.
    encoder = [
        *attention_sizes(config, num_sources, num_sources),
        *feed_forward_sizes(config, num_sources),
    ]
    add(config.encoder_layers, encoder)
    add(config.encoder_layers, mixing_sizes(config, source, source), sentences * heads)
    add(config.decoder_layers, attention_sizes(config, 0, num_sources))
    # Each step: a position of each beam. The memory is one for all beams of a sentence.
    step = [
        *attention_sizes(config, num_beams_in_all, num_beams_in_all),
        *attention_sizes(config, num_beams_in_all, 0),
        *feed_forward_sizes(config, num_beams_in_all),
    ]
    layers = config.decoder_layers
    add(layers * target, step)
    add(layers * target, mixing_sizes(config, num_beams, source), sentences * heads)
    for length in range(1, target + 1):
        add(layers, mixing_sizes(config, 1, length), num_beams_in_all * heads)
    add(target, [(num_beams_in_all, config.num_target_pieces, config.d_model)])
    return products


def attention_sizes(config: VaswaniConfig, asking: int, looked_at: int) -> list[Sizes]:
    """The projections of an attention, by the positions that ask and those that are looked at."""
    keys, values = (config.num_heads * width for width in config.head_widths)
    sizes = [
        (asking, keys, config.d_model),  # queries
        (looked_at, keys, config.d_model),
        (looked_at, values, config.d_model),
        (asking, config.d_model, values),  # output
    ]
    return [size for size in sizes if size[0]]


def feed_forward_sizes(config: VaswaniConfig, rows: int) -> list[Sizes]:
    """The two layers of section 3.3."""
    return [(rows, config.d_ff, config.d_model), (rows, config.d_model, config.d_ff)]


def mixing_sizes(config: VaswaniConfig, asking: int, looked_at: int) -> list[Sizes]:
    """The two products of a head: scores, and the values mixed by them."""
    d_k, d_v = config.head_widths
    return [(asking, looked_at, d_k), (asking, d_v, looked_at)]


def flops(products: Mapping[Product, int]) -> int:
    """Of all products, a multiplication and an addition an operation each."""
    return sum(count * product.flops for product, count in products.items())


@torch.inference_mode()
def seconds_alone(products: Mapping[Product, int]) -> float:
    """The least time of all products: of each, by its faster way, times how often it is done."""
    return sum(
        count * min(map(_seconds_of_call, product.ways().values()))
        for product, count in products.items()
    )


def _seconds_of_call(call: Callable[[], Tensor]) -> float:
    """The median of calls after a first one, as many as fill `LEAST_SECONDS`."""
    call()
    seconds: list[float] = []
    while len(seconds) < LEAST_CALLS or sum(seconds) < LEAST_SECONDS:
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)
