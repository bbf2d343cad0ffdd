# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Bootstrap resamples of a test set's sentences (Koehn 2004), drawn as sacrebleu draws them."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    import numpy as np

NUM_RESAMPLES = 1000  # sacrebleu's own number


def bootstrap_seed() -> str:
    """The seed, which the variable `SACREBLEU_SEED` sets; `none` draws anew each time."""
    return os.environ.get("SACREBLEU_SEED", "12345").lower()


def resamples(num_sentences: int, num_resamples: int = NUM_RESAMPLES) -> Iterator["np.ndarray"]:
    """The places of as many sentences, drawn with repetition, for each resample."""
    import numpy as np

    seed = bootstrap_seed()
    generator = np.random.default_rng(None if seed == "none" else int(seed))
    for _ in range(num_resamples):
        yield generator.choice(num_sentences, size=num_sentences)
