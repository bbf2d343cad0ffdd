# Copyright 2026 The vaswani_hf authors.
#
# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except
# in compliance with the License. You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License
# is distributed on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express
# or implied. See the License for the specific language governing permissions and limitations.
"""The loss of section 5.4: the formula first, then the same by chunks of tokens.

Logits, and what their backward pass needs, are several times as large as all else that a training
step keeps. But the gradient of a sum over tokens is known as soon as their logits are: sum and
gradient are computed together, a chunk of tokens at a time, and only the gradients of the states
and of the matrix are kept.
"""

import re
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from .layers_vaswani import is_graph_kept, linear


IGNORED = -100  # the library's label of a position that has no target
TOKENS_AT_ONCE, TOKENS_AT_ONCE_ON_GPU = 128, 1024  # smaller products would leave a GPU idle
LOGITS_AT_ONCE = 2**20  # so many at least on a CPU: more tokens where the vocabulary is small
CHUNKS_OF_GRAPH = 16  # in a compiled graph, whatever the number of tokens
DEVICES_OF_OPERATOR = ("cpu",)  # where a compiled graph calls the loss as one operator


SoftTargets = tuple[Tensor, Tensor]  # pieces, and shares of the target


# The formula


def smoothed_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    label_smoothing: float,
    num_items_in_batch: int | Tensor | None = None,
    soft_targets: SoftTargets | None = None,
) -> Tensor:
    """Cross-entropy against a target that gives `label_smoothing / V` to every piece (section 5.4).

    The uniform part covers all V pieces, the true one included, as in Szegedy et al. (2015), which
    the paper cites.

    Args:
        logits: `(tokens, V)`.
        labels: `(tokens,)`; -100 does not count.
        label_smoothing: epsilon_ls, in [0, 1).
        num_items_in_batch: what the sum over tokens is divided by; `None` for the number of labels
            that count. In place of 0 it is 1.
        soft_targets: pieces, `(tokens, K)`, and the shares of the target that go to them, likewise;
            what is left of 1 is smoothed as above. `None` for no such pieces.

    Returns:
        A scalar in float32, or float64 of such logits, nats per target token; 0 where no label
        counts.
    """
    logits = logits.to(accumulation_dtype(logits.dtype))
    losses = F.cross_entropy(
        logits,
        labels.to(logits.device, torch.long),
        ignore_index=IGNORED,
        reduction="sum" if soft_targets is None else "none",
        label_smoothing=label_smoothing,
    )
    if soft_targets is not None:
        pieces, shares = (each.to(logits.device) for each in soft_targets)
        of_pieces = -(shares * logits.log_softmax(dim=-1).gather(1, pieces)).sum(dim=-1)
        losses = (1 - shares.sum(dim=-1)) * losses + of_pieces
        losses = losses.where(labels.to(logits.device) != IGNORED, 0).sum()
    return per_token(losses, labels, num_items_in_batch)


def per_token(total: Tensor, labels: Tensor, num_items_in_batch: int | Tensor | None) -> Tensor:
    """A sum over target tokens, divided by their number, as `smoothed_cross_entropy` says."""
    if num_items_in_batch is None:
        num_items_in_batch = (labels != IGNORED).sum()
    if not isinstance(num_items_in_batch, Tensor):
        return total / max(num_items_in_batch, 1)
    return total / num_items_in_batch.to(total.device).clamp(min=1)


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type in which numbers of a type are added up: float32, or float64 for float64."""
    return torch.promote_types(dtype, torch.float32)


# From the decoder's states


def training_loss(
    head: nn.Module,
    states: Tensor,
    labels: Tensor,
    label_smoothing: float,
    num_items_in_batch: int | Tensor | None = None,
    soft_targets: SoftTargets | None = None,
) -> Tensor:
    """The smoothed loss of target states, with logits of real targets only.

    Args:
        head: the pre-softmax layer, `(..., d_model)` to `(..., V)`.
        states: `(B, T, d_model)`.
        labels: `(B, T)`; -100 does not count.
        label_smoothing: as `smoothed_cross_entropy` has it.
        num_items_in_batch: likewise.
        soft_targets: likewise, each `(B, T, K)`.

    Returns:
        As `smoothed_cross_entropy`.
    """
    states = states.flatten(0, 1)
    if soft_targets is not None:
        soft_targets = soft_targets[0].flatten(0, 1), soft_targets[1].flatten(0, 1)
    labels = labels.flatten().to(states.device, torch.long)
    if is_chunked(head, states):
        states = states.to(head.weight.device)  # of a model that is spread over several
        total = chunked_cross_entropy(
            states, head.weight, head.bias, labels, label_smoothing, *(soft_targets or ())
        )
        return per_token(total, labels, num_items_in_batch)
    # How many targets are real depends on the data, which a compiled graph cannot.
    if not torch.compiler.is_compiling():
        is_real = labels != IGNORED
        states, labels = states[is_real], labels[is_real]  # (tokens, d_model), (tokens,)
        if soft_targets is not None:
            pieces, shares = (each.to(is_real.device) for each in soft_targets)
            soft_targets = pieces[is_real], shares[is_real]
    return smoothed_cross_entropy(
        head(states), labels, label_smoothing, num_items_in_batch, soft_targets
    )


def is_chunked(head: nn.Module, states: Tensor) -> TypeGuard[nn.Linear]:
    """Whether the loss goes by chunks, which take the head's matrix and not its `forward`."""
    return (
        # An adapter's or quantizer's layer multiplies in a way of its own.
        type(head) is nn.Linear
        and torch.is_grad_enabled()
        # Gradients that the loss scale has not enlarged yet are below float16's smallest number.
        and product_dtype(states) != torch.float16
    )


