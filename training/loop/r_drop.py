# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""R-Drop: two passes with other dropout masks are to agree (Liang et al. 2021).

"R-Drop: Regularized Dropout for Neural Networks". As there, the two passes are one, over a batch
that holds each pair twice, and their distance is the mean of the two divergences,
(KL(P1 || P2) + KL(P2 || P1)) / 2. Otherwise than there, the whole is divided by 2: the loss stays
in nats per target token, of the mean of the passes.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from vaswani_hf.loss_vaswani import IGNORED, accumulation_dtype, per_token, tokens_at_once


def twice(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A batch that holds each pair twice, those of the second pass after all of the first."""
    return {name: torch.cat((tensor, tensor)) for name, tensor in inputs.items()}


class RDropLoss:
    """The loss of a batch made by `twice`, as the library's `compute_loss_func` has it.

    Args:
        alpha: factor of the divergence; 5 in the paper's translations.
        label_smoothing: epsilon_ls.
    """

    def __init__(self, alpha: float, label_smoothing: float) -> None:
        self.alpha, self.label_smoothing = alpha, label_smoothing

    def __call__(
        self, outputs: Any, labels: Tensor, num_items_in_batch: int | Tensor | None = None
    ) -> Tensor:
        """Smoothed cross-entropy of both passes, and how far one is from the other.

        Args:
            outputs: the model's, with `logits`, `(2 B, T, V)`.
            labels: `(2 B, T)`; -100 does not count.
            num_items_in_batch: target tokens of the update, of both passes, that the sum is divided
                by; `None` for those of this batch.

        Returns:
            A scalar, nats per target token.
        """
        logits, labels = outputs.logits.flatten(0, 1), labels.flatten().to(outputs.logits.device)
        is_real = labels != IGNORED
        total = _RDrop.apply(logits[is_real], labels[is_real], self.label_smoothing, self.alpha)
        return per_token(total, labels, num_items_in_batch)


class _RDrop(torch.autograd.Function):
    """The sum over tokens; its gradient is computed with it, a chunk of tokens at a time."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float, alpha: float) -> Tensor:
        """`logits` are `(2 tokens, V)`, `labels` `(2 tokens,)`, the second pass after the first."""
        num_tokens, num_pieces = len(logits) // 2, logits.shape[1]
        total = logits.new_zeros((), dtype=accumulation_dtype(logits.dtype))
        grad = torch.empty_like(logits)
        true_share, even_share, share = 1 - smoothing, smoothing / num_pieces, alpha / 2
        at_once = max(1, tokens_at_once(logits.device, num_pieces) // 2)
        for begin in range(0, num_tokens, at_once):
            end = min(begin + at_once, num_tokens)
            passes = slice(begin, end), slice(num_tokens + begin, num_tokens + end)
            logs = [logits[rows].to(total.dtype).log_softmax(dim=-1) for rows in passes]
            probs = [log_p.exp() for log_p in logs]
            for one, other in ((0, 1), (1, 0)):
                label = labels[passes[one]].unsqueeze(1)
                total -= true_share * logs[one].gather(1, label).sum()
                total -= even_share * logs[one].sum()
                ratio = logs[one] - logs[other]
                divergence = torch.linalg.vecdot(probs[one], ratio).unsqueeze(1)
                total += share * divergence.sum()
                # P + share (P (log(P / Q) - KL(P || Q) + 1) - Q), less the target distribution.
                found = ratio.mul_(share).add_(1 + share - share * divergence).mul_(probs[one])
                found.sub_(probs[other], alpha=share).sub_(even_share)
                found.scatter_add_(1, label, found.new_full(label.shape, -true_share))
                grad[passes[one]] = found
        ctx.save_for_backward(grad)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_total: Tensor) -> tuple[Tensor | None, ...]:
        """What was kept, times the gradient of the sum."""
        (grad,) = ctx.saved_tensors
        return grad * grad_total, None, None, None
