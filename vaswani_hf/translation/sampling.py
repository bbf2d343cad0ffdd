# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Pieces drawn by their probabilities, the same ones whatever the batch.

The piece with the largest logit is a sample, if each logit has noise of Gumbel's distribution
(the Gumbel-max trick: Maddison et al. 2014). So a greedy search draws, if a processor of logits
adds the noise. The noise is no generator's next number: it is a hash of the seed, the source's ids,
the number of the sample, the step and the piece.

Shapes: `V` vocabulary, `k` pieces that are drawn among.
"""

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import LogitsProcessor

from .options import Sampling


MIXERS = 0x7FEB352D, 0x846CA68B - 2**32  # signed; "lowbias32" of github.com/skeeto/hash-prospector
GOLDEN = 0x9E3779B9  # 2^32 by the golden ratio: its multiples are far apart


class SamplingNoise(LogitsProcessor):
    """Makes the largest of the logits a sample.

    Args:
        sampling: what is drawn.
        sources: ids of the source of each row.
        count: rows that follow each other and are samples of one source.
    """

    def __init__(self, sampling: Sampling, sources: Sequence[Sequence[int]], count: int) -> None:
        self.sampling = sampling
        self.keys = torch.tensor(
            [row_key(sampling.seed, source, place % count) for place, source in enumerate(sources)],
            dtype=torch.int32,
        )  # (rows, 2)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Logits `(rows, V)` divided by the temperature, with noise; minus infinity beyond `k`.

        Args:
            input_ids: `(rows, length)`.
            scores: the logits.
        """
        keys = self.keys.to(scores.device)
        keys = mixed(keys + signed(input_ids.shape[1] * GOLDEN), torch.zeros_like(keys))
        k = self.sampling.topk
        if not 0 < k < scores.shape[1]:
            pieces = torch.arange(scores.shape[1], dtype=torch.int32, device=scores.device)
            return scores / self.sampling.temperature + gumbel_noise(keys, pieces)
        best, places = scores.topk(k)
        noisy = best / self.sampling.temperature + gumbel_noise(keys, places.int())
        return torch.full_like(scores, -math.inf).scatter_(1, places, noisy)

    def keep_rows(self, rows: Tensor) -> None:
        """Forget all rows but these; `(rows,)`, places among those that are left."""
        self.keys = self.keys[rows.to(self.keys.device)]


def row_key(seed: int, source: Sequence[int], number: int) -> tuple[int, int]:
    """Two words of 32 bits, signed."""
    digest = hashlib.blake2b(repr((seed, list(source), number)).encode(), digest_size=8).digest()
    first, second = (int.from_bytes(half, "big", signed=True) for half in (digest[:4], digest[4:]))
    return first, second


def signed(number: int) -> int:
    """The last 32 bits of a number, as a signed one."""
    return (number + 2**31) % 2**32 - 2**31


def gumbel_noise(keys: Tensor, pieces: Tensor) -> Tensor:
    """A number of Gumbel's distribution for each piece of each row.

    Args:
        keys: `(rows, 2)`, int32.
        pieces: `(rows, k)` or `(V,)`, int32.
    """
    first, second = keys.unsqueeze(-1).unbind(1)  # (rows, 1)
    words = mixed(pieces + first, second).bitwise_and_(2**31 - 1)
    # Small numbers are exact, and it is they that become large noise.
    uniform = words.float().add_(0.5).mul_(2.0**-31).clamp_(max=1 - 2.0**-24)
    return uniform.neg_().log1p_().neg_().log_().neg_()


def mixed(words: Tensor, key: Tensor) -> Tensor:
    """Words of 32 bits that tell nothing of those that they are made of."""
    words = words ^ (words >> 16).bitwise_and_(2**16 - 1)
    words.mul_(MIXERS[0]).bitwise_xor_(key)
    words ^= (words >> 15).bitwise_and_(2**17 - 1)
    words.mul_(MIXERS[1])
    return words.bitwise_xor_((words >> 16).bitwise_and_(2**16 - 1))


__all__ = ["SamplingNoise"]
