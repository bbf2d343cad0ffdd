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
"""What section 6.1 searches by: its settings, and the two length penalties.

Imports nothing: options are checked before the libraries are loaded.
"""

from typing import Any


WU, POWER = "wu", "power"
# Section 6.1. "never" ends the search only when no hypothesis can still become the best.
PAPER = {
    "num_beams": 4,
    "length_penalty": 0.6,
    "length_penalty_type": WU,
    "max_extra_tokens": 50,
    "early_stopping": "never",
}
MOST_LOGITS = 2**25  # of one sentence in one step: 906 beams over 37,000 pieces
LARGEST_ALPHA = 50.0  # of either sign; a million tokens to a higher power are no float64


def wu_length_penalty(num_tokens: Any, alpha: float) -> Any:
    """What a log-probability is divided by: ((5 + n) / 6)^alpha (Wu et al. 2016, equation 14).

    Args:
        num_tokens: generated tokens, `</s>` included: the authors' code counts it. A number or a
            tensor.
        alpha: `length_penalty`; 0 divides by 1.
    """
    return ((5 + num_tokens) / 6) ** alpha


def power_length_penalty(num_tokens: Any, alpha: float) -> Any:
    """What the library divides a log-probability by: n^alpha; arguments as above."""
    return num_tokens**alpha


def check_length_penalty(alpha: Any) -> None:
    """Raise a `ValueError` if what a log-probability is divided by might be no number."""
    if not (isinstance(alpha, int | float) and -LARGEST_ALPHA <= alpha <= LARGEST_ALPHA):
        raise ValueError(
            f"length_penalty must be a number in [-{LARGEST_ALPHA:g}, {LARGEST_ALPHA:g}], got "
            f"length_penalty={alpha!r}."
        )


def check_num_beams(num_beams: int, num_pieces: int) -> None:
    """Raise a `ValueError` for more beams than a step of the search has memory for.

    Args:
        num_beams: beam width.
        num_pieces: of the target vocabulary.
    """
    if num_beams * num_pieces > MOST_LOGITS:
        raise ValueError(
            f"num_beams must be at most {max(MOST_LOGITS // num_pieces, 1):,} for a target "
            f"vocabulary of {num_pieces:,} pieces, got num_beams={num_beams}."
        )
