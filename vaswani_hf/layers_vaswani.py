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
"""Faster ways through torch's layers on a CPU, and when each is used.

`use_faster_layers` gives the `nn.Linear`, `nn.Dropout` and `nn.LayerNorm` of a model forwards of
this file; their types and parameters stay torch's. Results are equal up to float32's rounding, and
dropout has the same distribution. On other devices, under a compiler and in the transforms of
`torch.func` each falls back to torch's layer.
"""

import operator
import platform
import struct
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


# Names that torch does not document, looked up here once for all files of the model. Where one is
# missing, the second argument stands in for it: a model is slower then, and its results are equal.


def find_in_torch(name: str, missing: Any) -> Any:
    """What torch has under a dotted name, or `missing`."""
    try:
        return operator.attrgetter(name)(torch)
    except AttributeError:
        return missing


onednn_linear = find_in_torch("ops.mkldnn._linear_pointwise", None)
native_layer_norm = find_in_torch("native_layer_norm", None)
native_layer_norm_backward = find_in_torch("ops.aten.native_layer_norm_backward", None)
are_transforms_active = find_in_torch("_C._are_functorch_transforms_active", lambda: True)
has_global_hooks = find_in_torch("nn.modules.module._has_any_global_hook", lambda: True)
is_graph_kept = find_in_torch("_C._autograd._get_current_graph_task_keep_graph", lambda: True)


# When each faster way is used. The processor and the shapes decide, never a measurement: a run that
# is resumed goes the same ways again.


def is_intel() -> bool:
    """Whether the processor is Intel's, for which MKL is made."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux
        return "Intel" in platform.processor()


def library_of_products() -> str:
    """By what a CPU multiplies float32 matrices: `"onednn"`, or `"torch"` for torch's own choice.

    torch calls MKL where it has it, which is slower than oneDNN on processors that are not Intel's.
    """
    is_there = (
        torch.backends.mkl.is_available()
        and torch.backends.mkldnn.is_available()
        and onednn_linear is not None
    )
    return "onednn" if is_there and not is_intel() else "torch"


PRODUCTS = library_of_products()
LEAST_FOR_ONEDNN = 2**22  # multiplications; the call takes longer than torch's own
LEAST_FOR_ONEDNN_WITH_GRADIENTS = 2**24
LEAST_FOR_ONEDNN_TRANSPOSED = 2**28
LEAST_TO_RECOMPUTE = 2**19  # numbers; below it there is little memory to win
LONGEST_IN_FLOAT32 = 256  # positions; for longer ones attention in bfloat16 is as fast


def is_for_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN multiplies these: float32 on a CPU, and enough numbers to be worth it."""
    with_gradients = torch.is_grad_enabled()
    least = LEAST_FOR_ONEDNN_WITH_GRADIENTS if with_gradients else LEAST_FOR_ONEDNN
    return (
        PRODUCTS == "onednn"
        and x.ndim > 1
        and x.dtype == weight.dtype == torch.float32
        # Before a compiler is asked for: else tracing for ONNX takes the batch size for a constant.
        and x.numel() * weight.shape[0] >= least
        and is_on_plain_cpu(x, weight)
        and not torch.is_autocast_enabled("cpu")
        and bool(torch.backends.mkldnn.enabled)
    )


def is_mask_hashed(dropout: nn.Dropout, x: Tensor) -> bool:
    """Whether the mask of dropout is drawn by hashing, which uses all threads; torch uses one."""
    return dropout.training and 0 < dropout.p < 1 and is_on_plain_cpu(x)


def is_invertible(norm: nn.LayerNorm, x: Tensor) -> bool:
    """Whether the normalized input can be computed from the result, to float32's precision."""
    return (
        norm.training
        and x.numel() >= LEAST_TO_RECOMPUTE
        and torch.is_grad_enabled()
        and norm.weight is not None
        and norm.bias is not None
        and is_on_plain_cpu(x, norm.weight)
        and x.dtype == norm.weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")  # then the result is not kept
        and native_layer_norm is not None
        and native_layer_norm_backward is not None
        # The result less the bias has lost as many bits as the bias is larger than the weight.
        and bool((norm.weight.abs() > norm.bias.abs() / 8 + 1e-6).all())
    )


def is_attention_slow(module: nn.Module, query: Tensor, key: Tensor) -> bool:
    """Whether attention trains slower in bfloat16 than in float32, as torch's fused one does.

    On a CPU its backward pass multiplies small blocks one by one, for which bfloat16 is no gain.
    """
    return (
        module.training
        and query.dtype == torch.bfloat16
        and max(query.shape[2], key.shape[2]) <= LONGEST_IN_FLOAT32
        and is_on_plain_cpu(query)
    )