def product_dtype(states: Tensor) -> torch.dtype:
    """The type in which states are multiplied by a matrix: their own, or autocast's."""
    device = states.device.type
    if torch.is_autocast_enabled(device) and states.dtype != torch.float64:  # which it leaves alone
        return torch.get_autocast_dtype(device)
    return states.dtype


# The same by chunks


def chunked_cross_entropy(
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    label_smoothing: float,
    pieces: Tensor | None = None,
    shares: Tensor | None = None,
) -> Tensor:
    """The sum over tokens of the smoothed cross-entropy (section 5.4).

    Args:
        states: `(tokens, d_model)`.
        weight: of the pre-softmax layer, `(V, d_model)`.
        bias: of the same, `(V,)`.
        labels: `(tokens,)`; -100 does not count, and outside a graph such a token gets no logits.
        label_smoothing: epsilon_ls.
        pieces: soft targets, `(tokens, K)`; `None` for none.
        shares: of the target, likewise.

    Returns:
        A scalar, nats, in float32, or float64 where the product is.
    """
    labels, dtype = labels.to(states.device), product_dtype(states)
    if pieces is not None and shares is not None:
        pieces, shares = pieces.to(states.device), shares.to(states.device)
    arguments = (states, weight, bias, labels, label_smoothing, dtype, pieces, shares)
    if torch.compiler.is_compiling() and states.device.type in DEVICES_OF_OPERATOR:
        return loss_and_gradients(*arguments)[0]
    return ChunkedCrossEntropy.apply(*arguments, weight.requires_grad)


class ChunkedCrossEntropy(torch.autograd.Function):
    """The sum; its gradients are computed with it and kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        """Compute the sum and its gradients; arguments are those of `_loss_and_gradients`."""
        total, *gradients = _loss_and_gradients(*arguments)
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_total: Tensor) -> tuple[Tensor | None, ...]:
        """What was kept, times the gradient of the sum."""
        # In place, which saves a copy, unless the graph is kept for another backward pass. A
        # compiler does not know whether it is.
        is_kept = torch.compiler.is_compiling() or is_graph_kept()
        scale = Tensor.mul if is_kept else Tensor.mul_
        states, *head = (scale(grad, grad_total) for grad in ctx.saved_tensors)
        weight, bias = (grad if len(grad) else None for grad in head)
        return states, weight, bias, *[None] * 6


def _loss_and_gradients(
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    label_smoothing: float,
    dtype: torch.dtype,
    pieces: Tensor | None = None,
    shares: Tensor | None = None,
    has_trained_head: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sum and its gradients by `states`, `weight` and `bias`; products are in `dtype`.

    Beside an adapter the head is not trained: then the gradient of its matrix has no rows.
    """
    soft = [] if pieces is None or shares is None else [pieces, shares]
    sums = RunningSums(weight, bias, label_smoothing, dtype, has_trained_head)
    if torch.compiler.is_compiling():
        # A graph does not know how many targets are real and computes logits for all, padding
        # included; in return a compiler fuses passes, and the processor never waits for a GPU.
        missing = -len(labels) % CHUNKS_OF_GRAPH
        chunks = F.pad(states, (0, 0, 0, missing)).unflatten(0, (CHUNKS_OF_GRAPH, -1))
        targets = F.pad(labels, (0, missing), value=IGNORED).unflatten(0, (CHUNKS_OF_GRAPH, -1))
        soft = [
            F.pad(each, (0, 0, 0, missing)).unflatten(0, (CHUNKS_OF_GRAPH, -1)) for each in soft
        ]
        grads = [
            sums.add(chunks[i], targets[i], *(each[i] for each in soft))
            for i in range(CHUNKS_OF_GRAPH)
        ]
        grad_states = torch.cat(grads)[: len(states)]
    else:
        grad_states = torch.zeros_like(states)
        at_once = tokens_at_once(states.device, len(weight))
        for places in (labels != IGNORED).nonzero().squeeze(1).split(at_once):
            of_places = (each[places] for each in soft)
            grad_states[places] = sums.add(states[places], labels[places], *of_places)
    grad_weight, grad_bias = sums.grad_weight.to(weight.dtype), sums.grad_bias.to(weight.dtype)
    return sums.total, grad_states, grad_weight, grad_bias


