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
"""Layers of torch, with less time and memory on a CPU.

Each is torch's own elsewhere, and gives the same numbers up to float32's rounding here (`Dropout`
the same distribution).
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


class Linear(nn.Linear):
    """`nn.Linear`, by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """Map `(..., in_features)` to `(..., out_features)`."""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x W^T + b`, `(..., out)`, of `x`, `(..., in)`, and `weight`, `(out, in)`.

    For float32 on a CPU torch calls MKL, which on AMD's processors has half of oneDNN's speed.
    """
    if not is_for_onednn(x, weight):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled():
        return OneDnnLinear.apply(x, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def is_for_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether these are plain float32 numbers, and enough of them to be worth a longer call."""
    least = 2**24 if torch.is_grad_enabled() else 2**20
    return (
        x.device.type == "cpu"
        and x.ndim > 1
        and x.dtype == weight.dtype == torch.float32
        # Before a compiler is asked for: else tracing for ONNX takes the batch size for a constant.
        and x.numel() * weight.shape[0] >= least
        and not torch.is_autocast_enabled("cpu")
        and is_on_plain_cpu(x, weight)
        and torch.backends.mkl.is_available()  # elsewhere torch chooses well
        and torch.backends.mkldnn.is_available()
        and bool(torch.backends.mkldnn.enabled)
    )


def is_on_plain_cpu(*tensors: Tensor) -> bool:
    """Whether these lie on a CPU and nothing but autograd looks on: no compiler, no transform."""
    return (
        all(x.device.type == "cpu" and type(x) in (Tensor, nn.Parameter) for x in tensors)
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
    )


class OneDnnLinear(torch.autograd.Function):
    """oneDNN's product, to which torch itself gives no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """As `linear`."""
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Two products more."""
        x, weight = ctx.saved_tensors
        rows = grad.flatten(0, -2)
        grad_x = linear(grad, weight.T) if ctx.needs_input_grad[0] else None
        grad_weight = grad_bias = None
        if ctx.needs_input_grad[1]:
            grad_weight = linear(rows.T, x.flatten(0, -2).T)
        if ctx.needs_input_grad[2]:
            grad_bias = rows.sum(dim=0)
        return grad_x, grad_weight, grad_bias


class Dropout(nn.Dropout):
    """`nn.Dropout`, which on a CPU keeps the seed of its mask alone, where torch keeps the mask."""

    def forward(self, x: Tensor) -> Tensor:
        """Zero each number with probability `p`, and divide the others by `1 - p`."""
        if not (self.training and 0 < self.p < 1 and is_on_plain_cpu(x)):
            return super().forward(x)
        return SeededDropout.apply(x, self.p, int(torch.randint(2**32, (), device="cpu")))


class SeededDropout(torch.autograd.Function):
    """Dropout by a mask that the backward pass draws once more."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: int) -> Tensor:
        """Multiply by the mask of a seed, and by `1 / (1 - p)`."""
        ctx.arguments = p, seed
        return SeededDropout.mask(x, p, seed)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The same to the gradient."""
        return SeededDropout.mask(grad, *ctx.arguments), None, None

    @staticmethod
    def mask(x: Tensor, p: float, seed: int) -> Tensor:
        """`x` with the mask of a seed."""
        generator = torch.Generator("cpu").manual_seed(seed)
        drawn = torch.rand(x.shape, generator=generator, dtype=torch.float32, device="cpu")
        return (x * (drawn >= p)).mul_(1 / (1 - p))


class LayerNorm(nn.LayerNorm):
    """`nn.LayerNorm`, which in float32 on a CPU keeps its result for the backward pass alone.

    torch's keeps its input, and what comes after it keeps the result anyway; the one is known from
    the other (in-place activated batch normalization does the same: Rota Bulò et al. 2018). In
    training its gradient has none of its own, and its result must not be changed in place.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last dimension of `(..., d_model)`."""
        if not self.is_invertible(x):
            return super().forward(x)
        return InvertedLayerNorm.apply(x, self.weight, self.bias, self.eps)

    def is_invertible(self, x: Tensor) -> bool:
        """Whether the normalized input can be had from the result, to float32's precision."""
        return (
            self.training
            and torch.is_grad_enabled()
            and self.weight is not None
            and self.bias is not None
            and is_on_plain_cpu(x, self.weight)
            and x.dtype == self.weight.dtype == torch.float32
            and not torch.is_autocast_enabled("cpu")  # then the result is not kept
            # The result less the bias has lost as many bits as the bias is larger than the weight.
            and bool((self.weight.abs() > self.bias.abs() / 8 + 1e-6).all())
        )


class InvertedLayerNorm(torch.autograd.Function):
    """Layer normalization whose backward pass starts from its result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        """Normalize `(..., d_model)`."""
        y, _, inverse_deviation = torch.native_layer_norm(x, weight.shape, weight, bias, eps)
        ctx.save_for_backward(y, inverse_deviation, weight, bias)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """As torch's own, of the input less its mean."""
        y, inverse_deviation, weight, bias = ctx.saved_tensors
        centred = (y - bias).div_(weight).div_(inverse_deviation)
        mean = torch.zeros_like(inverse_deviation)
        grads = torch.ops.aten.native_layer_norm_backward(
            grad, centred, weight.shape, mean, inverse_deviation, weight, bias, [True, True, True]
        )
        return *grads, None


__all__ = ["Dropout", "LayerNorm", "Linear"]