def is_on_plain_cpu(*tensors: Tensor) -> bool:
    """Whether these are plain tensors on a CPU, outside a compiler and a transform."""
    return (
        all(x.device.type == "cpu" and type(x) in (Tensor, nn.Parameter) for x in tensors)
        and not torch.compiler.is_compiling()
        and not are_transforms_active()
    )


# How a model gets them


def use_faster_layers(model: nn.Module) -> None:
    """Let the layers of a model choose, at each call, between torch's forward and a faster one."""
    for layer in model.modules():
        if type(layer) in FASTER:
            layer.forward = FasterForward(layer, FASTER[type(layer)])


def use_torch_layers(model: nn.Module) -> None:
    """Undo `use_faster_layers`."""
    for layer in model.modules():
        if isinstance(vars(layer).get("forward"), FasterForward):
            del layer.forward


class FasterForward:
    """What a layer has as its `forward` in place of its class's."""

    def __init__(self, layer: nn.Module, forward: Callable[[Any, Tensor], Tensor]) -> None:
        self.layer = weakref.ref(layer)  # weak, so that a model is freed when nobody uses it
        self.forward = forward

    def __call__(self, x: Tensor) -> Tensor:
        """The layer's output."""
        return self.forward(self.layer(), x)

    def __reduce__(self) -> tuple[Any, ...]:
        """What copies and pickles: a copied layer gets a forward of its own."""
        return FasterForward, (self.layer(), self.forward)


# Linear