def tokens_at_once(device: torch.device, num_pieces: int) -> int:
    """How many tokens get logits together, so that these stay in a CPU's cache."""
    if device.type == "cpu":
        return max(TOKENS_AT_ONCE, LOGITS_AT_ONCE // num_pieces)
    return TOKENS_AT_ONCE_ON_GPU


class RunningSums:
    """The loss of all chunks so far, and its gradients by matrix and bias."""

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        label_smoothing: float,
        dtype: torch.dtype,
        has_trained_head: bool,
    ) -> None:
        self.weight = weight.to(dtype)
        self.bias = None if bias is None else bias.to(dtype)
        self.true_share, self.even_share = 1 - label_smoothing, label_smoothing / len(weight)
        self.dtype = accumulation_dtype(dtype)
        self.total = weight.new_zeros((), dtype=self.dtype)
        self.has_trained_head = has_trained_head
        shape = weight if has_trained_head else weight[:0]
        self.grad_weight = torch.zeros_like(shape, dtype=self.dtype)
        self.grad_bias = weight.new_zeros(0 if bias is None else len(bias), dtype=self.dtype)

    def add(
        self,
        x: Tensor,
        label: Tensor,
        pieces: Tensor | None = None,
        shares: Tensor | None = None,
    ) -> Tensor:
        """Add states `(chunk, d_model)` with labels `(chunk,)`; return the states' gradient.

        Soft targets are `(chunk, K)`.
        """
        x, given = x.to(self.weight.dtype), x.dtype
        is_real = (label != IGNORED).unsqueeze(1)
        label = label.unsqueeze(1).where(is_real, 0)
        logits = linear(x, self.weight, self.bias).to(self.dtype)  # (chunk, V)
        logits.sub_(logits.amax(dim=-1, keepdim=True))
        true_share: float | Tensor = self.true_share
        even_share: float | Tensor = self.even_share
        if pieces is not None and shares is not None:
            shares = shares.to(self.dtype)
            rest = 1 - shares.sum(dim=-1, keepdim=True)
            true_share, even_share = rest * true_share, rest * even_share
        loss = true_share * logits.gather(1, label)
        loss += even_share * logits.sum(dim=-1, keepdim=True)
        if pieces is not None and shares is not None:
            loss += (shares * logits.gather(1, pieces)).sum(dim=-1, keepdim=True)
        # Softmax, written over the logits: new memory would cost more time than another pass.
        p = logits.exp_()
        normalizer = p.sum(dim=-1, keepdim=True)
        # Not in place: in a graph of torch 2.11 a tensor changed in place would get no gradient.
        self.total = self.total + (normalizer.log() - loss).where(is_real, 0).sum()
        # The gradient of the logits: softmax less the target distribution.
        grad = p.div_(normalizer).sub_(even_share)
        grad.scatter_(1, label, grad.gather(1, label) - true_share)
        if pieces is not None and shares is not None:
            grad.scatter_add_(1, pieces, -shares)
        if self.bias is not None:
            self.grad_bias.addmv_(grad.T, is_real.squeeze(1).to(self.dtype))
        grad, x = grad.to(x.dtype), x.where(is_real, 0)
        if self.has_trained_head and grad.dtype == self.dtype:
            torch.addmm(self.grad_weight, grad.T, x, out=self.grad_weight)
        elif self.has_trained_head:
            self.grad_weight += grad.T @ x
        return linear(grad, self.weight.T).where(is_real, 0).to(given)


# The loss as one operator, which a graph compiled for a CPU calls: compiled, its products would be
# MKL's. The operator's name holds the module's, because a process may hold a copy of this file for
# each model of the Hub, and of two operators of one name the second replaces the first.


loss_and_gradients = torch.library.custom_op(
    f"{re.sub(r'[^A-Za-z0-9]', '_', __name__)}::loss_and_gradients",
    _loss_and_gradients,
    mutates_args=(),
    schema="(Tensor states, Tensor weight, Tensor? bias, Tensor labels, float label_smoothing, "
    "ScalarType dtype, Tensor? pieces, Tensor? shares) -> (Tensor, Tensor, Tensor, Tensor)",
)


@loss_and_gradients.register_fake
def _shapes(
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    label_smoothing: float,
    dtype: torch.dtype,
    pieces: Tensor | None,
    shares: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    total = states.new_empty((), dtype=accumulation_dtype(dtype))
    grad_bias = weight.new_empty(0 if bias is None else len(bias))
    return total, torch.empty_like(states), torch.empty_like(weight), grad_bias


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*output[1:])


def _scale(ctx: Any, grad_total: Tensor, *others: Any) -> tuple[Tensor | None, ...]:
    states, weight, bias = (grad * grad_total for grad in ctx.saved_tensors)
    return states, weight, bias if len(bias) else None, *[None] * 5


loss_and_gradients.register_autograd(_scale, setup_context=_keep)


__all__ = ["chunked_cross_entropy", "smoothed_cross_entropy", "training_loss"]