def linear_forward(layer: nn.Linear, x: Tensor) -> Tensor:
    """As `nn.Linear`."""
    return linear(x, layer.weight, layer.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x W^T + b`, `(..., out)`, of `x`, `(..., in)`, and `weight`, `(out, in)`.

    For float32 on a CPU torch calls MKL, which on AMD's processors has half of oneDNN's speed.
    """
    if not is_for_onednn(x, weight):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled():
        return OneDnnLinear.apply(x, weight, bias)
    return onednn_linear(x, weight, bias, "none", [], "")


class OneDnnLinear(torch.autograd.Function):
    """oneDNN's product, to which torch itself gives no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """As `linear`."""
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        return onednn_linear(x, weight, bias, "none", [], "")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of `x`, `weight` and `bias` where they are asked for."""
        x, weight = ctx.saved_tensors
        rows = grad.flatten(0, -2)
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = linear(grad, weight.T)
        if ctx.needs_input_grad[1]:
            grad_weight = weight_gradient(rows, x.flatten(0, -2))
        if ctx.needs_input_grad[2]:
            grad_bias = rows.sum(dim=0)
        return grad_x, grad_weight, grad_bias


def weight_gradient(grad: Tensor, x: Tensor) -> Tensor:
    """`grad^T x`, `(out, in)`, of gradients `(rows, out)` and inputs `(rows, in)`.

    oneDNN copies what is transposed, which pays for the longer side of a large product.
    """
    (num_rows, num_out), num_in = grad.shape, x.shape[1]
    if num_rows * num_out * num_in >= LEAST_FOR_ONEDNN_TRANSPOSED:
        if num_out >= 2 * num_in:
            return linear(x.T, grad.T).T
        if num_in >= 2 * num_out:
            return linear(grad.T, x.T)
    return grad.T @ x


# Dropout


def dropout_forward(layer: nn.Dropout, x: Tensor) -> Tensor:
    """As `nn.Dropout`, but on a CPU the mask is drawn by hashing."""
    if not is_mask_hashed(layer, x):
        return type(layer).forward(layer, x)
    return HashedDropout.apply(x, layer.p, draw_hash_functions(x.numel()))


class HashedDropout(torch.autograd.Function):
    """Dropout whose backward pass makes the mask of a large tensor once more."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, factors: Tensor) -> Tensor:
        """`x` with the mask of some hash functions."""
        ctx.arguments = p, factors
        if x.numel() >= LEAST_TO_RECOMPUTE:
            return drop(x, p, factors)
        mask = make_mask(p, factors)[: x.numel()].view(x.shape)
        ctx.save_for_backward(mask)
        return (x * mask).to(x.dtype)  # float32's product, rounded once

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The same to the gradient."""
        kept = ctx.saved_tensors  # to be read once, as gradient checkpointing wants it
        if kept:
            (mask,) = kept
        elif torch.is_grad_enabled():  # the gradient will have one itself
            mask = make_mask(*ctx.arguments)[: grad.numel()].view(grad.shape)
        else:
            return drop(grad, *ctx.arguments), None, None
        return (grad * mask).to(grad.dtype), None, None


# Odd words of 32 bits, always the same. A hash function makes others of them: the word times a
# random odd factor, modulo 2^32 (multiply-shift hashing, Dietzfelbinger et al. 1997).
WORDS = torch.randint(
    *(-(2**31), 2**31, (2**13,)),
    dtype=torch.int32,
    device="cpu",
    generator=torch.Generator("cpu").manual_seed(0),
).bitwise_or_(1)
ROWS_AT_ONCE = 32  # of words: a megabyte, which stays in the processor's cache


def draw_hash_functions(num_numbers: int) -> Tensor:
    """Factors `(rows, 1)`; each makes words for as many numbers as there are `WORDS`."""
    rows = -(-num_numbers // len(WORDS))
    factors = torch.empty(rows, 1, dtype=torch.int32, device="cpu")
    return factors.random_(-(2**31), 2**31).bitwise_or_(1)


def make_mask(p: float, factors: Tensor) -> Tensor:
    """The mask of some hash functions, `(rows * words,)` in float32: 0 or `1 / (1 - p)`."""
    is_kept = torch.mul(factors, WORDS).ge_(round(p * 2**32) - 2**31)  # 0 or 1
    (scale,) = struct.unpack("i", struct.pack("f", 1 / (1 - p)))  # its bits, as an integer
    return is_kept.mul_(scale).view(torch.float32).view(-1)


def drop(x: Tensor, p: float, factors: Tensor) -> Tensor:
    """`x` with the mask of some hash functions, which is never there as a whole."""
    kept = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    source, target, at_once = x.reshape(-1), kept.view(-1), ROWS_AT_ONCE * len(WORDS)
    for block, rows in enumerate(factors.split(ROWS_AT_ONCE)):
        part = slice(block * at_once, (block + 1) * at_once)
        torch.mul(source[part], make_mask(p, rows)[: len(target[part])], out=target[part])
    return kept


# Layer normalization


def layer_norm_forward(layer: nn.LayerNorm, x: Tensor) -> Tensor:
    """As `nn.LayerNorm`, but in float32 on a CPU its result is kept for the backward pass alone.

    torch keeps the input, while the next layer keeps the result anyway. The normalized input is
    computed from the result, as in in-place activated batch normalization (Rota Bulò et al. 2018).
    In training there is no second derivative, and the result must not be changed in place.
    """
    if not is_invertible(layer, x):
        return type(layer).forward(layer, x)
    return InvertedLayerNorm.apply(x, layer.weight, layer.bias, layer.eps)


class InvertedLayerNorm(torch.autograd.Function):
    """Layer normalization whose backward pass starts from its result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        """Normalize `(..., d_model)`."""
        y, _, inverse_deviation = native_layer_norm(x, weight.shape, weight, bias, eps)
        ctx.save_for_backward(y, inverse_deviation, weight, bias)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """As torch's own, of the input less its mean."""
        y, inverse_deviation, weight, bias = ctx.saved_tensors
        normalized = torch.addcmul(-bias / weight, y, 1 / weight)
        mean, deviation = torch.zeros_like(inverse_deviation), torch.ones_like(inverse_deviation)
        grad_x, grad_weight, grad_bias = native_layer_norm_backward(
            grad, normalized, weight.shape, mean, deviation, weight, bias, [True, True, True]
        )
        return grad_x.mul_(inverse_deviation), grad_weight, grad_bias, None


# Attention


def in_float32(attend: Callable[..., tuple[Tensor, Tensor | None]]) -> Callable[..., Any]:
    """The attention backend, but it computes in float32, also under autocast.

    Its results have the queries' type.
    """

    def attend_in_float32(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        if attention_mask is not None and attention_mask.is_floating_point():
            attention_mask = attention_mask.float()
        with torch.autocast(query.device.type, enabled=False):
            heads, weights = attend(
                module, query.float(), key.float(), value.float(), attention_mask, **kwargs
            )
        return heads.to(query.dtype), None if weights is None else weights.to(query.dtype)

    return attend_in_float32


FASTER: dict[type[nn.Module], Callable[[Any, Tensor], Tensor]] = {
    nn.Linear: linear_forward,
    nn.Dropout: dropout_forward,
    nn.LayerNorm: layer_norm_forward,
}


__all__ = ["use_faster_layers", "use_torch_layers"]
